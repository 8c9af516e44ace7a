"""Replace a file at once: a reader sees the old content or the new one, never a part; and read what a person wrote."""

import codecs
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from infer_app.base.errors import UsageError


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace the content of `path` in one step; permissions are as for `new_content`.

    Raises OSError, for example when the disk is full, and leaves the old content as it was.
    """
    with new_content(path, mode) as file:
        file.write(data)


@contextmanager
def new_content(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a file whose content replaces that of `path` at the end of the `with` block; after an exception it is gone.

    It keeps the permissions of `path`; a new file gets `mode` less what the umask takes. While it is written it has no
    name, where the file system can do that: a process that is killed leaves nothing.
    """
    path = path.resolve() if path.is_symlink() else path  # what it leads to is replaced, not the link
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
    written = path.parent / f".new-{secrets.token_hex(8)}"
    kept = path.stat().st_mode & 0o777 if path.exists() else None
    try:
        with _open_new(path.parent, written, mode if kept is None else 0o600) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if kept is not None:
                os.fchmod(file.fileno(), kept)
            if not written.exists():
                _give_name(file, written)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `path` at the end of the `with` block; after an exception it is gone.

    It is `.NAME.new` beside `path`; what a killed process left there is removed first. Raises FileExistsError if `path`
    is anything but an empty folder, and BlockingIOError while another process writes the same folder.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} exists")
    written = path.with_name(f".{path.name}.new")
    written.mkdir(exist_ok=True)
    descriptor = os.open(written, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not written.exists() or not os.path.samestat(written.stat(), os.fstat(descriptor)):
            raise BlockingIOError(f"{path} was written just now")  # it was opened before it was renamed
        try:
            _remove_content(written)
            yield written
            written.rename(path)
        except BaseException:
            shutil.rmtree(written, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def _open_new(folder: Path, name: Path, mode: int) -> BinaryIO:
    """Open a file without a name, or by `name` where the file system has no such files."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        descriptor = os.open(folder, os.O_TMPFILE | flags, mode)
    except OSError:  # of a file system without such files, or of the folder: then this one fails too
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | flags, mode)
    return os.fdopen(descriptor, "w+b")


def _give_name(file: BinaryIO, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:  # with a folder's descriptor Python calls linkat, which follows the link in /proc; link does not
        os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _remove_content(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def decode_text(data: bytes, where: str) -> str:
    """Return text of UTF-8, or of UTF-16 with a byte order mark, whose lines end in line feeds alone.

    Raises UsageError, which begins with `where`, for any other encoding.
    """
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{where}: not UTF-8: {error.reason} at byte {error.start}, in line {line}",
            "save it as UTF-8; is it Latin-1 or Windows-1252?",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
