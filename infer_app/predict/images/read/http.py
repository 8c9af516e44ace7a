"""Read images from web servers by urllib3: within limits of size and time, and only from allowed URLs and addresses.

Redirects are followed here, since each has to be allowed. No proxy is used.
"""

import hashlib
import http.client
import logging
import re
import ssl
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urljoin

from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import HTTPError, ReadTimeoutError

from infer_app import __version__
from infer_app.base.domain import FileFacts, Reason
from infer_app.base.locations import HTTP_PORTS, RemoteAccess, RemoteUrl, parse_url
from infer_app.predict.images.read.bad_image import BadImage, ImageBytes, Transient, too_large
from infer_app.predict.images.read.connection import open_pool, seconds_until

MAX_REDIRECTS = 5
PIECE_BYTES = 1 << 18
REDIRECTS = frozenset({301, 302, 303, 307, 308})
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})  # may succeed a second later
LIMITS = frozenset({429, 503})  # as which servers answer more reads than they allow
REASONS = {
    401: Reason.PERMISSION_DENIED,
    403: Reason.PERMISSION_DENIED,
    404: Reason.NOT_FOUND,
    410: Reason.NOT_FOUND,
}
HEADERS = {"User-Agent": f"infer_app/{__version__}", "Accept": "image/*, */*"}
# No encoding is requested, but storages send objects as gzip that were stored so.
GZIP = frozenset({"gzip", "x-gzip"})
_ZLIB_GZIP = 16 + zlib.MAX_WBITS
_AS_SENT = "".join(map(chr, range(0x21, 0x7F)))
_STRAY_PERCENT = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)


class HttpReader:
    """A reader for the web servers that `access` allows; all threads share it and its connections."""

    def __init__(self, access: RemoteAccess) -> None:
        logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # it logs URLs, whose queries may hold signatures
        self._access = access
        origins = {_origin(prefix.root) for prefix in access.places if prefix.root.scheme in HTTP_PORTS}
        self._pools = {
            origin: open_pool(*origin, may_be_private=origin[1] in access.private_hosts, size=access.concurrency)
            for origin in origins
        }

    def read(self, url: RemoteUrl, max_bytes: int, deadline: float) -> ImageBytes:
        """Read a URL, following redirects, without retries. Raises BadImage, or Transient if it may succeed later."""
        for _ in range(1 + MAX_REDIRECTS):
            with self._get(url, deadline) as response:
                if response.status not in REDIRECTS:
                    return _image(response, max_bytes)
                url = self._redirected(url, response.headers.get("Location", ""))
        raise BadImage(Reason.READ_ERROR, f"more than {MAX_REDIRECTS} redirects")

    def status(self, url: RemoteUrl, deadline: float) -> int:
        """Return the status of the response without following redirects. Raises as `read` does."""
        with self._get(url, deadline) as response:
            return response.status

    def connect(self, url: RemoteUrl, deadline: float) -> None:
        """Connect to the server and close the connection. Raises as `read` does."""
        pool = self._pools[_origin(url)]
        with (
            _translate_errors(),
            closing(pool.ConnectionCls(url.host, url.port, timeout=seconds_until(deadline), **pool.conn_kw)) as opened,
        ):
            opened.connect()

    @contextmanager
    def _get(self, url: RemoteUrl, deadline: float) -> Iterator[BaseHTTPResponse]:
        """Yield the response. Its connection is kept only if it is read to the end."""
        with (
            _translate_errors(),
            self._pools[_origin(url)].urlopen(
                "GET",
                _target(url),
                headers=HEADERS,
                retries=False,
                redirect=False,
                timeout=Timeout(total=seconds_until(deadline)),
                preload_content=False,
                decode_content=False,
                enforce_content_length=False,  # see `_body`
            ) as response,
        ):
            yield response

    def _redirected(self, url: RemoteUrl, target: str) -> RemoteUrl:
        try:
            # Servers send the bytes of a path as they are; headers are read as Latin-1.
            found = parse_url(urljoin(str(url), quote(target.encode("latin-1"), safe=_AS_SENT)))
        except ValueError as error:
            raise BadImage(Reason.LOCATION_NOT_ALLOWED, f"redirected to an invalid URL: {error}") from None
        if found.scheme not in HTTP_PORTS or not any(prefix.allows(found) for prefix in self._access.places):
            raise BadImage(Reason.LOCATION_NOT_ALLOWED, "redirected to a URL that [remote] allow does not allow")
        return found


def _origin(url: RemoteUrl) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port


def _target(url: RemoteUrl) -> str:
    """Return path and query as sent. urllib3 would escape every % if only one of them begins no escape."""
    target = f"{url.path}?{url.query}" if url.query else url.path
    return _STRAY_PERCENT.sub("%25", target)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise BadImage or Transient for errors of a library, without their text: it may hold the URL or an answer."""
    try:
        yield
    except (HTTPError, OSError) as error:
        # An error of urllib3 has the error that it wraps as its cause or as an argument.
        wrapped = (inner for inner in (error.__cause__, *error.args) if isinstance(inner, Exception))
        raise _translated(next(wrapped, error)) from None


def _translated(error: Exception) -> BadImage | Transient:
    if isinstance(error, TimeoutError | ReadTimeoutError):
        return BadImage(Reason.READ_TIMEOUT, "read exceeded the time limit")
    if isinstance(error, ssl.SSLCertVerificationError):
        return BadImage(Reason.READ_ERROR, f"the server's certificate is not trusted: {error.verify_message}")
    message = getattr(error, "strerror", None)
    return Transient(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _image(response: BaseHTTPResponse, max_bytes: int) -> ImageBytes:
    if response.status != http.client.OK:
        raise _refusal(response)
    data = _decoded(_body(response, max_bytes), response.headers.get("Content-Encoding", "identity"), max_bytes)
    if not data:
        raise Transient("0 bytes")
    facts = FileFacts(len(data), _modified(response), hashlib.sha256(data).hexdigest())
    return ImageBytes(data, facts)


def _refusal(response: BaseHTTPResponse) -> BadImage | Transient:
    status = response.status
    detail = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
    if status in BUSY:
        pause_s = _seconds(response.headers.get("Retry-After", ""))
        return Transient(detail, pause_s, is_limit=status in LIMITS)
    return BadImage(REASONS.get(status, Reason.READ_ERROR), detail)


def _body(response: BaseHTTPResponse, max_bytes: int) -> bytes:
    """Read the body, and count its bytes as they arrive, whatever its Content-Length is."""
    if (announced := response.length_remaining or 0) > max_bytes:
        raise too_large(announced, max_bytes)
    pieces, size = [], 0
    try:
        while piece := response.read(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise BadImage(Reason.TOO_LARGE_BYTES, f"more than the {max_bytes:,} bytes that are read")
    except ValueError:  # http.client lets a chunk have a negative size
        raise Transient("a chunk of a negative size") from None
    if size < announced:
        raise Transient(f"closed after {size:,} of {announced:,} bytes")
    return b"".join(pieces)


def _decoded(data: bytes, encoding: str, max_bytes: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity", "aws-chunked"):  # the last is also said of objects without that framing
        return data
    if encoding not in GZIP:
        raise BadImage(Reason.READ_ERROR, "a Content-Encoding that was not requested")
    unzip = zlib.decompressobj(_ZLIB_GZIP)
    try:
        plain = unzip.decompress(data, max_bytes + 1)
    except zlib.error:
        hint = "does AddEncoding of the server meet a part of its name?"
        raise BadImage(Reason.READ_ERROR, f"no gzip body, as announced: begins {data[:2].hex(' ')}; {hint}") from None
    if len(plain) > max_bytes:
        raise BadImage(Reason.TOO_LARGE_BYTES, f"unzipped more than the {max_bytes:,} bytes that are read")
    if not unzip.eof:
        raise BadImage(Reason.READ_ERROR, "a gzip body that is cut off")
    return plain


def _modified(response: BaseHTTPResponse) -> float | None:
    try:
        return parsedate_to_datetime(response.headers.get("Last-Modified", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _seconds(retry_after: str) -> float | None:
    return float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else None
