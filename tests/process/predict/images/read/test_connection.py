import gc
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from infer_app.base.domain import Reason
from infer_app.base.locations import parse_url
from infer_app.predict.images.read import remote
from infer_app.predict.images.read.http import HttpReader
from infer_app.predict.images.read.read_image import read_image
from tests.support.listeners import make_certificate, tls_context
from tests.support.refusals import refusal
from tests.support.web_server import remote_limits, trickles_body, trickles_headers, web_server

CONTENT = b"bytes that stand for an image"


@pytest.fixture
def connected(monkeypatch):
    """Where sockets were connected to; nothing really is."""
    found = []

    def refuse(_, where):
        found.append(where)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return found


def test_the_address_that_was_checked_is_the_one_connected_to(name_server, connected):
    """Of a name that means another machine a moment later."""
    name_server["rebind.example"] = iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"])
    for reason in (Reason.READ_ERROR, Reason.LOCATION_NOT_ALLOWED):
        found = refusal(read_image, "http://rebind.example/a.jpg", remote_limits("http://rebind.example/"))
        assert found.reason is reason
    assert connected == [("93.184.216.34", 80)]


def test_no_proxy_is_asked(monkeypatch, connected):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    refusal(read_image, "http://127.0.0.1:8/a.jpg", remote_limits("http://127.0.0.1:8/"))
    assert connected == [("127.0.0.1", 8)]


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: apt-get install openssl")
    return make_certificate(tmp_path)


@pytest.fixture
def secure(certificate):
    """A server that speaks TLS; `names` are those that clients named in their handshakes."""
    with web_server() as server:
        context = tls_context(*certificate)
        server.names = []
        context.sni_callback = lambda _, name, __: server.names.append(name)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.serve("/a.jpg", CONTENT)
        yield server


def test_a_certificate_has_to_be_trusted(secure, certificate, monkeypatch):
    url = f"https://127.0.0.1:{secure.port}"
    found = refusal(read_image, f"{url}/a.jpg", remote_limits(url))
    assert (found.reason, "certificate is not trusted" in found.detail) == (Reason.READ_ERROR, True)
    assert not secure.hits
    remote.readers_of.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert read_image(f"{url}/a.jpg", remote_limits(url)).data == CONTENT


def test_handshake_and_certificate_go_by_the_name_and_not_by_the_address(secure, certificate, monkeypatch, name_server):
    name = "images.example"
    name_server |= {name: ["127.0.0.1"], "other.example": ["127.0.0.1"]}
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    url, other = f"https://{name}:{secure.port}", f"https://other.example:{secure.port}"
    assert read_image(f"{url}/a.jpg", remote_limits(url, private=(name,))).data == CONTENT
    assert (secure.names, secure.heard[0]["Host"]) == ([name], f"{name}:{secure.port}")
    found = refusal(read_image, f"{other}/a.jpg", remote_limits(other, private=("other.example",)))
    assert "certificate is not trusted: Hostname mismatch" in found.detail


@pytest.mark.parametrize("answer", [trickles_headers, trickles_body])
def test_every_wait_ends_at_the_deadline_under_tls_too(secure, certificate, monkeypatch, answer):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    secure.answers["/a.jpg"] = answer
    url, started = f"https://127.0.0.1:{secure.port}", time.monotonic()
    found = refusal(read_image, f"{url}/a.jpg", remote_limits(url, timeout_s=1.0))
    assert time.monotonic() - started > 0.9
    assert (found.reason, secure.hits["/a.jpg"]) == (Reason.READ_TIMEOUT, 1)


def test_a_handshake_that_stalls_ends_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the connection, and nobody answers
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert refusal(read_image, f"{url}/a.jpg", remote_limits(url, timeout_s=1.0)).reason is Reason.READ_TIMEOUT


def test_connections_are_closed_with_the_reader_that_holds_them(request):
    gc.disable()
    request.addfinalizer(gc.enable)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        reader = HttpReader(remote_limits(url).remote)
        with ThreadPoolExecutor(1) as threads:
            read = threads.submit(reader.read, parse_url(f"{url}/a.jpg"), 1000, time.monotonic() + 30)
            peer, _ = server.accept()
            with peer:
                peer.settimeout(30)
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
                assert read.result().data == b"x"
                with pytest.raises(TimeoutError):  # it is kept
                    peer.settimeout(0.1)
                    peer.recv(1)
                peer.settimeout(30)
                del reader, read
                assert peer.recv(1) == b""


def test_a_connection_that_the_server_has_closed_meanwhile_is_made_again_at_once(server):
    server.serve("/a.jpg", CONTENT)
    closing = server.answers["/a.jpg"]
    server.answers["/b.jpg"] = lambda handler: (closing(handler), handler.hang_up())
    for path in ("/b.jpg", "/b.jpg", "/a.jpg"):  # limits allow no retry
        assert read_image(server.url + path, remote_limits(server.url)).data == CONTENT
        time.sleep(0.1)
