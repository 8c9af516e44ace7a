import gc
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from infer_app.base.domain import Reason
from infer_app.base.locations import AllowedPrefix, RemoteAccess, parse_url
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read import remote
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.http import HttpReader
from infer_app.predict.images.read.read_image import read_image
from tests.support.listeners import make_certificate, tls_context
from tests.support.web_server import trickles_body, trickles_headers, web_server

CONTENT = b"bytes that stand for an image"


def limits(place, private=("127.0.0.1",), timeout_s=30.0):
    return ReadLimits((), 100_000, RemoteAccess((AllowedPrefix.parse(place),), frozenset(private), timeout_s, 0, 1))


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
        with pytest.raises(BadImage) as caught:
            read_image("http://rebind.example/a.jpg", limits("http://rebind.example/"))
        assert caught.value.reason is reason
    assert connected == [("93.184.216.34", 80)]


def test_no_proxy_is_asked(monkeypatch, connected):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with pytest.raises(BadImage):
        read_image("http://127.0.0.1:8/a.jpg", limits("http://127.0.0.1:8/"))
    assert connected == [("127.0.0.1", 8)]


NAME = "images.example"


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: apt-get install openssl")
    return make_certificate(tmp_path)


@pytest.fixture
def forget():
    """Certificates and connections are kept by the process."""
    remote.readers_of.cache_clear()
    yield remote.readers_of.cache_clear
    remote.readers_of.cache_clear()


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


def test_a_certificate_has_to_be_trusted(secure, certificate, monkeypatch, forget):
    url = f"https://127.0.0.1:{secure.port}"
    with pytest.raises(BadImage, match="certificate is not trusted") as caught:
        read_image(f"{url}/a.jpg", limits(url))
    assert caught.value.reason is Reason.READ_ERROR
    assert not secure.hits
    forget()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert read_image(f"{url}/a.jpg", limits(url)).data == CONTENT


def test_host_handshake_and_certificate_go_by_the_name_and_not_by_the_address(
    secure, certificate, monkeypatch, name_server, forget
):
    name_server |= {NAME: ["127.0.0.1"], "other.example": ["127.0.0.1"]}
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    url, other = f"https://{NAME}:{secure.port}", f"https://other.example:{secure.port}"
    assert read_image(f"{url}/a.jpg", limits(url, private=(NAME,))).data == CONTENT
    assert (secure.names, secure.heard[0]["Host"]) == ([NAME], f"{NAME}:{secure.port}")
    with pytest.raises(BadImage, match="certificate is not trusted: Hostname mismatch"):
        read_image(f"{other}/a.jpg", limits(other, private=("other.example",)))


@pytest.mark.parametrize("answer", [trickles_headers, trickles_body])
def test_every_wait_ends_at_the_deadline_under_tls_too(secure, certificate, monkeypatch, forget, answer):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    secure.answers["/a.jpg"] = answer
    url, started = f"https://127.0.0.1:{secure.port}", time.monotonic()
    with pytest.raises(BadImage) as caught:
        read_image(f"{url}/a.jpg", limits(url, timeout_s=1.0))
    assert time.monotonic() - started > 0.9
    assert (caught.value.reason, secure.hits["/a.jpg"]) == (Reason.READ_TIMEOUT, 1)


def test_a_handshake_that_stalls_ends_at_the_deadline(forget):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the connection, and nobody answers
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BadImage) as caught:
            read_image(f"{url}/a.jpg", limits(url, timeout_s=1.0))
        assert caught.value.reason is Reason.READ_TIMEOUT


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


def test_connections_are_closed_with_the_reader_that_holds_them(no_collector):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        reader = HttpReader(limits(url).remote)
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


def test_a_connection_that_the_server_has_closed_meanwhile_is_made_again_at_once(forget):
    with web_server() as server:
        server.serve("/a.jpg", CONTENT)
        closing = server.answers["/a.jpg"]
        server.answers["/b.jpg"] = lambda handler: (closing(handler), handler.hang_up())
        for path in ("/b.jpg", "/b.jpg", "/a.jpg"):  # limits allow no retry
            assert read_image(server.url + path, limits(server.url)).data == CONTENT
            time.sleep(0.1)
