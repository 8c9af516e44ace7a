import hashlib
import time

import pytest

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.errors import StorageUnavailable, UsageError, install
from infer_app.base.locations import AllowedPrefix, RemoteAccess
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read import remote
from infer_app.predict.images.read.read_image import read_image
from tests.support.refusals import refusal
from tests.support.web_server import never_answers, web_server

pytest.importorskip("s3fs")
pytest.importorskip("moto")

CONTENT = bytes(range(256)) * 40
MAX_BYTES = 100_000


@pytest.fixture(scope="module")
def bucket(s3_server):
    return s3_server.bucket("photos")


@pytest.fixture(autouse=True)
def environment(s3_server, monkeypatch):
    for name, value in s3_server.environ.items():
        monkeypatch.setenv(name, value)
    remote.readers_of.cache_clear()
    yield
    remote.readers_of.cache_clear()


def access(*places, timeout_s=60.0, retries=1):
    return RemoteAccess(
        tuple(map(AllowedPrefix.parse, places or ("s3://photos/day/",))), timeout_s=timeout_s, retries=retries
    )


def read(location, *places, **how):
    return read_image(location, ReadLimits((), MAX_BYTES, access(*places, **how)))


@pytest.mark.parametrize("name", ["a.jpg", "a b#c?d%20é.jpg", "a//b.jpg"])
def test_an_object_is_read_whole_whatever_its_name(bucket, name):
    bucket.put(f"day/{name}", CONTENT)
    image = read(f"s3://photos/day/{name}")
    assert image.data == CONTENT
    assert image.facts == FileFacts(len(CONTENT), None, hashlib.sha256(CONTENT).hexdigest())


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("s3://photos/day/empty.jpg", Reason.EMPTY),
        ("s3://photos/day/large.jpg", Reason.TOO_LARGE_BYTES),
        ("s3://photos/day/gone.jpg", Reason.NOT_FOUND),
        ("s3://no-such-bucket/a.jpg", Reason.NOT_FOUND),
        ("s3://photos/day/", Reason.NOT_REGULAR_FILE),
        ("s3://photos/other.jpg", Reason.LOCATION_NOT_ALLOWED),
    ],
)
def test_only_objects_below_a_place_and_of_a_limited_size_are_read(bucket, location, reason):
    """Which locations lie below a place is told by tests/unit/base/test_locations.py."""
    sizes = {"day/empty.jpg": 0, "day/large.jpg": MAX_BYTES + 1, "day/cap.jpg": MAX_BYTES, "other.jpg": 9}
    for name, size in sizes.items():
        bucket.put(name, bytes(size))
    places = ("s3://photos/day/", "s3://no-such-bucket/")
    assert refusal(read, location, *places).reason is reason
    assert len(read("s3://photos/day/cap.jpg").data) == MAX_BYTES


def test_without_credentials_nothing_is_read_and_none_are_told(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    found = refusal(read, "s3://photos/day/a.jpg")
    assert (found.reason, found.detail) == (Reason.PERMISSION_DENIED, "NoCredentialsError")


def test_a_storage_that_is_down_is_a_read_error_and_gone(monkeypatch):
    with web_server() as gone:
        monkeypatch.setenv("AWS_ENDPOINT_URL", gone.url)
    found = refusal(read, "s3://photos/day/a.jpg")
    assert found.reason is Reason.READ_ERROR
    assert "tried 2 times" in found.detail
    with pytest.raises(StorageUnavailable):
        remote.check_reachable(AllowedPrefix.parse("s3://photos/day/"), access())


@pytest.mark.parametrize(("code", "hits"), [(503, 3), (500, 3), (403, 1)])
def test_busy_is_tried_again_and_forbidden_is_not(monkeypatch, code, hits):
    with web_server() as server:
        server.answers["/photos/day/a.jpg"] = lambda handler: handler.status(code)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        found = refusal(read, "s3://photos/day/a.jpg", retries=2)
        assert sum(server.hits.values()) == hits
    assert found.reason is (Reason.PERMISSION_DENIED if code == 403 else Reason.READ_ERROR)


def test_a_storage_that_stalls_ends_at_the_deadline(monkeypatch):
    with web_server() as server:
        server.answers["/photos/day/a.jpg"] = never_answers
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        refusal(read, "s3://photos/day/b.jpg")  # loads what it needs
        started = time.monotonic()
        assert refusal(read, "s3://photos/day/a.jpg", timeout_s=1.0).reason is Reason.READ_TIMEOUT
        assert time.monotonic() - started < 20


def test_a_place_is_looked_at(bucket):
    bucket.put("day/a.jpg", CONTENT)
    assert remote.probe(AllowedPrefix.parse("s3://photos/day/"), access()) == "is there"
    for gone in ("s3://photos/no-such-folder/", "s3://no-such-bucket/"):
        with pytest.raises(StorageUnavailable, match="not_found"):
            remote.probe(AllowedPrefix.parse(gone), access())


def test_a_listing_goes_folder_by_folder(s3_server):
    bucket = s3_server.bucket("listed")
    for name in ("x/2.jpg", "x/1.jpg", "x/deep/er/3.jpg", "y/4.jpg"):
        bucket.put(name, CONTENT[:7])
    found = list(remote.list_folders(AllowedPrefix.parse("s3://listed/x/"), access()))
    assert [one for folder in found for one in folder] == [
        ("s3://listed/x/1.jpg", 7),
        ("s3://listed/x/2.jpg", 7),
        ("s3://listed/x/deep/er/3.jpg", 7),
    ]
    with pytest.raises(StorageUnavailable):
        list(remote.list_folders(AllowedPrefix.parse("s3://no-such-bucket/"), access()))
    with pytest.raises(UsageError, match="no listing"):
        remote.list_folders(AllowedPrefix.parse("https://images.example.org/"), access())


def test_a_missing_package_is_named_with_the_command_that_installs_it(installed):
    installed.remove("gcsfs")
    with pytest.raises(UsageError, match="needs gcsfs") as caught:
        remote.probe(AllowedPrefix.parse("gs://bucket/"), access())
    assert caught.value.hint == install("gs")
