"""Read images from URLs: check that they are allowed, choose the reader, and retry until the time limit."""

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from typing import TypeVar

from infer_app.base.domain import Reason
from infer_app.base.errors import StorageUnavailable, UsageError
from infer_app.base.locations import HTTP_PORTS, PACKAGES, AllowedPrefix, RemoteAccess, RemoteUrl, parse_url
from infer_app.base.packages import install
from infer_app.predict.images.read.bad_image import BadImage, ImageBytes, Transient, with_retries
from infer_app.predict.images.read.buckets import BucketReader
from infer_app.predict.images.read.http import HttpReader

CHECK_S = 10.0  # time limit of a check

CheckAnswer = Callable[[bytes], None]
T = TypeVar("T")

LIMITED_S = 30.0  # after a picture of a host: what looks like its limit later may be an outage
_read_last: dict[tuple[str, str, int], float] = {}  # by host, in this process


def read_remote(location: str, max_bytes: int, access: RemoteAccess, check: CheckAnswer = lambda _: None) -> ImageBytes:
    """Read a URL within `access.timeout_s`, including retries. Raises BadImage.

    `check` is called with the bytes and raises Transient for those that are not the picture.
    """
    url = allowed_url(location, access)
    deadline = time.monotonic() + access.timeout_s
    http, buckets = readers_of(access)
    reader: HttpReader | BucketReader = http if url.scheme in HTTP_PORTS else buckets

    host = url.scheme, url.host, url.port

    def read() -> ImageBytes:
        try:
            found = reader.read(url, max_bytes, deadline)
        except Transient as failure:
            failure.is_limit &= time.monotonic() - _read_last.get(host, -LIMITED_S) < LIMITED_S
            raise
        check(found.data)
        _read_last[host] = time.monotonic()
        return found

    return with_retries(read, access.retries, deadline)


def allowed_url(location: str, access: RemoteAccess) -> RemoteUrl:
    """Parse a URL. Raises BadImage if [remote] allow does not allow it."""
    try:
        url = parse_url(location)
    except ValueError as error:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, str(error)) from None
    if not any(prefix.allows(url) for prefix in access.places):
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, _why_not_allowed(url, access))
    return url


def _why_not_allowed(url: RemoteUrl, access: RemoteAccess) -> str:
    """Return which part of a URL [remote] allow has nowhere: its scheme, its host, or the path on that host."""
    known = [place.root for place in access.places if place.root.scheme == url.scheme]
    if not known:
        return f"scheme {url.scheme!r}: not allowed by [remote] allow"
    host = url.host if not url.port else f"{url.host}:{url.port}"
    if all((url.host, url.port) != (one.host, one.port) for one in known):
        return f"host {host!r}: not allowed by [remote] allow"
    return f"path {url.path!r} on {host}: not allowed by [remote] allow"


def probe(prefix: AllowedPrefix, access: RemoteAccess) -> str:
    """Request an allowed prefix, and describe the answer for the user.

    Raises StorageUnavailable if a server does not answer or a bucket does not exist, UsageError if the prefix can't be
    read on this machine.
    """
    check_installed(prefix)
    http, buckets = readers_of(access)
    if prefix.root.scheme in HTTP_PORTS:
        return f"answers with HTTP {_ask(prefix, access, http.status)}"
    return "is there" if _ask(prefix, access, buckets.exists) else "answers, but may not be listed"


def check_reachable(prefix: AllowedPrefix, access: RemoteAccess) -> None:
    """Raise StorageUnavailable if nothing answers; a web server only needs to accept a connection."""
    http, buckets = readers_of(access)
    _ask(prefix, access, http.connect if prefix.root.scheme in HTTP_PORTS else buckets.exists)


def list_folders(prefix: AllowedPrefix, access: RemoteAccess) -> Iterator[list[tuple[str, int | None]]]:
    """Yield (location, size in bytes) of all objects below an allowed prefix, one list per folder.

    Raises UsageError for a scheme that has no listing or is not installed, and StorageUnavailable.
    """
    if prefix.root.scheme in HTTP_PORTS:
        raise UsageError(f"{prefix}: web servers have no listing", "name single images, or fill the table yourself")
    check_installed(prefix)
    return readers_of(access)[1].list_folders(prefix)


def check_installed(prefix: AllowedPrefix) -> None:
    """Raise UsageError if the package that reads a prefix's scheme is not installed."""
    package = PACKAGES.get(prefix.root.scheme)
    if package and find_spec(package) is None:
        raise UsageError(f"{prefix} needs {package}", install("buckets"))


def _ask(prefix: AllowedPrefix, access: RemoteAccess, ask: Callable[[RemoteUrl, float], T]) -> T | None:
    """Return what `ask` returns; None if permission is denied. Raises UsageError or StorageUnavailable."""
    deadline = time.monotonic() + min(CHECK_S, access.timeout_s)
    try:
        return with_retries(lambda: ask(prefix.root, deadline), access.retries, deadline)
    except BadImage as bad:
        if bad.reason is Reason.PERMISSION_DENIED:
            return None
        if bad.reason is Reason.LOCATION_NOT_ALLOWED:
            hint = f'if it is meant: [remote] allow_private_hosts = ["{prefix.root.host}"]'
            raise UsageError(f"{prefix}: {bad.detail}", hint) from None
        hint = "is it up, and are its name, the network and the credentials right? its images stay pending"
        raise StorageUnavailable(f"{prefix}: {bad.reason}: {bad.detail}", hint) from None


@lru_cache(maxsize=2)
def readers_of(access: RemoteAccess) -> tuple[HttpReader, BucketReader]:
    """Return the readers of this process: neither connections nor an event loop survive a fork."""
    return HttpReader(access), BucketReader(access)
