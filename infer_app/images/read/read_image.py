"""Read the bytes at a location: on this machine only regular files under the allowed roots, of a limited size.

URLs are read by `remote`, which is imported only when there is one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from infer_app.domain import ROW, Broken, FileFacts, ImageRef, Reason
from infer_app.images.read.bad_image import BadImage, ImageBytes, too_large
from infer_app.locations import NO_MAPPING, NOTHING_REMOTE, PathMapping, RemoteAccess, is_remote

OUTSIDE = "outside the allowed roots"
_HASHED_AT_ONCE = 1 << 24  # bytes


class RowImages(Protocol):
    """Images that are stored in a database."""

    def read(self, row: str, max_bytes: int) -> tuple[int, bytes | str | None] | None:
        """Return size and bytes (None if they are too many); None if there is no such row. Raises OSError."""


@dataclass(frozen=True)
class ReadLimits:
    """Limits of what is read, and where."""

    roots: tuple[Path, ...]
    max_bytes: int
    remote: RemoteAccess = NOTHING_REMOTE
    path_map: PathMapping = NO_MAPPING
    rows: RowImages | None = None


def read_image(location: str, limits: ReadLimits) -> ImageBytes:
    """Read a local path, a file:// URI or a URL, with size, modification time and sha256.

    Raises BadImage, whose `facts` are those known when the image was refused.
    """
    if is_remote(location):
        from infer_app.images.read.remote import read_remote

        return read_remote(location, limits.max_bytes, limits.remote)
    if limits.rows is not None and location.startswith(ROW):
        return _read_row(limits.rows, location.removeprefix(ROW), limits.max_bytes)
    path = local_path(location, limits.path_map)
    try:
        with _descriptor(path, os.O_PATH) as pinned:
            return _read_pinned(pinned, limits)
    except MemoryError as error:
        raise BadImage(Reason.OUT_OF_MEMORY, "no memory for the file", _facts_of(path)) from error
    except ValueError as error:  # a NUL byte, or characters that no file name has
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, str(error)) from error
    except OSError as error:
        raise _refusal(path, limits, error) from error


def refused_among(refs: Sequence[ImageRef], limits: ReadLimits) -> list[Broken]:
    """Return the images that `read_image` would refuse for their locations alone, without reading any."""
    return [Broken(ref, Reason.LOCATION_NOT_ALLOWED, why, "read") for ref in refs if (why := _why_refused(ref, limits))]


def _why_refused(ref: ImageRef, limits: ReadLimits) -> str:
    try:
        if is_remote(ref.location):
            from infer_app.images.read.remote import allowed_url

            allowed_url(ref.location, limits.remote)
        elif limits.rows is None or not ref.location.startswith(ROW):
            path = local_path(ref.location, limits.path_map)
            return "" if _is_allowed(os.path.realpath(path), limits) else OUTSIDE
    except (BadImage, ValueError) as error:
        return error.detail if isinstance(error, BadImage) else str(error)
    return ""


def _read_row(rows: RowImages, row: str, max_bytes: int) -> ImageBytes:
    try:
        found = rows.read(row, max_bytes)
    except OSError as error:
        raise BadImage(Reason.READ_ERROR, str(error)) from None
    if found is None:
        raise BadImage(Reason.NOT_FOUND, "the source no longer has this row")
    size, data = found
    facts = FileFacts(size=size)
    if not size:
        raise BadImage(Reason.EMPTY, "0 bytes", facts)
    if data is None:
        raise too_large(size, max_bytes, facts)
    if isinstance(data, str):
        sha256 = hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()
        raise BadImage(Reason.UNSUPPORTED_FORMAT, "the column holds text", FileFacts(size=size, sha256=sha256))
    return ImageBytes(data, FileFacts(size=size, sha256=hashlib.sha256(data).hexdigest()))


def read_ahead(location: str, limits: ReadLimits) -> None:
    """Ask the kernel to fetch a file that will be read soon, without waiting; ignore failures, which the read reports.

    This takes 20 µs if the file is in memory already. On a slow disk the wait overlaps with the images before it.
    """
    with (
        suppress(OSError, ValueError, BadImage),
        _descriptor(local_path(location, limits.path_map), os.O_PATH) as pinned,
    ):
        link = f"/proc/self/fd/{pinned}"
        is_file = stat.S_ISREG(os.fstat(pinned).st_mode)
        if is_file and _is_allowed(os.readlink(link), limits):  # noqa: PTH115 - a Path costs more than the call
            with _descriptor(link, os.O_RDONLY) as readable:
                os.posix_fadvise(readable, 0, limits.max_bytes, os.POSIX_FADV_WILLNEED)


def stat_facts(location: str, path_map: PathMapping = NO_MAPPING) -> FileFacts:
    """Return size and modification time of a regular file without reading it; empty facts if they are unknown."""
    try:
        return _facts_of(local_path(location, path_map))
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
            _descriptor(local_path(location, limits.path_map), os.O_PATH) as pinned,
        ):
            link, found = f"/proc/self/fd/{pinned}", os.fstat(pinned)
            if stat.S_ISREG(found.st_mode) and _is_allowed(os.readlink(link), limits):  # noqa: PTH115
                digest = hashlib.sha256()
                with _descriptor(link, os.O_RDONLY) as readable:
                    while data := os.read(readable, _HASHED_AT_ONCE):
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


def _facts_of(path: str) -> FileFacts:
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


@contextmanager
def _descriptor(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_pinned(pinned: int, limits: ReadLimits) -> ImageBytes:
    """Check the file that an O_PATH descriptor refers to, then read that very file.

    O_PATH does not open the file: a FIFO does not block, a device does nothing. The kernel reports the real path of the
    descriptor, with symlinks resolved, and the file is read through it, so it can't be replaced between check and read.
    """
    link = f"/proc/self/fd/{pinned}"
    if not _is_allowed(os.readlink(link), limits):  # noqa: PTH115 - a Path costs more than the call
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, OUTSIDE)
    found = os.fstat(pinned)
    facts = FileFacts(size=found.st_size, modified=found.st_mtime)
    if not stat.S_ISREG(found.st_mode):
        raise BadImage(Reason.NOT_REGULAR_FILE, f"a {_kind(found.st_mode)}", FileFacts(modified=found.st_mtime))
    if found.st_size == 0:
        raise BadImage(Reason.EMPTY, "0 bytes", facts)
    if found.st_size > limits.max_bytes:
        raise too_large(found.st_size, limits.max_bytes, facts)
    with _descriptor(link, os.O_RDONLY) as readable:
        data = _read_to_end(readable, found.st_size, limits, facts)
    sha256 = hashlib.sha256(data).hexdigest()
    facts = FileFacts(size=found.st_size, modified=found.st_mtime, sha256=sha256)
    return ImageBytes(data, facts, found.st_mode & 0o777)


def _read_to_end(readable: int, size: int, limits: ReadLimits, facts: FileFacts) -> bytes:
    """Read a file with one system call if it keeps its size; read a file that grows meanwhile up to the limit."""
    data = os.read(readable, size + 1)
    if len(data) == size:
        return data
    pieces = [data]
    while data and sum(map(len, pieces)) <= limits.max_bytes:
        data = os.read(readable, 1 << 20)
        pieces.append(data)
    whole = b"".join(pieces)
    if len(whole) > limits.max_bytes:
        raise too_large(len(whole), limits.max_bytes, facts)
    if not whole:
        raise BadImage(Reason.EMPTY, "emptied while it was read", facts)
    return whole


def _is_allowed(real_path: str, limits: ReadLimits) -> bool:
    return real_path.startswith(_resolved_roots(limits.roots))


def was_replaced(root: Path, limits: ReadLimits) -> bool:
    """Return whether a link on the path of a root was changed since this process first read from it."""
    known = _resolved_roots(limits.roots)[limits.roots.index(root)]
    return os.path.realpath(root).rstrip("/") + "/" != known


@lru_cache(maxsize=64)
def _resolved_roots(roots: tuple[Path, ...]) -> tuple[str, ...]:
    """Return each root without symlinks and with one trailing slash, so that /data does not allow /database."""
    return tuple(os.path.realpath(root).rstrip("/") + "/" for root in roots)


def _refusal(path: str, limits: ReadLimits, error: OSError) -> BadImage:
    """Return the BadImage for a failed open or read; outside the roots it does not reveal what exists there."""
    if not _is_allowed(os.path.realpath(path), limits):
        return BadImage(Reason.LOCATION_NOT_ALLOWED, OUTSIDE)
    reason = _REASON_OF_ERRNO.get(error.errno or 0, Reason.READ_ERROR)
    facts = FileFacts() if reason is Reason.NOT_FOUND else _facts_of(path)
    return BadImage(reason, os.strerror(error.errno) if error.errno else str(error), facts)


_REASON_OF_ERRNO = {
    errno.ENOENT: Reason.NOT_FOUND,
    errno.ENOTDIR: Reason.NOT_FOUND,
    errno.EACCES: Reason.PERMISSION_DENIED,
    errno.EPERM: Reason.PERMISSION_DENIED,
    errno.ENOMEM: Reason.OUT_OF_MEMORY,
    errno.ELOOP: Reason.LOCATION_NOT_ALLOWED,
    errno.ENAMETOOLONG: Reason.LOCATION_NOT_ALLOWED,
}


def _kind(mode: int) -> str:
    names = {
        stat.S_IFDIR: "directory",
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
    }
    return names.get(stat.S_IFMT(mode), "special file")
