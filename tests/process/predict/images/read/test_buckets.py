import hashlib
import time

import pytest

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.errors import StorageUnavailable, UsageError
from infer_app.base.locations import AllowedPrefix
from infer_app.base.packages import install
from infer_app.predict.images.read import remote
from infer_app.predict.images.read.read_image import read_image
from tests.support.refusals import refusal
from tests.support.web_server import MAX_BYTES, never_answers, remote_limits, web_server

CONTENT = bytes(range(256)) * 40
PLACE = "s3://photos/day/"
ACCESS = remote_limits(PLACE, retries=1).remote
# Google's and Azure's clients meet a stand-in for their storages, which themselves were never met.
PATHS = {"gs://bucket/": "/download/storage/v1/b/bucket/o/{}", "az://bucket/": "/account/bucket/{}"}


@pytest.fixture(scope="module")
def bucket(s3_server):
    return s3_server.bucket("photos")


@pytest.fixture(autouse=True)
def environment(s3_server, monkeypatch):
    for name, value in s3_server.environ.items():
        monkeypatch.setenv(name, value)


def read(location, *places, retries=1, **how):
    return read_image(location, remote_limits(*(places or (PLACE,)), retries=retries, **how))


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
    assert refusal(read, location, PLACE, "s3://no-such-bucket/").reason is reason
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
        remote.check_reachable(AllowedPrefix.parse(PLACE), ACCESS)


@pytest.mark.parametrize(("code", "hits"), [(503, 3), (500, 3), (403, 1)])
def test_busy_is_tried_again_and_forbidden_is_not(server, monkeypatch, code, hits):
    server.answers["/photos/day/a.jpg"] = lambda handler: handler.status(code)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    found = refusal(read, "s3://photos/day/a.jpg", retries=2)
    assert sum(server.hits.values()) == hits
    assert found.reason is (Reason.PERMISSION_DENIED if code == 403 else Reason.READ_ERROR)


def test_an_archived_object_is_told_as_such(server, monkeypatch):
    error = b"<Error><Code>InvalidObjectState</Code><StorageClass>GLACIER</StorageClass></Error>"
    server.serve("/photos/day/a.jpg", error, 403)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    found = refusal(read, "s3://photos/day/a.jpg")
    assert (found.reason, found.detail) == (Reason.READ_ERROR, "archived: restore it first")


def test_a_storage_that_stalls_ends_at_the_deadline(server, monkeypatch):
    server.answers["/photos/day/a.jpg"] = never_answers
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    refusal(read, "s3://photos/day/b.jpg")  # loads what it needs
    started = time.monotonic()
    assert refusal(read, "s3://photos/day/a.jpg", timeout_s=1.0).reason is Reason.READ_TIMEOUT
    assert time.monotonic() - started < 20


def test_a_place_is_looked_at(bucket):
    bucket.put("day/a.jpg", CONTENT)
    assert remote.probe(AllowedPrefix.parse(PLACE), ACCESS) == "is there"
    for gone in ("s3://photos/no-such-folder/", "s3://no-such-bucket/"):
        with pytest.raises(StorageUnavailable, match="not_found"):
            remote.probe(AllowedPrefix.parse(gone), ACCESS)


def test_a_listing_goes_folder_by_folder(s3_server):
    bucket = s3_server.bucket("listed")
    for name in ("x/2.jpg", "x/1.jpg", "x/deep/er/3.jpg", "y/4.jpg"):
        bucket.put(name, CONTENT[:7])
    found = list(remote.list_folders(AllowedPrefix.parse("s3://listed/x/"), ACCESS))
    assert [one for folder in found for one in folder] == [
        ("s3://listed/x/1.jpg", 7),
        ("s3://listed/x/2.jpg", 7),
        ("s3://listed/x/deep/er/3.jpg", 7),
    ]
    for name in ("x//5.jpg", "x/deep//6.jpg", "x//down/7.jpg"):
        bucket.put(name, CONTENT[:7])
    found = [one for folder in remote.list_folders(AllowedPrefix.parse("s3://listed/x/"), ACCESS) for one in folder]
    assert sorted(location.partition("/x/")[2] for location, _ in found) == [
        "/5.jpg", "/down/7.jpg", "1.jpg", "2.jpg", "deep//6.jpg", "deep/er/3.jpg",
    ]  # fmt: skip
    with pytest.raises(StorageUnavailable):
        list(remote.list_folders(AllowedPrefix.parse("s3://no-such-bucket/"), ACCESS))
    with pytest.raises(UsageError, match="no listing"):
        remote.list_folders(AllowedPrefix.parse("https://images.example.org/"), ACCESS)


def test_a_missing_package_is_named_with_the_command_that_installs_it(installed):
    installed.remove("gcsfs")
    with pytest.raises(UsageError, match="needs gcsfs") as caught:
        remote.probe(AllowedPrefix.parse("gs://bucket/"), ACCESS)
    assert caught.value.hint == install("buckets")


@pytest.fixture(params=sorted(PATHS))
def place(request):
    pytest.importorskip({"gs": "gcsfs", "az": "adlfs"}[request.param[:2]])
    return request.param


@pytest.fixture
def storage(server, monkeypatch):
    account = "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=Y2FuYXJ5"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{account};BlobEndpoint={server.url}/account;")
    return server


def test_an_object_of_google_or_azure_is_read(storage, place):
    headers = {"Content_Range": f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}", "ETag": '"1"'}
    headers["Last_Modified"] = "Fri, 20 Nov 2026 12:00:00 GMT"
    storage.serve(PATHS[place].format("a.jpg"), CONTENT, code=206, **headers)
    assert read(f"{place}a.jpg", place).data == CONTENT


@pytest.mark.parametrize(
    ("code", "reason"),
    [(404, Reason.NOT_FOUND), (403, Reason.PERMISSION_DENIED), (416, Reason.EMPTY), (500, Reason.READ_TIMEOUT)],
)
def test_their_errors_mean_what_they_mean_elsewhere(storage, place, code, reason):
    storage.answers[PATHS[place].format("a.jpg")] = lambda handler: handler.status(code)
    found = refusal(read, f"{place}a.jpg", place)
    assert (found.reason, "Y2FuYXJ5" in found.detail) == (reason, False)
