"""Transformed pixels kept on disk: a second model over the same images, or a backfill, decodes nothing.

No locks: any process may die, or write the slot that another writes, at any moment. What is found is copied out and
believed only when the copy agrees with its checksum; everything else is a miss, and the image is decoded.

Read by pread rather than through a mapping: as fast, since a process reads an image once, and a bad sector or a file
that was cut is a miss. Behind a mapping it would be SIGBUS, which is blamed on the image in hand.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_app.images.cache.cache_file import ENTRY, PAGE_BYTES, Layout, make_folder, open_file, pixel_files, write_note

if TYPE_CHECKING:
    from infer_app.images.cache.cache_key import CacheKey  # with the decoders, which the coordinator does without

log = logging.getLogger(__name__)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (size, size, 3) RGB, C-contiguous

MIN_FREE_BYTES = 1 << 30  # of the disk, or a tenth of a small one: results need room more than the cache does


class PixelCache:
    """Pixels by the sha256 of their file, for one key. For one thread; any number of processes share a folder."""

    def __init__(self, folder: Path, layout: Layout, recipe_id: bytes) -> None:
        """Raises OSError when the folder can't be written to."""
        make_folder(folder)
        self._folder = folder
        self._layout = layout
        self._recipe_id = recipe_id
        self._shape = (layout.size, layout.size, 3)
        # of the layout, which works them out anew each time
        self._num_sets, self._ways, self._slot_bytes = layout.num_sets, layout.ways, layout.slot_bytes
        self._set_bytes, self._slots_start = layout.ways * ENTRY.itemsize, layout.slots_start
        self._is_writable = True
        self.hits = 0
        self.misses = 0
        self._descriptor = open_file(folder, layout)
        if not self._disk_has_room():
            self._stop_writing("the disk is almost full")

    @classmethod
    def open(cls, folder: Path, max_bytes: int, key: CacheKey) -> PixelCache | None:
        """A cache of at most `max_bytes` on disk, all sizes together; None, with a warning, where there can be none."""
        layout = Layout(key.recipe.size, max_bytes)
        cache = _open_or_warn(folder, layout, bytes.fromhex(key.recipe_id))
        if cache is not None:
            cache._note(key)
        return cache

    def get(self, sha256: str, out: Pixels) -> bool:
        """Whether the pixels are here; then `out`, (size, size, 3) uint8, holds them; else it may hold anything."""
        self._check(out)
        found = self._read(bytes.fromhex(sha256) + self._recipe_id, out)
        self.hits += found
        self.misses += not found
        return found

    def put(self, sha256: str, pixels: Pixels) -> None:
        """Keeps the pixels if it can. On a full or failing disk it warns once and keeps nothing more."""
        self._check(pixels)
        if not self._is_writable:
            return
        try:
            self._write(bytes.fromhex(sha256) + self._recipe_id, pixels)
        except OSError as error:
            self._stop_writing(error.strerror or str(error))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> PixelCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, pixels: Pixels) -> None:
        if pixels.shape != self._shape or pixels.dtype != np.uint8 or not pixels.flags.c_contiguous:
            raise ValueError(f"{pixels.dtype} {pixels.shape}, the cache takes contiguous uint8 {self._shape}")

    def _read(self, key: bytes, out: Pixels) -> bool:
        number = self._set_of(key)
        try:
            table = self._read_set(number)
            way = _way_of(table, key)
            if way is None:
                return False
            os.preadv(self._descriptor, [out.data], self._slot(number, way))  # what it can't fill fails the checksum
        except OSError:
            return False
        return bool(table[way]["checksum"] == _checksum(key, out))

    def _write(self, key: bytes, pixels: Pixels) -> None:
        """Pixels first: until their entry follows, that of the image before them has a checksum that is not theirs."""
        file = os.fstat(self._descriptor)
        if not file.st_nlink:
            return  # cleared: what is written now would take space that nobody sees
        if not self._disk_has_room():
            raise OSError(errno.ENOSPC, "the disk is almost full")
        number = self._set_of(key)
        way = self._choose_way(number, key, file.st_size)
        entry = np.array([(key[:32], key[32:], int(time.time()), _checksum(key, pixels), b"")], ENTRY)
        self._write_all(pixels, self._slot(number, way))
        self._write_all(entry, self._entry(number, way))

    def _choose_way(self, number: int, key: bytes, file_bytes: int) -> int:
        """Its own, else a free one, else any: to give up the oldest would leave nothing to find for a second pass over
        more images than fit, since each would be given up just before it is asked for.
        """
        num_slots = self._layout.slots_in(file_bytes)
        grown = max(0, min(self._ways, -((number - num_slots) // self._num_sets)))  # ways that lie in the file
        table = self._read_set(number)
        own = _way_of(table, key)
        if own is not None and own < grown:
            return own
        free = np.flatnonzero(table["stored_at"][:grown] == 0)
        if len(free):
            return int(free[0])
        if grown == self._ways:
            return random.randrange(self._ways)
        self._make_room(self._slot(number, grown) + self._slot_bytes)
        return grown

    def _make_room(self, file_bytes: int) -> None:
        """Cuts the files of other sizes, the one unused for longest first, so that this one can have `file_bytes`."""
        others = [(path, found) for path, found in pixel_files(self._folder) if path.name != self._layout.file_name]
        excess = file_bytes + sum(found.st_size for _, found in others) - self._layout.max_bytes
        for path, found in sorted(others, key=lambda other: other[1].st_mtime):
            if excess <= 0:
                return
            if excess >= found.st_size:
                path.unlink(missing_ok=True)
            else:
                os.truncate(path, found.st_size - excess)
                os.utime(path, (found.st_atime, found.st_mtime))  # to be cut is not to be used
            excess -= found.st_size

    def _disk_has_room(self) -> bool:
        disk = os.fstatvfs(self._descriptor)
        return disk.f_bavail * disk.f_frsize > min(MIN_FREE_BYTES, disk.f_blocks * disk.f_frsize // 10)

    def _write_all(self, data: np.ndarray[Any, Any], offset: int) -> None:
        if os.pwrite(self._descriptor, data.data, offset) < data.nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _stop_writing(self, why: str) -> None:
        self._is_writable = False
        log.warning("the cache in %s takes no new images: %s", self._folder, why)

    def _note(self, key: CacheKey) -> None:
        try:
            write_note(self._folder, key.recipe_id, key.to_json())
        except OSError as error:
            self._stop_writing(error.strerror or str(error))

    def _set_of(self, key: bytes) -> int:
        return (int.from_bytes(key[:8]) ^ int.from_bytes(key[32:])) % self._num_sets

    def _read_set(self, number: int) -> np.ndarray[Any, Any]:
        table = os.pread(self._descriptor, self._set_bytes, self._entry(number, 0))
        return np.frombuffer(table.ljust(self._set_bytes, b"\0"), ENTRY)

    def _entry(self, number: int, way: int) -> int:
        return PAGE_BYTES + (number * self._ways + way) * ENTRY.itemsize

    def _slot(self, number: int, way: int) -> int:
        return self._slots_start + (way * self._num_sets + number) * self._slot_bytes


def prepare_cache(folder: Path, max_bytes: int, size: int) -> bool:
    """Whether workers will have a cache: tried before they start, where a warning is seen, and seen once."""
    cache = _open_or_warn(folder, Layout(size, max_bytes), bytes(8))
    if cache is not None:
        cache.close()
    return cache is not None


def _open_or_warn(folder: Path, layout: Layout, recipe_id: bytes) -> PixelCache | None:
    if not layout.num_slots:
        log.warning("no cache: its max_size of %s bytes holds no image", f"{layout.max_bytes:,}")
        return None
    try:
        return PixelCache(folder, layout, recipe_id)
    except OSError as error:
        log.warning("no cache in %s: %s", folder, error.strerror or error)
        return None


def _way_of(table: np.ndarray[Any, Any], key: bytes) -> int | None:
    """By a search in the bytes, ten times faster than comparing one by one."""
    place = table.tobytes().find(key)
    return None if place < 0 or place % ENTRY.itemsize else place // ENTRY.itemsize


def _checksum(key: bytes, pixels: Pixels) -> int:
    """Of pixels and key together, so that no entry vouches for what was stored under another."""
    return zlib.crc32(pixels.data, zlib.crc32(key))
