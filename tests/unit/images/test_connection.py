import datetime
import gc
import ipaddress
import socket
import ssl
import time

import pytest

from infer_app.domain import Reason
from infer_app.images.read import connection as connection_module
from infer_app.images.read import remote
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.read_image import ReadLimits, read_image
from infer_app.locations import AllowedPrefix, RemoteAccess
from tests.webserver import web_server

CONTENT = b"bytes that stand for an image"


def limits(place, private=("127.0.0.1",)):
    return ReadLimits((), 1000, RemoteAccess((AllowedPrefix.parse(place),), frozenset(private), 3.0, 0, 1))


@pytest.fixture
def connected(monkeypatch):
    """Where sockets were connected to; nothing really is."""
    found = []

    def refuse(_, where):
        found.append(where)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return found


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch, connected):
    answers = iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"])  # a name that means another machine a moment later

    def look_up(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
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


@pytest.fixture
def certificate(tmp_path):
    """Of 127.0.0.1, signed by itself: (certificate, with its key)."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, both = tmp_path / "public.pem", tmp_path / "both.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    both.write_bytes(
        public.read_bytes()
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, both


@pytest.fixture
def forget():
    """Certificates and connections are kept by the process."""

    def clear():
        connection_module._tls.cache_clear()
        remote._readers.cache_clear()

    clear()
    yield clear
    clear()


def test_a_certificate_has_to_be_trusted(certificate, monkeypatch, forget):
    public, both = certificate
    with web_server() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.serve("/a.jpg", CONTENT)
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(BadImage, match="certificate is not trusted") as caught:
            read_image(f"{url}/a.jpg", limits(url))
        assert caught.value.reason is Reason.READ_ERROR
        assert not server.hits
        forget()
        monkeypatch.setenv("SSL_CERT_FILE", str(public))
        assert read_image(f"{url}/a.jpg", limits(url)).data == CONTENT


def test_a_handshake_that_stalls_ends_at_the_deadline(forget):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the connection, and nobody answers
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BadImage) as caught:
            read_image(f"{url}/a.jpg", limits(url))
        assert caught.value.reason is Reason.READ_TIMEOUT


def test_a_connection_is_closed_with_the_last_that_holds_it(no_collector):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = connection_module.Connection("http", "127.0.0.1", server.getsockname()[1], may_be_private=True)
        connection.deadline.at = time.monotonic() + 3
        connection.connect()
        peer, _ = server.accept()
        with peer:
            peer.settimeout(3)
            del connection
            assert peer.recv(1) == b""
