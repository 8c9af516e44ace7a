"""Where locations lie: folders that are elsewhere on this machine, and URLs: how one is read, allowed and shown.

A URL is taken apart by rules that are stricter than any server's, and whatever two programs could read differently is
refused: what is checked must be what is fetched. Nothing is fetched here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

HTTP_PORTS = {"http": 80, "https": 443}
# The package that reads a scheme, and the extra of ours that installs it.
PACKAGES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "az": ("adlfs", "azure"), "abfs": ("adlfs", "azure")}
SCHEMES = (*HTTP_PORTS, *PACKAGES)

_MAX_ESCAPES = 3  # %2525252e is nobody's file name
_HTTP = re.compile(
    r"(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[^?]*)?(?:\?(?P<query>.*))?",
    re.IGNORECASE | re.ASCII,
)
_BUCKET = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9._-]*)(?:/(?P<key>.*))?", re.IGNORECASE | re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\\]")
_IN_A_PATH = "/%:@!$&'()*+,;=~"  # beside letters, digits and _.-~
_IN_A_QUERY = _IN_A_PATH + "?"
_USER = re.compile(r"^([a-z0-9+.-]+://)[^/?#]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """A URL that can be read in one way only."""

    scheme: str
    host: str  # or the bucket or container; IPv6 addresses without brackets
    port: int  # 0 for buckets
    path: str  # with a leading slash; of http(s) as it is sent, of buckets as it is
    query: str = ""

    @property
    def key(self) -> str:
        """Of an object, below its bucket."""
        return self.path[1:]

    def __str__(self) -> str:
        """Without its query, which may hold a signature."""
        port = f":{self.port}" if self.port != HTTP_PORTS.get(self.scheme, 0) else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{port}{self.path}"


@dataclass(frozen=True, slots=True)
class AllowedPrefix:
    """A host or bucket, and the folder below which images may be read."""

    root: RemoteUrl

    @classmethod
    def parse(cls, text: str) -> AllowedPrefix:
        """Raises ValueError for what is no URL of a known scheme, or says more than where."""
        url = parse_url(text if text.endswith("/") else f"{text}/")
        if url.query:
            raise ValueError("a place has no query")
        return cls(url)

    def allows(self, url: RemoteUrl) -> bool:
        root = self.root
        same = (url.scheme, url.host, url.port) == (root.scheme, root.host, root.port)
        return same and url.path.startswith(root.path)

    def __str__(self) -> str:
        return str(self.root)


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """What may be read from elsewhere, and how insistently; by default nothing."""

    places: tuple[AllowedPrefix, ...] = ()
    private_hosts: frozenset[str] = frozenset()  # that may have an address of the local network
    timeout_s: float = 30.0  # for one image, retries included
    retries: int = 3
    concurrency: int = 8  # reads at a time, of each worker


NOTHING_REMOTE = RemoteAccess()


@dataclass(frozen=True, slots=True)
class PathMapping:
    """Folders that lie elsewhere on this machine than where their images are recorded, as in a container."""

    folders: tuple[tuple[str, str], ...] = ()  # (recorded, here), absolute, without a closing slash

    @classmethod
    def of(cls, folders: Mapping[str, str]) -> PathMapping:
        return cls(tuple((recorded.rstrip("/"), here.rstrip("/")) for recorded, here in folders.items()))

    def to_local(self, path: str) -> str:
        """Where a recorded path lies. Any `..` in it is kept: what may be read is decided after this."""
        return _moved(path, self.folders)

    def recorded(self, path: str) -> str:
        """Under which path a file that lies here is recorded."""
        return _moved(path, [(here, recorded) for recorded, here in self.folders])


NO_MAPPING = PathMapping()


def _moved(path: str, folders: Iterable[tuple[str, str]]) -> str:
    """By whole names, so that /data does not move /database; the longest folder wins."""
    above = [(old, new) for old, new in folders if path.startswith(f"{old}/")]
    old, new = max(above, key=lambda pair: len(pair[0]), default=("", ""))
    return new + path[len(old) :]


def as_location(value: object) -> str:
    """Return what a source gives for a location as text, empty for NULL."""
    return "" if value is None else str(value)


def is_remote(location: str) -> bool:
    scheme, separator, _ = location.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def is_local(location: str) -> bool:
    """Whether it names a file of this machine."""
    return location.startswith(("/", "file://"))


def parse_url(text: str) -> RemoteUrl:
    """Raises ValueError, whose words never repeat the URL: it may hold a password or a signature."""
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        raise ValueError(f"known are {', '.join(f'{name}://' for name in SCHEMES)}")
    if _UNPRINTABLE.search(text):
        raise ValueError("a backslash or a control character in a URL")
    return _parse_http(scheme, rest) if scheme in HTTP_PORTS else _parse_object(scheme, rest)


def find_allowed_prefix(location: str, places: Sequence[AllowedPrefix]) -> AllowedPrefix | None:
    """The place that allows a location."""
    try:
        url = parse_url(location)
    except ValueError:
        return None
    return next((place for place in places if place.allows(url)), None)


def storage_of(location: str) -> str:
    """What fails as one: scheme and host or bucket of a remote location, "" for this machine's files."""
    if not is_remote(location):
        return ""
    scheme, _, rest = location.partition("://")
    return f"{scheme.lower()}://{re.split('[/?#]', rest)[0].rpartition('@')[2].lower()}"


def shown(location: str) -> str:
    """A location as it may be shown: no password, no query of a URL, in which signatures stand."""
    if not is_remote(location):
        return location
    masked = _USER.sub(r"\1***@", location)
    path, question, _ = masked.partition("?")
    return f"{path}?***" if question and storage_of(location).startswith("http") else masked


def _parse_http(scheme: str, rest: str) -> RemoteUrl:
    if "#" in rest:
        raise ValueError("a # in a URL must be written %23")
    if "@" in rest.partition("/")[0]:
        raise ValueError("a user or password in a URL is not accepted")
    found = _HTTP.fullmatch(rest)
    if found is None:
        raise ValueError("no host and port that can be understood; an international name is written xn--…")
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
        raise ValueError("no name of a bucket that can be understood")
    path = f"/{found['key'] or ''}"
    _check_segments(path)
    return RemoteUrl(scheme, found["bucket"], 0, path)


def _unescaped(path: str) -> str:
    """The path as a server might take it, which may undo escapes more than once."""
    for _ in range(_MAX_ESCAPES):
        plain = unquote(path)
        if plain.count("/") != path.count("/") or _UNPRINTABLE.search(plain):
            raise ValueError("an escaped slash, backslash or control character in a URL")
        if plain == path:
            return path
        path = plain
    raise ValueError("a URL that is escaped several times over")


def _check_segments(path: str) -> None:
    if any(segment.partition(";")[0] in (".", "..") for segment in path.split("/")):
        raise ValueError("a . or .. in a URL")
