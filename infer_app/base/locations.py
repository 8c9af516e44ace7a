"""Locations of images: mapping of recorded paths, and parsing, permission and display of URLs.

URLs are parsed by rules that are stricter than those of servers. Whatever two programs could interpret differently is
refused, because the URL that is checked must be the one that is fetched. This module fetches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote, unquote

from infer_app.base.domain import ROW

_FILE = "file://"
HTTP_PORTS = {"http": 80, "https": 443}
# Those that read a scheme, of the extra `buckets`.
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
SCHEMES = (*HTTP_PORTS, *PACKAGES)

_ENDINGS = ("jpg", "jpeg", "jpe", "jfif", "png", "webp", "bmp", "gif", "tif", "tiff", "heic", "heif", "hif", "avif")
IMAGE_SUFFIXES = tuple(f".{ending}" for ending in _ENDINGS)

_MAX_ESCAPES = 3  # no file name needs %2525252e
_HTTP = re.compile(
    r"(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[^?]*)?(?:\?(?P<query>.*))?",
    re.IGNORECASE | re.ASCII,
)
_BUCKET = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9._-]*)(?:/(?P<key>.*))?", re.IGNORECASE | re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\\]")
_IN_A_PATH = "/%:@!$&'()*+,;=~"  # besides letters, digits and _.-~
_IN_A_QUERY = _IN_A_PATH + "?"
_LIKE_AN_ESCAPE = re.compile(r"\\(?=x5c|udc|x00)")
_ESCAPE = re.compile(r"\\(?:x(5c|00)|u(dc[0-9a-f]{2}))")  # of `stored_location`
MASK_DIGITS = 4  # of a checksum of what is masked, of which a file's has 64
HIDDEN_QUERY = "?***"  # in place of that of a URL
# What S3, Google, Azure and CloudFront add to a URL that they sign, and a token.
_SIGNATURE = re.compile(
    r"(x-(amz|goog)-[a-z-]+|awsaccesskeyid|googleaccessid|expires|signature|policy|(access_)?token|key-pair-id"
    r"|sv|ss|srt|sr|sp|se|st|spr|sip|sig|sdd|skoid|sktid|skt|ske|sks|skv)=.*",
    re.IGNORECASE,
)
_USER = re.compile(r"^([a-z0-9+.-]+://)[^/?#]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """A URL that can be interpreted in one way only."""

    scheme: str
    host: str  # or the bucket or container; IPv6 addresses without brackets
    port: int  # 0 for buckets
    path: str  # with a leading slash; escaped for http(s), unescaped for buckets
    query: str = ""

    @property
    def key(self) -> str:
        """Return the key of an object in its bucket."""
        return self.path[1:]

    def __str__(self) -> str:
        """Return the URL without its query, which may contain a signature."""
        port = f":{self.port}" if self.port != HTTP_PORTS.get(self.scheme, 0) else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{port}{self.path}"


@dataclass(frozen=True, slots=True)
class AllowedPrefix:
    """A host or bucket with a folder below which images may be read."""

    root: RemoteUrl

    @classmethod
    def parse(cls, text: str) -> AllowedPrefix:
        """Parse a setting. Raises ValueError unless it is a URL of a known scheme without a query."""
        url = parse_url(text if text.endswith("/") else f"{text}/")
        if url.query:
            raise ValueError("an allowed URL must have no query")
        return cls(url)

    def allows(self, url: RemoteUrl) -> bool:
        root = self.root
        is_same_host = (url.scheme, url.host, url.port) == (root.scheme, root.host, root.port)
        return is_same_host and url.path.startswith(root.path)

    def __str__(self) -> str:
        return str(self.root)


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """The URLs that may be read, by default none, with the limits of reading them."""

    places: tuple[AllowedPrefix, ...] = ()
    private_hosts: frozenset[str] = frozenset()  # that may resolve to an address of the local network
    timeout_s: float = 30.0  # for one image, including retries
    retries: int = 3
    concurrency: int = 8  # parallel reads of each worker


NOTHING_REMOTE = RemoteAccess()


@dataclass(frozen=True, slots=True)
class PathMapping:
    """A mapping of recorded folders to those of this machine, for example in a container."""

    folders: tuple[tuple[str, str], ...] = ()  # (recorded, local), absolute, without a trailing slash
    base: str = ""  # the absolute folder, as recorded, that relative locations start at; "": there is none

    @classmethod
    def of(cls, folders: Mapping[str, str], base: str = "") -> PathMapping:
        return cls(tuple((recorded.rstrip("/"), local.rstrip("/")) for recorded, local in folders.items()), base)

    def to_local(self, path: str) -> str:
        """Return the local path of a recorded path. Any `..` in it is kept, and is checked before the file is read."""
        return _moved(path, self.folders)

    def resolved(self, location: str) -> str | None:
        """Return the local path of a relative location, or None without a base."""
        return self.to_local(f"{self.base.rstrip('/')}/{location}") if self.base else None

    def recorded(self, path: str) -> str:
        """Return the path under which a local file is recorded."""
        return _moved(path, [(local, recorded) for recorded, local in self.folders])


NO_MAPPING = PathMapping()


def _moved(path: str, folders: Iterable[tuple[str, str]]) -> str:
    """Replace the longest matching folder; whole names must match, so that /data does not match /database."""
    above = [(old, new) for old, new in folders if path.startswith(f"{old}/")]
    old, new = max(above, key=lambda pair: len(pair[0]), default=("", ""))
    return new + path[len(old) :]


def as_location(value: object) -> str:
    """Return the value of a location column as text, empty for NULL. Bytes are a path in the file system's encoding."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


def is_remote(location: str) -> bool:
    scheme, separator, _ = location.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def is_local(location: str) -> bool:
    """Return whether the location is a file of this machine: a path, absolute or relative, or a file:// URI."""
    return "://" not in location or location.startswith(_FILE)


def is_local_file(location: str) -> bool:
    """Return whether it is one, and not an image in a column of the source."""
    return is_local(location) and not location.startswith(ROW)


def path_of_uri(location: str) -> str:
    """Return the path of a file:// URI without its escapes; any other location as it is."""
    if not location.startswith(_FILE):
        return location
    return unquote(location.removeprefix(_FILE).removeprefix("localhost"), errors="surrogateescape")


def is_relative(location: str) -> bool:
    return "://" not in location and not location.startswith("/")


def parse_url(text: str) -> RemoteUrl:
    """Parse a URL. Raises ValueError, without the URL in its message: it may hold a password or signature."""
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        raise ValueError(f"known are {', '.join(f'{name}://' for name in SCHEMES)}")
    if _UNPRINTABLE.search(text):
        raise ValueError("a backslash or a control character in a URL")
    return _parse_http(scheme, rest) if scheme in HTTP_PORTS else _parse_object(scheme, rest)


def find_allowed_prefix(location: str, places: Sequence[AllowedPrefix]) -> AllowedPrefix | None:
    """Return the prefix that allows a location, or None."""
    try:
        url = parse_url(location)
    except ValueError:
        return None
    return next((place for place in places if place.allows(url)), None)


def storage_of(location: str) -> str:
    """Return the storage of a location: scheme and host or bucket, or "" for this machine's files."""
    if not is_remote(location):
        return ""
    scheme, _, rest = location.partition("://")
    return f"{scheme.lower()}://{re.split('[/?#]', rest)[0].rpartition('@')[2].lower()}"


def shown(location: str) -> str:
    """Return a location for display, without the password and the query of a URL, which may contain a signature."""
    if not is_remote(location):
        return location
    masked = _USER.sub(r"\1***@", location)
    path, question, _ = masked.partition("?")
    return f"{path}{HIDDEN_QUERY}" if question and storage_of(location).startswith("http") else masked


def stored_location(location: str) -> str:
    """Return a location as results keep it: without secrets, and with what no database takes escaped.

    That is undecodable bytes of a file name, and NUL, which PostgreSQL refuses. No two paths are stored alike; URLs are
    if they differ in user or query only.
    """
    if location.isascii() and "\\" not in location and "://" not in location and "\0" not in location:
        return location  # as nearly all are: a run stores one for each image
    return escape_unstorable(_LIKE_AN_ESCAPE.sub(r"\\x5c", shown(location)))


def location_as_id(location: str) -> str:
    """Return the id of an image that has no other: its location as it is stored, with a checksum of its query."""
    query = query_beside_signature(location)
    checksum = sha256(query.encode("utf-8", "replace")).hexdigest()[:16] if query else ""
    return stored_location(location) + checksum


def query_beside_signature(location: str) -> str:
    """Return what tells a URL from others that `stored_location` stores alike, and is the same however it is signed."""
    query = location.partition("?")[2] if shown(location).endswith(HIDDEN_QUERY) else ""
    return "&".join(part for part in query.split("&") if not _SIGNATURE.fullmatch(part))


def listed_location(stored: str) -> str:
    """Return the location of which `stored_location` has made this one, but for the secrets of a URL."""
    return _ESCAPE.sub(_unescape, stored) if "\\" in stored else stored


def _unescape(escape: re.Match[str]) -> str:
    return chr(int(escape[1] or escape[2], 16))


def picture_key(image_id: str, location: str) -> int:
    """Return what tells the pictures of a source apart: the first 64 bits of their SHA-256, as a signed integer.

    `location` is as it is stored. Of our own pictures, whose ids we give, the location alone counts: their id is "".
    """
    digest = sha256(f"{image_id}\n{location}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], signed=True)


def mask_checksum(location: str) -> str | None:
    """Return a few digits that tell URLs apart which `stored_location` stores alike, None for any other location.

    They are too few to confirm a password that somebody guesses.
    """
    if shown(location) == location:
        return None
    return sha256(location.encode("utf-8", "replace")).hexdigest()[:MASK_DIGITS]


def escape_unstorable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _parse_http(scheme: str, rest: str) -> RemoteUrl:
    if "#" in rest:
        raise ValueError("a # in a URL must be written %23")
    if "@" in rest.partition("/")[0]:
        raise ValueError("a user or password in a URL is not accepted")
    found = _HTTP.fullmatch(rest)
    if found is None:
        raise ValueError("no valid host and port; an international name is written xn--…")
    port = int(found["port"] or HTTP_PORTS[scheme])
    if not 0 < port < 1 << 16:
        raise ValueError("no such port")
    path, query = found["path"] or "/", found["query"] or ""
    if " " in path + query:
        raise ValueError("a blank in a URL must be written %20")
    _check_segments(_unescaped(path))
    host = found["host"].strip("[]").lower()
    return RemoteUrl(scheme, host, port, quote(path, safe=_IN_A_PATH), quote(query, safe=_IN_A_QUERY))


def _parse_object(scheme: str, rest: str) -> RemoteUrl:
    found = _BUCKET.fullmatch(rest)
    if found is None:
        raise ValueError("no valid name of a bucket")
    if "?versionId=" in rest:  # which s3fs would cut off
        raise ValueError("a ?versionId= in a URL: the newest version is read")
    path = f"/{found['key'] or ''}"
    _check_segments(path)
    return RemoteUrl(scheme, found["bucket"], 0, path)


def _unescaped(path: str) -> str:
    """Return the path as a server might interpret it, which may unescape it more than once."""
    for _ in range(_MAX_ESCAPES):
        plain = unquote(path)
        if plain.count("/") != path.count("/") or _UNPRINTABLE.search(plain):
            raise ValueError("an escaped slash, backslash or control character in a URL")
        if plain == path:
            return path
        path = plain
    raise ValueError("a URL that is escaped several times")


def _check_segments(path: str) -> None:
    if any(segment.partition(";")[0] in (".", "..") for segment in path.split("/")):
        raise ValueError("a . or .. in a URL")
