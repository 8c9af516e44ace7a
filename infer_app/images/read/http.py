"""Images of web servers: capped, timed, and never from a place or an address that is not allowed.

By the standard library, since each of these has to hold on the very connection that is used: what is connected to is
an address that was checked, redirects are followed by hand, every byte is counted, and no proxy is asked.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
import threading
import zlib
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin

from infer_app import __version__
from infer_app.domain import FileFacts, Reason
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.connection import Connection
from infer_app.images.read.image_bytes import ImageBytes, too_large
from infer_app.images.read.retry import Transient
from infer_app.locations import HTTP_PORTS, RemoteAccess, RemoteUrl, parse_url

MAX_REDIRECTS = 5
PIECE_BYTES = 1 << 18
REDIRECTS = frozenset({301, 302, 303, 307, 308})
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})  # what may go well a second later
REASONS = {
    401: Reason.PERMISSION_DENIED,
    403: Reason.PERMISSION_DENIED,
    404: Reason.NOT_FOUND,
    410: Reason.NOT_FOUND,
}
# Brotli and others are not asked for; gzip neither, but storages send what was stored that way.
GZIP = frozenset({"gzip", "x-gzip"})
_ZLIB_GZIP = 16 + zlib.MAX_WBITS


class HttpReader:
    """Connections are kept, one for each host and thread."""

    def __init__(self, access: RemoteAccess) -> None:
        self._access = access
        self._threads = threading.local()

    def read(self, url: RemoteUrl, max_bytes: int, deadline: float) -> ImageBytes:
        """One attempt, redirects included. Raises BadImage, Transient for what may go well a second later."""
        for _ in range(1 + MAX_REDIRECTS):
            with _Exchange(self._connection(url), url, deadline) as response:
                if response.status not in REDIRECTS:
                    return _image(response, max_bytes)
                url = self._redirected(url, response.getheader("Location", ""))
        raise BadImage(Reason.READ_ERROR, f"more than {MAX_REDIRECTS} redirects")

    def answer(self, url: RemoteUrl, deadline: float) -> int:
        """The status a host answers with, redirects not followed. Raises as `read` does."""
        with _Exchange(self._connection(url), url, deadline) as response:
            return response.status

    def connect(self, url: RemoteUrl, deadline: float) -> None:
        """Finds out whether anybody listens. Raises as `read` does."""
        connection = Connection(url.scheme, url.host, url.port, url.host in self._access.private_hosts)
        connection.deadline.at = deadline
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            raise _in_our_words(error) from None
        finally:
            connection.close()

    def _redirected(self, url: RemoteUrl, target: str) -> RemoteUrl:
        try:
            found = parse_url(urljoin(str(url), target))
        except ValueError as error:
            raise BadImage(Reason.LOCATION_NOT_ALLOWED, f"redirected to what is no http(s) URL: {error}") from None
        if found.scheme not in HTTP_PORTS or not any(place.allows(found) for place in self._access.places):
            raise BadImage(Reason.LOCATION_NOT_ALLOWED, "redirected to what [remote] allow does not name")
        return found

    def _connection(self, url: RemoteUrl) -> Connection:
        kept: dict[tuple[str, str, int], Connection] = self._threads.__dict__.setdefault("connections", {})
        origin = (url.scheme, url.host, url.port)
        if origin not in kept:
            kept[origin] = Connection(*origin, may_be_private=url.host in self._access.private_hosts)
        return kept[origin]


class _Exchange:
    """A request and its response. The connection is kept only where the response was read to its end."""

    def __init__(self, connection: Connection, url: RemoteUrl, deadline: float) -> None:
        self._connection = connection
        self._target = f"{url.path}?{url.query}" if url.query else url.path
        connection.deadline.at = deadline

    def __enter__(self) -> http.client.HTTPResponse:
        headers = {"User-Agent": f"infer_app/{__version__}", "Accept": "image/*, */*"}
        try:
            self._connection.request("GET", self._target, headers=headers)
            self._response = self._connection.getresponse()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, (OSError, http.client.HTTPException)):
                raise _in_our_words(error) from None
            raise
        return self._response

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None or not self._response.isclosed():
            self._response.close()
            self._connection.close()
        if isinstance(error, (OSError, http.client.HTTPException)):
            raise _in_our_words(error) from None


def _in_our_words(error: OSError | http.client.HTTPException) -> BadImage | Transient:
    """Those of a library may hold what the server sent, or the URL."""
    if isinstance(error, TimeoutError):
        return BadImage(Reason.READ_TIMEOUT, "no end of read within the time limit")
    if isinstance(error, ssl.SSLCertVerificationError):
        return BadImage(Reason.READ_ERROR, f"the server's certificate is not trusted: {error.verify_message}")
    said = getattr(error, "strerror", None)
    return Transient(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def _image(response: http.client.HTTPResponse, max_bytes: int) -> ImageBytes:
    if response.status != http.client.OK:
        raise _refusal(response)
    data = _decoded(_body(response, max_bytes), response.getheader("Content-Encoding", "identity"), max_bytes)
    if not data:
        raise BadImage(Reason.EMPTY, "0 bytes", FileFacts(size=0))
    facts = FileFacts(len(data), _modified(response), hashlib.sha256(data).hexdigest())
    return ImageBytes(data, facts)


def _refusal(response: http.client.HTTPResponse) -> BadImage | Transient:
    status = response.status
    detail = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
    if status in BUSY:
        return Transient(detail, _seconds(response.getheader("Retry-After", "")))
    return BadImage(REASONS.get(status, Reason.READ_ERROR), detail)


def _body(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    """Counted as it comes, whatever its Content-Length says."""
    announced = response.length
    if announced is not None and announced > max_bytes:
        raise too_large(announced, max_bytes)
    pieces, size = [], 0
    while piece := _piece(response):
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise BadImage(Reason.TOO_LARGE_BYTES, f"more than the {max_bytes:,} bytes that are read")
    if announced is not None and size < announced:
        raise Transient(f"closed after {size:,} of {announced:,} bytes")
    return b"".join(pieces)


def _piece(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(PIECE_BYTES)
    except ValueError:  # http.client lets a chunk have a negative size
        raise Transient("a chunk of a negative size") from None


def _decoded(data: bytes, encoding: str, max_bytes: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return data
    if encoding not in GZIP:
        raise BadImage(Reason.READ_ERROR, "a Content-Encoding that was not asked for")
    unzip = zlib.decompressobj(_ZLIB_GZIP)
    try:
        plain = unzip.decompress(data, max_bytes + 1)
    except zlib.error:
        raise BadImage(Reason.READ_ERROR, "a damaged gzip body") from None
    if len(plain) > max_bytes:
        raise BadImage(Reason.TOO_LARGE_BYTES, f"unzipped more than the {max_bytes:,} bytes that are read")
    if not unzip.eof:
        raise BadImage(Reason.READ_ERROR, "a gzip body that is cut off")
    return plain


def _modified(response: http.client.HTTPResponse) -> float | None:
    try:
        return parsedate_to_datetime(response.getheader("Last-Modified", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _seconds(retry_after: str) -> float | None:
    return float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else None
