"""Images that lie elsewhere: whether they are allowed, who reads them, how often it is tried, and until when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from typing import TypeVar

from infer_app.domain import Reason
from infer_app.errors import StorageUnavailable, UsageError
from infer_app.images.read.bad_image import BadImage, ImageBytes
from infer_app.images.read.http import HttpReader
from infer_app.images.read.objects import ObjectReader
from infer_app.images.read.retry import retried
from infer_app.locations import HTTP_PORTS, PACKAGES, AllowedPrefix, RemoteAccess, RemoteUrl, parse_url

LOOK_S = 10.0  # for a place to answer

T = TypeVar("T")


def read_remote(location: str, max_bytes: int, access: RemoteAccess) -> ImageBytes:
    """The bytes of a URL, within `access.timeout_s`, retries included. Raises BadImage."""
    url = allowed_url(location, access)
    deadline = time.monotonic() + access.timeout_s
    http, objects = _readers(access)
    reader: HttpReader | ObjectReader = http if url.scheme in HTTP_PORTS else objects
    return retried(lambda: reader.read(url, max_bytes, deadline), access.retries, deadline)


def allowed_url(location: str, access: RemoteAccess) -> RemoteUrl:
    """Raises BadImage for what [remote] allow does not name."""
    try:
        url = parse_url(location)
    except ValueError as error:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, str(error)) from None
    if not any(place.allows(url) for place in access.places):
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, f"scheme {url.scheme!r}: not among the places of [remote] allow")
    return url


def look_at(place: AllowedPrefix, access: RemoteAccess) -> str:
    """What a place answers, in words.

    Raises StorageUnavailable for one that does not answer or, of buckets, is not there; UsageError for one that can't
    be read here.
    """
    check_installed(place)
    http, objects = _readers(access)
    if place.root.scheme in HTTP_PORTS:
        return f"answers with HTTP {_ask(place, access, http.answer)}"
    return "is there" if _ask(place, access, objects.look) else "answers, but may not be listed"


def check_there(place: AllowedPrefix, access: RemoteAccess) -> None:
    """Raises StorageUnavailable where nobody answers. Whatever a web server would answer says that it is there."""
    http, objects = _readers(access)
    _ask(place, access, http.connect if place.root.scheme in HTTP_PORTS else objects.look)


def list_folders(place: AllowedPrefix, access: RemoteAccess) -> Iterator[list[tuple[str, int | None]]]:
    """(location, size in bytes) of all objects below a place, a folder at a time.

    Raises UsageError for a scheme that has no listing or isn't installed, StorageUnavailable.
    """
    if place.root.scheme in HTTP_PORTS:
        raise UsageError(f"{place}: web servers have no listing", "name single images, or fill the table yourself")
    check_installed(place)
    return _readers(access)[1].list_folders(place)


def check_installed(place: AllowedPrefix) -> None:
    """Raises UsageError where the package that reads a place's scheme is not installed."""
    package, extra = PACKAGES.get(place.root.scheme, ("", ""))
    if package and find_spec(package) is None:
        raise UsageError(f"{place} needs {package}", f"pip install 'infer_app[{extra}]'")


def _ask(place: AllowedPrefix, access: RemoteAccess, ask: Callable[[RemoteUrl, float], T]) -> T | None:
    """What is answered; None where that is no answer for us, who may not see it."""
    deadline = time.monotonic() + min(LOOK_S, access.timeout_s)
    try:
        return retried(lambda: ask(place.root, deadline), access.retries, deadline)
    except BadImage as bad:
        if bad.reason is Reason.PERMISSION_DENIED:
            return None
        if bad.reason is Reason.LOCATION_NOT_ALLOWED:
            hint = f'if it is meant: [remote] allow_private_hosts = ["{place.root.host}"]'
            raise UsageError(f"{place}: {bad.detail}", hint) from None
        hint = "is it up, and are its name, the network and the credentials right? its images stay pending"
        raise StorageUnavailable(f"{place}: {bad.reason}: {bad.detail}", hint) from None


@lru_cache(maxsize=2)
def _readers(access: RemoteAccess) -> tuple[HttpReader, ObjectReader]:
    """Of this process: neither connections nor an event loop survive a fork."""
    return HttpReader(access), ObjectReader(access)
