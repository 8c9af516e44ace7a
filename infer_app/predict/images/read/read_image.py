"""Read the bytes at a location: on this machine only regular files under the allowed roots, of a limited size.

URLs are read by `remote`, which is imported only when there is one.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from unicodedata import normalize

from infer_app.base.domain import ROW, Broken, FileFacts, ImageRef, Reason
from infer_app.base.locations import is_remote
from infer_app.base.read_limits import ReadLimits, RowImages
from infer_app.predict.images.read.bad_image import BadImage, ImageBytes, too_large
from infer_app.predict.images.read.local_files import OUTSIDE, facts_of, is_allowed, local_path, opened, pinned


def read_image(location: str, limits: ReadLimits, check: Callable[[bytes], None] = lambda _: None) -> ImageBytes:
    """Read a local path, a file:// URI or a URL, with size, modification time and sha256.

    `check` raises Transient for bytes from a URL that are not the picture. Raises BadImage, whose `facts` are those
    known when the image was refused.
    """
    if is_remote(location):
        image: ImageBytes = _remote().read_remote(location, limits.max_bytes, limits.remote, check)
        return image
    if limits.rows is not None and location.startswith(ROW):
        return _read_row(limits.rows, location.removeprefix(ROW), limits.max_bytes)
    path = local_path(location, limits.path_map)
    try:
        with pinned(path, limits) as (link, found):
            return _read_file(link, found, limits)
    except MemoryError as error:
        raise BadImage(Reason.OUT_OF_MEMORY, "no memory for the file", facts_of(path)) from error
    except ValueError as error:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, _why_no_name(error)) from error
    except OSError as error:
        raise _refusal(path, limits, error) from error


def refused_among(refs: Sequence[ImageRef], limits: ReadLimits) -> list[Broken]:
    """Return the images that `read_image` would refuse for their locations alone, without reading any."""
    return [Broken(ref, Reason.LOCATION_NOT_ALLOWED, why, "read") for ref in refs if (why := _why_refused(ref, limits))]


def _why_refused(ref: ImageRef, limits: ReadLimits) -> str:
    try:
        if is_remote(ref.location):
            _remote().allowed_url(ref.location, limits.remote)
        elif limits.rows is None or not ref.location.startswith(ROW):
            path = local_path(ref.location, limits.path_map)
            return "" if is_allowed(os.path.realpath(path), limits) else OUTSIDE
    except (BadImage, ValueError) as error:
        return error.detail if isinstance(error, BadImage) else _why_no_name(error)
    return ""


def _why_no_name(error: ValueError) -> str:
    """Return why no file can have a name: it can't be encoded, or has a NUL, which Pythons word differently."""
    return str(error) if isinstance(error, UnicodeError) else "embedded null byte"


def _remote() -> ModuleType:
    from infer_app.predict.images.read import remote

    return remote


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


def _read_file(link: str, found: os.stat_result, limits: ReadLimits) -> ImageBytes:
    facts = FileFacts(size=found.st_size, modified=found.st_mtime)
    if not stat.S_ISREG(found.st_mode):
        raise BadImage(Reason.NOT_REGULAR_FILE, f"a {_kind(found.st_mode)}", FileFacts(modified=found.st_mtime))
    if found.st_size == 0:
        raise BadImage(Reason.EMPTY, "0 bytes", facts)
    if found.st_size > limits.max_bytes:
        raise too_large(found.st_size, limits.max_bytes, facts)
    with opened(link) as readable:
        data = _read_to_end(readable, found.st_size, limits, facts)
    return ImageBytes(data, replace(facts, sha256=hashlib.sha256(data).hexdigest()), found.st_mode & 0o777)


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


def _refusal(path: str, limits: ReadLimits, error: OSError) -> BadImage:
    """Return the BadImage for a failed open or read; outside the roots it does not reveal what exists there."""
    if not is_allowed(os.path.realpath(path), limits):
        return BadImage(Reason.LOCATION_NOT_ALLOWED, OUTSIDE)
    reason = _REASON_OF_ERRNO.get(error.errno or 0, Reason.READ_ERROR)
    facts = FileFacts() if reason is Reason.NOT_FOUND else facts_of(path)
    why = _why_missing(path, limits) if reason is Reason.NOT_FOUND else ""
    return BadImage(reason, (os.strerror(error.errno) if error.errno else str(error)) + why, facts)


def _why_missing(path: str, limits: ReadLimits) -> str:
    """Return what tells a path from one that is there: capitals, or the form of an accented letter."""
    if "\\" in path:
        return "; backslashes, as Windows records them: let [source] query replace them by /"
    there = _in_other_form(path)
    if not there or not is_allowed(os.path.realpath(there), limits):
        return ""
    names = zip(there.split("/"), path.split("/"), strict=True)
    name, wanted = next(((ours, name) for ours, name in names if ours != name), ("", ""))
    if normalize("NFC", name) != normalize("NFC", wanted):
        return f"; it is there as {name}, with other capitals"
    form = "NFD" if normalize("NFD", name) == name else "NFC"
    return f"; it is there with letters in another Unicode form ({form}): rename it, or write {form} in the table"


def _in_other_form(path: str) -> str:
    """Return the path of a file whose names differ in the form of their letters only, "" if there is none."""
    there = ""
    for name in path.split("/")[1:]:
        start, dot, suffix = name.rpartition(".")
        capitals = start + dot + suffix.swapcase(), name.lower(), name.upper()
        paths = [f"{there}/{form}" for form in (name, normalize("NFC", name), normalize("NFD", name), *capitals)]
        there = next(filter(os.path.lexists, paths), "")
        if not there:
            break
    return there


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
