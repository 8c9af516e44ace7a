"""Google's and Azure's clients against a stand-in: what their errors mean. Their storages themselves were never met."""

import pytest

from infer_app.base.domain import Reason
from infer_app.base.locations import AllowedPrefix, RemoteAccess
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read import remote
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from tests.support.web_server import web_server

CONTENT = b"bytes that stand for an image"
PACKAGES = {"gs://bucket/": "gcsfs", "az://bucket/": "adlfs"}
PATHS = {"gs://bucket/": "/download/storage/v1/b/bucket/o/{}", "az://bucket/": "/account/bucket/{}"}


@pytest.fixture(params=sorted(PACKAGES))
def place(request):
    pytest.importorskip(PACKAGES[request.param])
    return request.param


@pytest.fixture
def server(monkeypatch):
    with web_server() as server:
        account = "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=Y2FuYXJ5"
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{account};BlobEndpoint={server.url}/account;")
        remote.readers_of.cache_clear()
        yield server
        remote.readers_of.cache_clear()


def read(place, name):
    access = RemoteAccess((AllowedPrefix.parse(place),), timeout_s=30.0, retries=1)
    return read_image(place + name, ReadLimits((), 1000, access)).data


def test_an_object_is_read(server, place):
    headers = {"Content_Range": f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}", "ETag": '"1"'}
    headers["Last_Modified"] = "Fri, 20 Nov 2026 12:00:00 GMT"
    server.serve(PATHS[place].format("a.jpg"), CONTENT, code=206, **headers)
    assert read(place, "a.jpg") == CONTENT


@pytest.mark.parametrize(
    ("code", "reason"),
    [(404, Reason.NOT_FOUND), (403, Reason.PERMISSION_DENIED), (416, Reason.EMPTY), (500, Reason.READ_TIMEOUT)],
)
def test_errors_mean_what_they_mean_elsewhere(server, place, code, reason):
    server.answers[PATHS[place].format("a.jpg")] = lambda handler: handler.status(code)
    with pytest.raises(BadImage) as caught:
        read(place, "a.jpg")
    assert caught.value.reason is reason
    assert "Y2FuYXJ5" not in caught.value.detail
