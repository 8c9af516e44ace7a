"""A day whose images lie on a web server that misbehaves, in a bucket and on this machine, through whole runs."""

import io
import json
from contextlib import ExitStack

import pytest
from PIL import Image

from tests.support.projects import DATE
from tests.support.web_server import (
    closes_mid_body,
    fails,
    is_endless,
    redirects_to,
    says_less_than_it_sends,
    stalls_after_headers,
    web_server,
)

pytestmark = pytest.mark.slow

TIMEOUT_S = 4


def photo(number=0):
    buffer = io.BytesIO()
    Image.new("RGB", (300 + number % 7, 200), (200, 30 + number % 100, 30)).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


@pytest.fixture
def servers():
    """A server that misbehaves, and a canary that nobody may ask anything."""
    with ExitStack() as stack:
        yield stack.enter_context(web_server()), stack.enter_context(web_server())


def register(project, locations):
    project.add(str(project.photos))
    project.write("DELETE FROM infer_pictures")
    project.register_images(*locations)


def allow(project, *places, **more):
    project.set("remote", allow=list(places), **more)


def run(project, *more, exit_code=0, **environ):
    return project.run_day("--workers", "2", *more, exit_code=exit_code, **environ)


def outcomes(project):
    rows = project.rows(
        "SELECT location, NULL FROM infer_predictions JOIN infer_images ON id = picture"
        " UNION ALL SELECT location, reason FROM infer_rejections JOIN infer_images ON id = picture"
    )
    return dict(rows)


@pytest.mark.parametrize("executor", ["cpu", "cuda"])
def test_every_image_of_a_mixed_day_ends_as_it_should(project, servers, s3_server, executor):
    server, canary = servers
    image = photo()
    server.answers = {
        "/p/ok.jpg": lambda handler: handler.send(image),
        "/p/flaky.jpg": fails(2, 500, image),
        "/p/stalls.jpg": stalls_after_headers,
        "/p/cut.jpg": closes_mid_body(image),
        "/p/lies.jpg": says_less_than_it_sends(image),
        "/p/endless.jpg": is_endless,
        "/p/canary.jpg": redirects_to(f"{canary.url}/secret.jpg"),
        "/p/forbidden.jpg": lambda handler: handler.status(403),
        "/p/down.jpg": lambda handler: handler.status(500),
        "/secret.jpg": lambda handler: handler.send(image),
    }
    web = server.url
    expected = {
        f"{web}/p/ok.jpg": None,
        f"{web}/p/flaky.jpg": None,
        f"{web}/p/stalls.jpg": "read_timeout",
        f"{web}/p/cut.jpg": "read_error",
        f"{web}/p/down.jpg": "read_error",
        f"{web}/p/endless.jpg": "too_large_bytes",
        f"{web}/p/canary.jpg": "location_not_allowed",
        f"{web}/p/../secret.jpg": "location_not_allowed",
        f"{web}/p/ok.jpg?X-Amz-Signature=canary": None,
        f"{web}/p/down.jpg?X-Amz-Signature=canary": "read_error",
        f"{web}/p/lies.jpg": "read_error",
        f"{web}/p/gone.jpg": "not_found",
        f"{web}/p/forbidden.jpg": "permission_denied",
        f"{web}/secret.jpg": "location_not_allowed",
        f"{canary.url}/secret.jpg": "location_not_allowed",
        f"http://localhost:{canary.port}/private.jpg": "location_not_allowed",
        f"http://user:canary@127.0.0.1:{server.port}/p/ok.jpg": "location_not_allowed",
        "http://169.254.169.254/latest/meta-data": "location_not_allowed",
        "s3://mixed/day/ok.jpg": None,
        "s3://mixed/day/gone.jpg": "not_found",
        "s3://mixed/day/empty.jpg": "empty",
        "s3://mixed/night/ok.jpg": "location_not_allowed",
        str(project.photos / "local.jpg"): None,
        str(project.photos / "missing.jpg"): "not_found",
    }
    bucket = s3_server.bucket("mixed")
    for key, body in {"day/ok.jpg": image, "day/empty.jpg": b"", "night/ok.jpg": image}.items():
        bucket.put(key, body)
    (project.photos / "local.jpg").write_bytes(image)
    register(project, expected)
    allow(
        project,
        f"{web}/p/",
        f"http://localhost:{canary.port}/",
        "http://169.254.169.254/",
        "s3://mixed/day/",
        allow_private_hosts=["127.0.0.1"],
    )
    settings = {"INFER_IMAGES__TIMEOUT_S": str(TIMEOUT_S), "INFER_IMAGES__MAX_BYTES": "5000000"} | s3_server.environ
    report = run(project, "--executor", executor, "--verbose", exit_code=3, **settings)
    assert outcomes(project) == expected
    assert not canary.hits
    assert canary.num_connections == 0
    assert server.hits["/secret.jpg"] == 0
    assert report["day"]["pending"] == 0
    project.infer("report", "--date", DATE, **settings)
    pages = [file.read_text() for file in (project.folder / "reports").iterdir()]
    assert len(pages) >= 2
    said = [*pages, json.dumps(report), project.errors]
    said += [str(project.rows(f"SELECT * FROM infer_{table}")) for table in ("rejections", "runs")]
    said += [project.infer("list", "--state", state, "--date", DATE) for state in ("rejected", "predicted")]
    assert not [text for text in said if "=canary" in text or ":canary" in text or "canary-secret" in text]
    project.infer("verify", "--date", DATE)


@pytest.mark.always
def test_nothing_remote_is_read_unless_it_is_allowed(project, servers):
    server, _ = servers
    server.serve("/a.jpg", photo())
    register(project, [f"{server.url}/a.jpg"])
    project.run_day(exit_code=2)
    assert f'[remote] allow = ["http://127.0.0.1:{server.port}/"]' in project.errors
    for place, why in (
        ("https://127.0.0.1/", "scheme 'http'"),
        ("http://127.0.0.2/", f"host '127.0.0.1:{server.port}'"),
        (f"{server.url}/day/", "path '/a.jpg'"),
    ):
        allow(project, place)
        project.run_day(exit_code=2)
        assert f"{why}: not allowed" in project.errors.replace(f" on 127.0.0.1:{server.port}", ""), project.errors
    allow(project, server.url)
    project.run_day(exit_code=2)
    assert '[remote] allow_private_hosts = ["127.0.0.1"]' in project.errors
    assert server.num_connections == 0


def test_a_bucket_that_is_gone_or_down_stops_the_run(project, s3_server):
    register(project, [f"s3://no-such-bucket/{number}.jpg" for number in range(220)])
    allow(project, "s3://no-such-bucket/", retries=1)
    run(project, exit_code=14, **s3_server.environ)
    run(project, exit_code=14, **s3_server.environ | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]


PAGE = b"<!DOCTYPE html><title>Sign in</title>"


@pytest.mark.parametrize("body", [b"", PAGE, b'{"error": "try later"}', b"<?xml version='1.0'?><Error/>", bytes(99)])
def test_answers_that_are_no_pictures_are_the_servers_fault(project, servers, body):
    server, _ = servers
    names = [f"/{number}.jpg" for number in range(5)]
    register(project, [server.url + name for name in names])
    allow(project, server.url, allow_private_hosts=["127.0.0.1"], retries=1)
    for name in names:
        server.serve(name, body)
    told = run(project, exit_code=14)["error"]
    assert server.url in told
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]
    for name in names[:4]:
        server.serve(name, photo())
    server.answers[names[0]] = lambda handler: handler.send(body if handler.server.hits[names[0]] < 4 else photo())
    report = run(project)
    assert (report["predicted"], report["reasons"]) == (4, {"read_error": 1})
    server.serve(names[4], photo())
    assert run(project)["predicted"] == 1


def test_a_bucket_whose_objects_are_all_empty_ends_the_run_and_one_empty_object_does_not(project, s3_server):
    bucket = s3_server.bucket("hollow")
    for number in range(3):
        bucket.put(f"{number}.jpg", b"")
    register(project, [f"s3://hollow/{number}.jpg" for number in range(3)])
    allow(project, "s3://hollow/")
    run(project, exit_code=14, **s3_server.environ)
    bucket.put("0.jpg", photo())
    bucket.put("1.jpg", PAGE)
    assert run(project, **s3_server.environ)["reasons"] == {"empty": 1, "read_error": 1}


def test_images_add_lists_a_bucket_and_doctor_looks_at_it(project, servers, s3_server):
    server, _ = servers
    bucket = s3_server.bucket("added")
    for name in ("x/1.jpg", "x/deep/2.jpg", "x/notes.txt", "x/.hidden/3.jpg", "y/4.jpg"):
        bucket.put(name, photo())
    server.serve("/a.jpg", photo())
    add = ("images", "add", "s3://added/x/", f"{server.url}/a.jpg?v=1", "--date", DATE)
    assert "3 images added" in project.infer(*add, **s3_server.environ)
    assert "0 images added" in project.infer(*add, **s3_server.environ)
    project.infer(*add[:2], "s3://added/x/1.jpg?versionId=1", exit_code=2)
    locations = ["s3://added/x/1.jpg", "s3://added/x/deep/2.jpg", f"{server.url}/a.jpg?v=1"]
    assert [location for (location,) in project.rows("SELECT location FROM infer_images ORDER BY id")] == locations
    environ = s3_server.environ | {"INFER_REMOTE__ALLOW_PRIVATE_HOSTS": "127.0.0.1"}
    assert run(project, **environ)["predicted"] == 3
    found = project.infer("doctor", exit_code=0, **environ)
    assert "s3://added/x/ is there" in found
    assert f"{server.url}/ answers with HTTP 404" in found
    found = project.infer("doctor", exit_code=14, **environ | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    assert "FAIL  remote: s3://added/x/" in found
