"""A web server on loopback that misbehaves in every way that a reader has to bear."""

from __future__ import annotations

import gzip
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from infer_app.base.locations import AllowedPrefix, RemoteAccess
from infer_app.base.read_limits import ReadLimits

MAX_BYTES = 100_000  # of an image

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def setup(self) -> None:
        super().setup()
        self.server.num_connections += 1

    def do_GET(self) -> None:
        self.server.hits[self.path] += 1
        self.server.heard.append(self.headers)
        time.sleep(self.server.latency_s)
        answer = self.server.answers.get(self.path.partition("?")[0])
        if answer is None:
            self.status(404)
        else:
            answer(self)

    def status(self, code: int, **headers: str) -> None:
        self.send(b"an error page", code, **headers)

    def send(self, body: bytes, code: int = 200, **headers: str) -> None:
        """Whole, with its true length unless told otherwise."""
        self.head(code, **({"Content_Length": str(len(body))} | headers))
        self.wfile.write(body)

    def head(self, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.flush()

    def hang_up(self) -> None:
        self.close_connection = True

    def wait(self, seconds: float) -> bool:
        """Whether the server still runs."""
        return not self.server.ended.wait(seconds)

    def log_message(self, *_: object) -> None:
        pass


class WebServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.hits: Counter[str] = Counter()
        self.heard: list[object] = []  # the headers of each request
        self.num_connections = 0
        self.latency_s = 0.0
        self.ended = threading.Event()

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, path: str, body: bytes, code: int = 200, **headers: str) -> None:
        self.answers[path] = lambda handler: handler.send(body, code, **headers)

    def handle_error(self, *_: object) -> None:
        """A reader that hangs up is what is tested."""


@contextmanager
def web_server() -> Iterator[WebServer]:
    server = WebServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def remote_limits(*places: str, private: Sequence[str] = ("127.0.0.1",), retries: int = 0, **how: Any) -> ReadLimits:
    """Return limits that allow what lies at these places, which may be private hosts."""
    allowed = tuple(map(AllowedPrefix.parse, places))
    return ReadLimits((), MAX_BYTES, RemoteAccess(allowed, frozenset(private), retries=retries, **how))


def stalls_after_headers(handler: Handler) -> None:
    handler.head(Content_Length="1000")
    handler.wait(60)
    handler.hang_up()


def never_answers(handler: Handler) -> None:
    handler.wait(60)
    handler.hang_up()


def trickles_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while handler.wait(0.1):
        handler.wfile.write(b"X")


def trickles_body(handler: Handler) -> None:
    handler.head(Content_Length="50000")
    while handler.wait(0.1):
        handler.wfile.write(b"x")


def closes_mid_body(body: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.head(Content_Length=str(len(body)))
        handler.wfile.write(body[: len(body) // 2])
        handler.hang_up()

    return answer


def says_less_than_it_sends(body: bytes) -> Answer:
    return lambda handler: handler.send(body, Content_Length=str(len(body) // 2))


def is_endless(handler: Handler) -> None:
    """A body without a length that never ends."""
    handler.hang_up()
    handler.head(Connection="close")
    while handler.wait(0):
        handler.wfile.write(bytes(1 << 16))


def is_endless_in_chunks(handler: Handler) -> None:
    handler.head(Transfer_Encoding="chunked")
    while handler.wait(0):
        handler.wfile.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")


def chunked(body: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.head(Transfer_Encoding="chunked")
        half = len(body) // 2
        for piece in (body[:half], body[half:], b""):
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    return answer


def redirects_to(target: str, code: int = 302) -> Answer:
    return lambda handler: handler.status(code, Location=target)


def fails(times: int, code: int, body: bytes, **headers: str) -> Answer:
    """Then it goes well; counted for each path."""

    def answer(handler: Handler) -> None:
        if handler.server.hits[handler.path] <= times:
            handler.status(code, **headers)
        else:
            handler.send(body)

    return answer


def resets(times: int, body: bytes) -> Answer:
    """Closes the connection without a word."""

    def answer(handler: Handler) -> None:
        if handler.server.hits[handler.path] <= times:
            handler.hang_up()
        else:
            handler.send(body)

    return answer


def says_a_negative_chunk(handler: Handler) -> None:
    handler.head(Transfer_Encoding="chunked")
    handler.wfile.write(b"-5\r\nimage\r\n0\r\n\r\n")
    handler.hang_up()


def gzipped(body: bytes) -> Answer:
    return lambda handler: handler.send(gzip.compress(body), Content_Encoding="gzip")
