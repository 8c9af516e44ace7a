"""Files of this machine: where a location lies, whether it may be read, and what is known of it without reading it."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.locations import NO_MAPPING, PathMapping
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import BadImage

OUTSIDE = "outside the allowed roots"
HASHED_AT_ONCE = 1 << 24  # bytes


def read_ahead(location: str, limits: ReadLimits) -> None:
    """Ask the kernel to fetch a file that will be read soon, without waiting; ignore failures, which the read reports.

    This takes 20 µs if the file is in memory already. On a slow disk the wait overlaps with the images before it.
    """
    with (
        suppress(OSError, ValueError, BadImage),
        pinned(local_path(location, limits.path_map), limits) as (link, found),
    ):
        if stat.S_ISREG(found.st_mode):
            with opened(link) as readable:
                os.posix_fadvise(readable, 0, limits.max_bytes, os.POSIX_FADV_WILLNEED)


def stat_facts(location: str, path_map: PathMapping = NO_MAPPING) -> FileFacts:
    """Return size and modification time of a regular file without reading it; empty facts if they are unknown."""
    try:
        return facts_of(local_path(location, path_map))
    except BadImage:
        return FileFacts()


def stat_all(locations: Iterable[str], path_map: PathMapping) -> Iterator[FileFacts]:
    """Yield `stat_facts` of each location."""
    return (stat_facts(location, path_map) for location in locations)


def hash_files(locations: Iterable[str], limits: ReadLimits) -> Iterator[FileFacts | None]:
    """Yield the facts of each local file, with its checksum however large it is, and None now and then meanwhile.

    They are empty where it is not a file that may be and can be read.
    """
    for location in locations:
        facts = FileFacts()
        with (
            suppress(OSError, ValueError, BadImage),
            pinned(local_path(location, limits.path_map), limits) as (link, found),
        ):
            if stat.S_ISREG(found.st_mode):
                digest = hashlib.sha256()
                with opened(link) as readable:
                    while data := os.read(readable, HASHED_AT_ONCE):
                        digest.update(data)
                        yield None
                facts = FileFacts(found.st_size, found.st_mtime, digest.hexdigest())
        yield facts


def are_gone(locations: Iterable[str], path_map: PathMapping) -> Iterator[bool]:
    """Yield of each local file whether there is none; not of one whose folder can't be read."""
    return (_is_gone(location, path_map) for location in locations)


def _is_gone(location: str, path_map: PathMapping) -> bool:
    try:
        os.stat(local_path(location, path_map))  # noqa: PTH116 - a Path costs more than the call
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError, BadImage):
        return False
    return False


def facts_of(path: str) -> FileFacts:
    """Return size and modification time of a regular file; empty facts for all else."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path costs more than the call
    except (OSError, ValueError):
        return FileFacts()
    if not stat.S_ISREG(found.st_mode):
        return FileFacts()
    return FileFacts(size=found.st_size, modified=found.st_mtime)


def local_path(location: str, path_map: PathMapping = NO_MAPPING) -> str:
    """Return the absolute path at which a location is read. Raises BadImage if it is not on this machine."""
    if not location:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, "the row has no location")
    if location.startswith("/"):
        return path_map.to_local(location)
    if location.startswith("file://"):
        return path_map.to_local(_path_of_uri(location))
    if "://" in location:
        scheme = location.split("://", 1)[0]
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, f"scheme {scheme!r} is not known")
    path = path_map.resolved(location)
    if path is None:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, "not an absolute path")
    return path


def _path_of_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, str(error)) from error
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, "a file:// URI must name an absolute path on this machine")
    return unquote(parts.path, errors="surrogateescape")


def is_allowed(real_path: str, limits: ReadLimits) -> bool:
    """Return whether a path without symlinks is below one of the roots."""
    return real_path.startswith(_resolved_roots(limits.roots))


def was_replaced(root: Path, limits: ReadLimits) -> bool:
    """Return whether a link on the path of a root was changed since this process first read from it."""
    known = _resolved_roots(limits.roots)[limits.roots.index(root)]
    return os.path.realpath(root).rstrip("/") + "/" != known


@lru_cache(maxsize=64)
def _resolved_roots(roots: tuple[Path, ...]) -> tuple[str, ...]:
    """Return each root without symlinks and with one trailing slash, so that /data does not allow /database."""
    return tuple(os.path.realpath(root).rstrip("/") + "/" for root in roots)


@contextmanager
def pinned(path: str, limits: ReadLimits) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a link to the file that is at a path now, and its state. Raises BadImage if it may not be read.

    O_PATH does not open the file: a FIFO does not block, a device does nothing. The kernel reports the real path of the
    descriptor, with symlinks resolved, and the file is read through it, so it can't be replaced between check and read.
    """
    with opened(path, os.O_PATH) as descriptor:
        link = f"/proc/self/fd/{descriptor}"
        if not is_allowed(os.readlink(link), limits):  # noqa: PTH115 - a Path costs more than the call
            raise BadImage(Reason.LOCATION_NOT_ALLOWED, OUTSIDE)
        yield link, os.fstat(descriptor)


@contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a descriptor of a file."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
