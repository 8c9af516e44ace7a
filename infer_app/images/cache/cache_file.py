"""A cache's folder: one file of pixels for each input size, and a note for each recipe that says what it is.

`<size>.pixels` is a page that names its layout, a table of entries, and the slots that they speak of. An image belongs
to one set by its key and may lie in any slot of it, so that finding one takes a single read of the table. Slots are
laid out way by way (the first of every set, then the second of every set), so that the file grows from its front and
can be cut at its end.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"infer_app pixels 1\n"  # raised with the layout: a file of another version is replaced
PAGE_BYTES = 4096
MAX_WAYS = 64  # a set's entries fill one page; more of them leave fewer slots unused
ENTRY = np.dtype(
    [("sha256", "V32"), ("recipe", "V8"), ("stored_at", "<u8"), ("checksum", "<u4"), ("unused", "V12")]
)  # stored_at: seconds since the epoch, 0 where the slot is free

_TAG_FILE = "CACHEDIR.TAG"  # bford.info/cachedir: backups leave the folder out
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Pixels that infer_app can make again.\n"
_PIXELS_NAME = re.compile(r"\d+\.pixels")
_NOTE_NAME = re.compile(r"[0-9a-f]{16}\.recipe")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in a file that never outgrows `max_bytes`. One that can hold no image has num_slots = 0."""

    size: int  # height and width of the images, pixels
    max_bytes: int

    @property
    def file_name(self) -> str:
        return f"{self.size}.pixels"

    @property
    def header(self) -> bytes:
        """The first page."""
        return (MAGIC + json.dumps(asdict(self)).encode()).ljust(PAGE_BYTES, b"\0")

    @property
    def pixel_bytes(self) -> int:
        return self.size * self.size * 3

    @property
    def slot_bytes(self) -> int:
        """Whole pages, so that writing a slot never reads its neighbours."""
        return _whole_pages(self.pixel_bytes)

    @property
    def num_sets(self) -> int:
        return -(-self._capacity // MAX_WAYS)

    @property
    def ways(self) -> int:
        return self._capacity // self.num_sets if self.num_sets else 0

    @property
    def num_slots(self) -> int:
        return self.num_sets * self.ways

    @property
    def slots_start(self) -> int:
        return PAGE_BYTES + _whole_pages(self.num_slots * ENTRY.itemsize)

    def slots_in(self, file_bytes: int) -> int:
        """How many slots lie in a file of that length with all their pixels; the last page's end is never written."""
        padding = self.slot_bytes - self.pixel_bytes
        return max(0, (file_bytes - self.slots_start + padding) // self.slot_bytes)

    @property
    def _capacity(self) -> int:
        return max(0, (self.max_bytes - 2 * PAGE_BYTES) // (self.slot_bytes + ENTRY.itemsize))


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cache holds of one recipe."""

    recipe_id: str
    recipe: dict[str, Any]  # as its note says; empty where the note is lost
    size: int  # height and width, pixels
    images: int
    bytes: int
    oldest: datetime  # UTC


@dataclass(frozen=True, slots=True)
class Removed:
    files: int
    images: int
    bytes: int  # on disk


def make_folder(folder: Path) -> None:
    """Ours alone, since pixels are as private as the photos. One that was there before is left as it is."""
    if folder.is_dir():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / _TAG_FILE).write_text(_TAG)


def open_file(folder: Path, layout: Layout) -> int:
    """A descriptor of the folder's file of this layout; any other content under its name is replaced. OSError."""
    path = folder / layout.file_name
    for _ in range(3):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if _is_of_layout(descriptor, layout):
                os.utime(descriptor)  # in use, even if nothing is written
                return descriptor
            path.unlink(missing_ok=True)  # whoever has it open keeps it
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(errno.EBUSY, "another process keeps replacing it", str(path))


def write_note(folder: Path, recipe_id: str, text: str) -> None:
    """For people who ask what is in the cache; nothing depends on it."""
    path = folder / f"{recipe_id}.recipe"
    if _read_note(path) is None:
        path.write_text(text)


def bytes_on_disk(folder: Path) -> int:
    """Of all files of pixels; what was reserved by nobody (a hole) takes no space."""
    return sum(found.st_blocks * 512 for _, found in pixel_files(folder))


def pixel_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Those there are, whatever they hold; what a link points to is not ours to count or cut."""
    for path in _named(folder, _PIXELS_NAME):
        with suppress(FileNotFoundError):  # cleared meanwhile
            found = path.lstat()
            if stat.S_ISREG(found.st_mode):
                yield path, found


def survey(folder: Path) -> list[Kept]:
    """What the cache holds, by recipe. Checksums are not verified: a damaged image counts until it is asked for."""
    kept: list[Kept] = []
    for path in _named(folder, _PIXELS_NAME):
        layout, entries = _read_entries(path)
        if layout is None:
            continue
        for recipe in sorted({entry.tobytes() for entry in entries["recipe"]}):
            stored_at = entries["stored_at"][entries["recipe"] == np.void(recipe)]
            note = _read_note(folder / f"{recipe.hex()}.recipe") or {}
            oldest = datetime.fromtimestamp(int(stored_at.min()), UTC)
            size_on_disk = len(stored_at) * layout.slot_bytes
            kept.append(Kept(recipe.hex(), note, layout.size, len(stored_at), size_on_disk, oldest))
    return kept


def clear(folder: Path) -> Removed:
    """Removes every file of the cache and nothing else. A process that has one open goes on with it, unseen."""
    images = sum(kept.images for kept in survey(folder))
    found = list(pixel_files(folder))
    for path in [*(path for path, _ in found), *_named(folder, _NOTE_NAME)]:
        path.unlink(missing_ok=True)
    return Removed(len(found), images, sum(one.st_blocks * 512 for _, one in found))


def _whole_pages(num_bytes: int) -> int:
    return -(-num_bytes // PAGE_BYTES) * PAGE_BYTES


def _is_of_layout(descriptor: int, layout: Layout) -> bool:
    """Of an empty file its header is written first; that two processes may do so at once changes nothing."""
    found = os.pread(descriptor, PAGE_BYTES, 0)
    if found:
        return found == layout.header
    if os.pwrite(descriptor, layout.header, 0) < PAGE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return True


def _named(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def _read_entries(path: Path) -> tuple[Layout | None, np.ndarray[Any, Any]]:
    """The entries whose slots lie in the file; no layout where it is not one of ours."""
    nothing = np.empty(0, ENTRY)
    try:
        with path.open("rb") as file:
            layout = _layout_of(file.read(PAGE_BYTES))
            if layout is None:
                return None, nothing
            table = file.read(layout.num_slots * ENTRY.itemsize)
            num_slots = layout.slots_in(os.fstat(file.fileno()).st_size)
    except OSError:
        return None, nothing
    entries = np.frombuffer(table.ljust(layout.num_slots * ENTRY.itemsize, b"\0"), ENTRY)
    by_way = entries.reshape(layout.num_sets, layout.ways).T.ravel()[:num_slots]
    return layout, by_way[by_way["stored_at"] > 0]


def _layout_of(header: bytes) -> Layout | None:
    try:
        layout = Layout(**json.loads(header.removeprefix(MAGIC).rstrip(b"\0")))
        return layout if layout.header == header else None
    except (ValueError, TypeError):
        return None


def _read_note(path: Path) -> dict[str, Any] | None:
    """None where it is missing, or cut by a crash."""
    try:
        note = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None
