"""Small real servers on loopback, good and bad, for what the program sends."""

import contextlib
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass
from http.client import parse_headers
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Heard:
    path: str
    body: str
    headers: dict


class Recorder:
    """Keeps every POST and answers `status`; one to a path of `gates` is kept once its event is set."""

    def __init__(self, status=200, location=None):
        self.heard: list[Heard] = []
        self.gates: dict[str, threading.Event] = {}
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if gate := recorder.gates.get(self.path):
                    gate.wait()
                recorder.heard.append(Heard(self.path, body, dict(self.headers)))
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def paths(self):
        return [heard.path for heard in self.heard]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Raw:
    """Does with each connection what it is told, in a thread of its own."""

    def __init__(self, behave):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"http://{self.host}"
        self._behave = behave
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            self._behave(connection)

    def close(self):
        self._socket.close()


def read_request(connection):
    """Read a POST whole: closed before, a connection is reset, and its answer may be lost with it."""
    with connection.makefile("rb") as stream:
        stream.readline()
        stream.read(int(parse_headers(stream)["Content-Length"]))


def stay_silent(connection):
    while connection.recv(4096):
        pass


def make_certificate(folder):
    """(certificate, key) of 127.0.0.1 and images.example, signed by itself."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:images.example"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def tls_context(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def with_certificate(folder):
    """Of a server with a certificate that nobody trusts."""
    context = tls_context(*make_certificate(folder))

    def shake_hands(connection):
        with context.wrap_socket(connection, server_side=True) as secure:
            stay_silent(secure)

    return shake_hands


class Closed:
    """Refuses connections: its port belongs to it, and it does not listen."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self):
        self._socket.close()


@contextlib.contextmanager
def refusing_postgres():
    """A server that refuses each login, as PostgreSQL's protocol has it; yields its port."""
    text = b"SFATAL\0C28P01\0Mpassword authentication failed\0\0"

    def refuse():
        with contextlib.suppress(OSError):  # it was closed
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"E" + (len(text) + 4).to_bytes(4, "big") + text)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
