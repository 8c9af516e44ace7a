"""Transformed pixels kept on disk: a second model over the same images, or a backfill, decodes nothing.

One SQLite file holds those of all recipes and sizes. What is found is believed only when it agrees with its checksum;
everything else is a miss, and the image is decoded. With a rollback journal rather than a write-ahead log, pixels are
written once, nothing is mapped into memory, and no second file stays. Nothing is synced: a power cut may cost the file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
import zlib
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_app.recipe import Size

if TYPE_CHECKING:
    from infer_app.images.cache.cache_key import CacheKey  # with the decoders, which the coordinator does without

log = logging.getLogger(__name__)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3), C-contiguous

FILE_NAME = "pixels-2.sqlite"  # another one when the tables change
PAGE_BYTES = 16384  # half the time of SQLite's 4096 for writing an image
MIN_BYTES = 1 << 20  # of a cache: tables and indexes take some pages each
MIN_FREE_BYTES = 1 << 30  # of the disk, or a tenth of a small one: results need room more than the cache does
RESERVE_BYTES = 8 << 20  # or an eighth of a small cache: for the journal, and as many for the next batch
LOCK_WAIT_MS = 100  # many times what a batch takes
FIRST_PAUSE_S, MAX_PAUSE_S = 0.02, 10.0  # without the cache where that was not enough; doubled each time

_OUR_NAME = re.compile(r"pixels(-\d+)?\.sqlite(-journal)?|\d+\.pixels|[0-9a-f]{16}\.recipe")  # former versions too
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Pixels that infer_app can make again.\n"  # bford.info/cachedir
_ERRORS = (OSError, sqlite3.Error, MemoryError, UnicodeError)  # the last: in a message, of a name that is damaged
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}  # the last: a table is missing

# key: an image's sha256 and its recipe's id; stored_at: seconds since the epoch
_SCHEMA = f"""
PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; PRAGMA mmap_size = 0;
PRAGMA cache_size = -{RESERVE_BYTES >> 11};
CREATE TABLE IF NOT EXISTS recipes (id BLOB PRIMARY KEY, size INTEGER, note TEXT);
CREATE TABLE IF NOT EXISTS pixels (id INTEGER PRIMARY KEY, key BLOB UNIQUE, stored_at INTEGER, checksum, width INTEGER,
height INTEGER, pixels BLOB);
"""
_FIND = """SELECT checksum, width, height, pixels FROM pixels
WHERE key = ? AND typeof(pixels) = 'blob' AND length(pixels) = ?"""
_USED_PAGES = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
# Rows that lie together share pages; the first is found by its key, a hash, so that each row is as likely. To remove
# the oldest would leave nothing to find for a second pass over more images than fit.
_EVICT = """DELETE FROM pixels WHERE id IN (SELECT id FROM pixels
WHERE id >= (SELECT id FROM pixels WHERE key >= ? ORDER BY key LIMIT 1) ORDER BY id LIMIT ?)"""
_SURVEY = """SELECT recipes.id, note, size, count(*), min(stored_at)
FROM pixels JOIN recipes ON recipes.id = substr(key, 33) GROUP BY recipes.id ORDER BY size, recipes.id"""


@dataclass(frozen=True, slots=True)
class Kept:
    """The images that a cache holds for one recipe."""

    recipe_id: str
    recipe: dict[str, Any]
    size: Size
    images: int
    bytes: int  # of pixels
    oldest: datetime  # UTC


@dataclass(frozen=True, slots=True)
class Removed:
    files: int
    images: int
    bytes: int  # on disk


class PixelCache:
    """Pixels by the sha256 of their file, for one key. For one thread; any number of processes share a folder."""

    def __init__(self, database: sqlite3.Connection, folder: Path, max_bytes: int, key: CacheKey) -> None:
        """Take a database that this process opened: SQLite allows no use of one after a fork."""
        self._database, self._folder = database, folder
        self._recipe = (bytes.fromhex(key.recipe_id), key.recipe.size.to_json(), key.to_json())
        self._shape = key.recipe.size.shape
        self._batch = _batch(max_bytes, key.recipe.size)
        self._most_pages = (max_bytes - 2 * _reserve(max_bytes)) // PAGE_BYTES
        self._unwritten: dict[bytes, tuple[Size, Pixels]] = {}  # by sha256 + recipe_id
        self._is_writable = True
        self._resume_at, self._pause_s = 0.0, FIRST_PAUSE_S  # the first of time.monotonic()

    @classmethod
    def open(cls, folder: Path, max_bytes: int, key: CacheKey) -> PixelCache | None:
        """Open a cache of at most `max_bytes` on disk, for all sizes; warn and return None if there can be none."""
        database = _open_or_warn(folder, max_bytes, key.recipe.size)
        return None if database is None else cls(database, folder, max_bytes, key)

    def get(self, sha256: str, out: Pixels) -> Size | None:
        """Copy the pixels to `out`, (H, W, 3) uint8, and return the size of the upright picture that they are of.

        If they are not here, return None and leave `out` as it is.
        """
        self._check(out)
        found = self._read(bytes.fromhex(sha256) + self._recipe[0], out.nbytes)
        if found is None:
            return None
        picture, pixels = found
        out.data.cast("B")[:] = pixels
        return picture

    def put(self, sha256: str, pixels: Pixels, picture: Size) -> None:
        """Keep the pixels, and the size of their upright picture, if possible.

        They must not change before the next `flush`, which may come by itself.
        """
        self._check(pixels)
        if self._is_writable and time.monotonic() >= self._resume_at:
            self._unwritten[bytes.fromhex(sha256) + self._recipe[0]] = picture, pixels
        if len(self._unwritten) >= self._batch:
            self.flush()

    def flush(self) -> None:
        """Write what was put, unless another process holds the lock. On a failing disk warn once and keep no more."""
        unwritten, self._unwritten, now = self._unwritten, {}, int(time.time())
        if not unwritten:
            return
        rows = [
            (key, now, _checksum(key, picture, pixels.data), *picture, pixels)
            for key, (picture, pixels) in unwritten.items()
        ]
        try:
            disk = os.statvfs(self._folder)
            if disk.f_bavail * disk.f_frsize < min(MIN_FREE_BYTES, disk.f_blocks * disk.f_frsize // 10):
                raise OSError("the disk is almost full")
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._evict()
                self._database.execute("INSERT OR IGNORE INTO recipes VALUES (?, ?, ?)", self._recipe)
                self._database.executemany("INSERT OR REPLACE INTO pixels VALUES (NULL, ?, ?, ?, ?, ?, ?)", rows)
            self._pause_s = FIRST_PAUSE_S
        except _ERRORS as error:
            self._fail(error)

    def close(self) -> None:
        self.flush()
        self._database.close()

    def __enter__(self) -> PixelCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, pixels: Pixels) -> None:
        if pixels.shape != self._shape or pixels.dtype != np.uint8 or not pixels.flags.c_contiguous:
            raise ValueError(f"{pixels.dtype} {pixels.shape}, the cache takes contiguous uint8 {self._shape}")

    def _read(self, key: bytes, num_bytes: int) -> tuple[Size, memoryview] | None:
        if (unwritten := self._unwritten.get(key)) is not None:
            return unwritten[0], unwritten[1].data.cast("B")
        if time.monotonic() < self._resume_at:
            return None
        try:
            rows = self._database.execute(_FIND, (key, num_bytes)).fetchall()
        except _ERRORS as error:
            self._fail(error)
            return None
        self._pause_s = FIRST_PAUSE_S
        for checksum, width, height, pixels in rows:
            picture = Size(width, height)
            if checksum == _checksum(key, picture, pixels):
                return picture, memoryview(pixels)
        return None

    def _evict(self) -> None:
        """Remove images at random until a batch fits. The loop is bounded, for counts may be damaged."""
        for _ in range(1000):
            if self._database.execute(_USED_PAGES).fetchone()[0] <= self._most_pages:
                return
            self._database.execute(_EVICT, (os.urandom(32), self._batch))

    def _fail(self, error: Exception) -> None:
        """Pause where another process holds the lock, else stop writing; have a damaged file made anew by the next."""
        if _code(error) == sqlite3.SQLITE_BUSY:
            self._resume_at = time.monotonic() + self._pause_s
            self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s)
        elif self._is_writable:
            self._is_writable = False
            was_removed = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED
            why = "its file was removed" if was_removed else error
            log.warning("the cache in %s takes no new images: %s", self._folder, why)
            if _code(error) in _DAMAGE:
                with suppress(OSError):
                    _remove_files(self._folder)


def prepare_cache(folder: Path, max_bytes: int, size: Size) -> bool:
    """Return whether workers will have a cache: tried before they start, where a warning is seen, and seen once."""
    database = _open_or_warn(folder, max_bytes, size)
    if database is not None:
        database.close()
    return database is not None


def survey(folder: Path) -> list[Kept]:
    """Return what the cache holds, by recipe; nothing where it is damaged. No checksum is verified."""
    path = folder / FILE_NAME
    if path not in _our_files(folder):
        return []
    try:
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute(_SURVEY).fetchall()
        return [_kept(*row) for row in rows]
    except (sqlite3.Error, OSError, OverflowError, TypeError, ValueError):
        return []


def _kept(key: bytes, note: str, size: int | str, images: int, oldest: int) -> Kept:
    num_bytes = images * Size.of(size).num_bytes
    return Kept(key.hex(), json.loads(note), Size.of(size), images, num_bytes, datetime.fromtimestamp(oldest, UTC))


def bytes_on_disk(folder: Path) -> int:
    return sum(_size(path, on_disk=True) for path in _our_files(folder))


def clear(folder: Path) -> Removed:
    """Remove every file of the cache and nothing else."""
    removed = Removed(len(_our_files(folder)), sum(kept.images for kept in survey(folder)), bytes_on_disk(folder))
    _remove_files(folder)
    return removed


def _open_or_warn(folder: Path, max_bytes: int, size: Size) -> sqlite3.Connection | None:
    if not _batch(max_bytes, size):
        log.warning("no cache: its max_size of %s bytes holds no image", f"{max_bytes:,}")
        return None
    try:
        return _open(folder, max_bytes - _reserve(max_bytes))
    except _ERRORS as error:
        log.warning("no cache in %s: %s", folder, getattr(error, "strerror", None) or error)
        return None


def _open(folder: Path, max_file_bytes: int) -> sqlite3.Connection:
    """Open the folder's file, after removing one that is longer or damaged, and those of former versions."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # pixels are as private as the photos
        (folder / "CACHEDIR.TAG").write_text(_TAG)  # backups leave the folder out
    for path in _our_files(folder):
        if not path.name.startswith(FILE_NAME):
            path.unlink(missing_ok=True)
    if _size(folder / FILE_NAME) > max_file_bytes:
        _remove_files(folder)
    try:
        return _connect(folder / FILE_NAME, max_file_bytes)
    except _ERRORS as error:
        if _code(error) not in _DAMAGE:
            raise
        _remove_files(folder)
        return _connect(folder / FILE_NAME, max_file_bytes)


def _connect(path: Path, max_bytes: int) -> sqlite3.Connection:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    os.close(os.open(path, flags, 0o600))  # SQLite would let others read it, and would follow a link
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(f"{_SCHEMA} PRAGMA max_page_count = {max_bytes // PAGE_BYTES};")
        database.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_MS}")
    except BaseException:
        database.close()
        raise
    return database


def _our_files(folder: Path) -> list[Path]:
    """List the cache's files, those of former versions included. What a link points to is not ours."""
    found = folder.iterdir() if folder.is_dir() else ()
    return [path for path in found if _OUR_NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink()]


def _size(path: Path, on_disk: bool = False) -> int:
    """Return the size in bytes; 0 for a file that is not there: another process removes its journal at any moment."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    return found.st_blocks * 512 if on_disk else found.st_size


def _remove_files(folder: Path) -> None:
    """Remove the cache's files. A process that has the database open reads on, and SQLite refuses to let it write."""
    for path in _our_files(folder):
        path.unlink(missing_ok=True)


def _reserve(max_bytes: int) -> int:
    return min(RESERVE_BYTES, max_bytes // 8)


def _batch(max_bytes: int, size: Size) -> int:
    """Return how many images are written at a time: a quarter of what is reserved for them, as pages are not full."""
    return _reserve(max_bytes) // 4 // size.num_bytes if max_bytes >= MIN_BYTES else 0


def _code(error: Exception) -> int:
    """Return SQLite's code without what is more specific; 0 for errors that are not SQLite's."""
    is_of_file = isinstance(error, sqlite3.Error | UnicodeError)
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR if is_of_file else 0) & 0xFF


def _checksum(key: bytes, picture: Size, pixels: bytes | memoryview) -> int:
    """Return that of pixels, size and key together, so that no entry vouches for what was stored under another."""
    return zlib.crc32(pixels, zlib.crc32(key + str(picture).encode()))
