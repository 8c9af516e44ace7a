import hashlib
import os
import random
import shutil
import sqlite3
import time
from contextlib import closing
from functools import cache as remember
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from infer_app.images.cache.cache_key import CacheKey
from infer_app.images.cache.pixel_cache import (
    FILE_NAME,
    LOCK_WAIT_MS,
    PAGE_BYTES,
    PixelCache,
    clear,
    prepare_cache,
    survey,
)
from infer_app.recipe import Recipe, Size

PICTURE = Size(640, 480)
SIDE = 32  # five of them share a page
MANY = 10**9
SMALL = 1 << 20  # holds about 220


def key(size: Size | int = SIDE, **changed) -> CacheKey:
    return CacheKey(**{"recipe": Recipe("stretch", size), "max_pixels": 10**6, "made_by": "test", **changed})


def sha256(number: int) -> str:
    return hashlib.sha256(f"image {number}".encode()).hexdigest()


@remember
def pixels(number: int, size: Size | int = SIDE) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, Size.of(size).shape, np.uint8)


def put(cache: PixelCache, numbers, size: Size | int = SIDE) -> None:
    for number in numbers:
        cache.put(sha256(number), pixels(number, size), PICTURE)


def found(cache: PixelCache, numbers, size: Size | int = SIDE) -> list[int]:
    """Those that are found, each of which must be right."""
    out = np.empty(Size.of(size).shape, np.uint8)
    hits = [number for number in numbers if cache.get(sha256(number), out) == PICTURE and check(out, number, size)]
    assert len(hits) <= len(list(numbers))
    return hits


def check(out: np.ndarray, number: int, size: Size | int) -> bool:
    assert np.array_equal(out, pixels(number, size)), f"wrong pixels for image {number}"
    return True


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{FILE_NAME}*"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def filled(folder):
    """Twenty images, and the cache closed."""
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(20))
    return folder / FILE_NAME


def open_repaired(path: Path) -> PixelCache:
    """Open the cache after runs in which every image was asked for, and was decoded and put where it was missing."""
    for _ in range(2):
        with PixelCache.open(path.parent, MANY, key()) as cache:
            put(cache, set(range(20)) - set(found(cache, range(20))))
    return PixelCache.open(path.parent, MANY, key())


# --- finding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 16, 33, SIDE, 224])
def test_what_was_put_is_found_by_the_next_process(folder, size):
    with PixelCache.open(folder, MANY, key(size)) as cache:
        put(cache, range(40), size)
        assert found(cache, range(40), size) == list(range(40))
    with PixelCache.open(folder, MANY, key(size)) as cache:
        assert found(cache, range(50), size) == list(range(40))


def test_a_cache_that_is_not_full_keeps_all(folder):
    numbers = range(1500)
    with PixelCache.open(folder, 10 * SMALL, key()) as cache:
        put(cache, numbers)
        assert found(cache, numbers) == list(numbers)


def test_pixels_go_straight_into_a_row_of_a_batch(folder):
    batch = np.zeros((3, SIDE, SIDE, 3), np.uint8)
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, [7])
        assert cache.get(sha256(7), batch[1]) == PICTURE
    assert np.array_equal(batch[1], pixels(7))
    assert not batch[[0, 2]].any()


@pytest.mark.parametrize(
    "other",
    [
        key(recipe=Recipe("crop-resize", SIDE, crop=0.9)),
        key(recipe=Recipe("stretch", SIDE, interpolation="bilinear")),
        key(recipe=Recipe("stretch", SIDE, exif="ignore")),
        key(max_pixels=10),
        key(made_by="another decoder"),
        key(preprocess="steps:f", preprocess_sha256="00"),
    ],
)
def test_pixels_of_another_key_are_a_miss(folder, other):
    with PixelCache.open(folder, MANY, key()) as mine, PixelCache.open(folder, MANY, other) as theirs:
        put(mine, range(5))
        assert found(theirs, range(5)) == []
        theirs.put(sha256(0), pixels(99), PICTURE)
        assert found(mine, range(5)) == list(range(5))


def test_two_sizes_live_side_by_side(folder):
    with PixelCache.open(folder, MANY, key()) as small, PixelCache.open(folder, MANY, key(48)) as large:
        put(small, range(9))
        put(large, range(9), 48)
        assert found(small, range(9)) == found(large, range(9), 48) == list(range(9))


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((SIDE, SIDE), np.uint8), np.zeros((SIDE, SIDE, 3)), pixels(0)[::-1], pixels(0).transpose(1, 0, 2)],
)
def test_pixels_of_another_shape_or_type_are_a_bug(folder, wrong):
    with PixelCache.open(folder, MANY, key()) as cache:
        with pytest.raises(ValueError, match="the cache takes contiguous uint8"):
            cache.put(sha256(0), wrong, PICTURE)
        with pytest.raises(ValueError, match="the cache takes contiguous uint8"):
            cache.get(sha256(0), wrong)


# --- the bound ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bound", "size"), [(SMALL, SIDE), (3 * SMALL, SIDE), (SMALL, 64), (20 * SMALL, 224)])
def test_it_never_outgrows_its_bound(folder, bound, size):
    num_images = 3 * bound // (size * size * 3)
    with PixelCache.open(folder, bound, key(size)) as cache:
        for number in range(num_images):
            put(cache, [number], size)
            assert bytes_of(folder) <= bound
            assert found(cache, [number], size) == [number]
        cache.flush()
        assert found(cache, [number], size) == [number]
        kept = len(found(cache, range(num_images), size))
    assert num_images // 9 < kept < num_images // 3


@pytest.fixture
def _same_choices(monkeypatch):
    """The images that are removed are chosen at random, here the same ones in every run."""
    monkeypatch.setattr(os, "urandom", random.Random(0).randbytes)


@pytest.mark.usefixtures("_same_choices")
def test_a_second_pass_over_more_images_than_fit_finds_a_part(folder, monkeypatch):
    clock = SimpleNamespace(time=count(1).__next__, monotonic=time.monotonic)  # each batch has another age
    monkeypatch.setattr("infer_app.images.cache.pixel_cache.time", clock)
    numbers = range(330)
    with PixelCache.open(folder, SMALL, key()) as cache:
        put(cache, numbers)
        hits = 0
        for number in numbers:
            hits += len(found(cache, [number])) or cache.put(sha256(number), pixels(number), PICTURE) or 0
    assert hits > 66  # to give up the oldest would find hardly any


@pytest.mark.usefixtures("_same_choices")
@pytest.mark.parametrize(("old_size", "new_size"), [(SIDE, 64), (64, SIDE)])
def test_two_sizes_share_the_bound(folder, old_size, new_size):
    with (
        PixelCache.open(folder, SMALL, key(old_size)) as old,
        PixelCache.open(folder, SMALL, key(new_size)) as new,
    ):
        put(old, range(300), old_size)
        before = len(found(old, range(300), old_size))
        put(new, range(10), new_size)
        assert len(found(new, range(10), new_size)) > 5
        for _ in range(5):
            put(new, range(300), new_size)
            assert bytes_of(folder) <= SMALL
        assert len(found(old, range(300), old_size)) < before // 2


def test_what_is_put_is_found_by_others_after_a_flush(folder):
    with PixelCache.open(folder, MANY, key()) as mine, PixelCache.open(folder, MANY, key()) as theirs:
        put(mine, range(5))
        assert found(theirs, range(5)) == []
        mine.flush()
        assert found(theirs, range(5)) == list(range(5))


def test_a_bound_below_one_image_means_no_cache(folder, caplog):
    assert PixelCache.open(folder, 5000, key()) is None
    assert caplog.messages == ["no cache: its max_size of 5,000 bytes holds no image"]
    assert not folder.exists()


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(16))
def test_flipped_bytes_are_misses(filled, seed):
    intact, random = filled.read_bytes(), np.random.default_rng(seed)
    content = np.frombuffer(intact, np.uint8).copy()
    written = np.flatnonzero(content)
    content[random.choice(written, 400, replace=False)] ^= np.uint8(1 << seed % 8)
    filled.write_bytes(content)
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert len(found(cache, range(20))) < 20
    with open_repaired(filled) as cache:
        assert found(cache, range(20)) == list(range(20))


@pytest.mark.parametrize("page", range(9))
@pytest.mark.parametrize("damage", [bytes(PAGE_BYTES), b"\xff" * PAGE_BYTES, b"\xff"])
def test_damage_to_any_page_is_misses(filled, page, damage):
    content = bytearray(filled.read_bytes())
    content[page * PAGE_BYTES : page * PAGE_BYTES + len(damage)] = damage
    filled.write_bytes(content)
    with open_repaired(filled) as cache:
        assert found(cache, range(20)) == list(range(20))


@pytest.mark.parametrize("byte", [0, 1, 17, 40, 60])
def test_a_damaged_header_costs_no_more_than_the_file(filled, byte):
    content = bytearray(filled.read_bytes())
    content[byte] ^= 255
    filled.write_bytes(content)
    with open_repaired(filled) as cache:
        assert found(cache, range(20)) == list(range(20))


def test_a_damaged_file_is_said_once(filled, caplog):
    content = filled.read_bytes()
    filled.write_bytes(content[:PAGE_BYTES] + bytes(len(content) - PAGE_BYTES))
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert found(cache, range(20)) == []
        put(cache, range(20))
    assert len(caplog.messages) == 1
    assert not filled.exists()


def test_pixels_of_another_row_are_misses(filled):
    with closing(sqlite3.connect(filled, isolation_level=None)) as database:
        database.execute(
            "UPDATE pixels SET pixels = (SELECT pixels FROM pixels other WHERE other.id = pixels.id % 20 + 1)"
        )
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert found(cache, range(20)) == []
        put(cache, range(20))
        cache.flush()
        assert found(cache, range(20)) == list(range(20))


@pytest.mark.parametrize("value", ["NULL", "7", "'text'", "x'00'", "zeroblob(3072)", "zeroblob(9999)"])
@pytest.mark.parametrize("column", ["pixels", "checksum"])
def test_values_that_were_never_written_are_misses(filled, column, value):
    with closing(sqlite3.connect(filled, isolation_level=None)) as database:
        database.execute(f"UPDATE pixels SET {column} = {value}")
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert found(cache, range(20)) == []


def test_an_entry_does_not_vouch_for_another_image(filled):
    mine = bytes.fromhex(sha256(0))
    other = mine[:31] + bytes([mine[31] ^ 1])
    content = filled.read_bytes()
    assert content.count(mine) == 2  # in the table and in the index
    filled.write_bytes(content.replace(mine, other))
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert not cache.get(other.hex(), np.empty((SIDE, SIDE, 3), np.uint8))


@pytest.mark.parametrize("kept", [0, 1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 100, 0.5, 0.99])
def test_a_file_cut_anywhere_is_misses(filled, kept):
    size = filled.stat().st_size
    with PixelCache.open(filled.parent, MANY, key()) as reader:
        os.truncate(filled, kept if isinstance(kept, int) else int(size * kept))
        assert len(found(reader, range(20))) < 20
    with open_repaired(filled) as cache:
        assert found(cache, range(20)) == list(range(20))


@pytest.mark.parametrize("content", [b"foreign", b"SQLite format 3\0", bytes(9000), b"\xff" * 20_000])
@pytest.mark.parametrize("name", [FILE_NAME, f"{FILE_NAME}-journal"])
def test_a_foreign_file_is_replaced(folder, name, content):
    folder.mkdir()
    (folder / name).write_bytes(content)
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(3))
        cache.flush()
        assert found(cache, range(3)) == [0, 1, 2]


def test_a_larger_bound_keeps_what_is_there(filled):
    with PixelCache.open(filled.parent, 2 * MANY, key()) as cache:
        assert found(cache, range(20)) == list(range(20))


def test_the_largest_bound_is_one(filled):
    with PixelCache.open(filled.parent, 1 << 50, key()) as cache:
        assert found(cache, range(20)) == list(range(20))
        put(cache, range(20, 3000))
        cache.flush()
        assert found(cache, range(3000)) == list(range(3000))


def test_a_smaller_bound_than_the_file_starts_empty(folder):
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(500))
    with PixelCache.open(folder, SMALL, key()) as cache:
        assert found(cache, range(500)) == []
        put(cache, range(20))
        assert found(cache, range(20)) == list(range(20))
    assert bytes_of(folder) <= SMALL


def test_where_another_process_holds_the_lock_everything_is_a_miss(filled, caplog):
    with (
        closing(sqlite3.connect(filled, isolation_level=None)) as holder,
        PixelCache.open(filled.parent, MANY, key()) as cache,
    ):
        holder.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        for number in range(200):
            assert found(cache, [number]) == []
            cache.put(sha256(number), pixels(number), PICTURE)
            cache.flush()
        assert time.monotonic() - start < 200 * LOCK_WAIT_MS / 1000  # it does not wait each time
        holder.execute("COMMIT")
        time.sleep(cache._pause_s)
        assert found(cache, range(20)) == list(range(20))
    assert caplog.messages == []


def test_a_removed_file_is_said_once_and_takes_no_new_images(filled, caplog):
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        clear(filled.parent)
        for number in range(20, 30):
            put(cache, [number])
            cache.flush()
        assert found(cache, range(30)) == list(range(20))
    assert [message.partition(" takes ")[2] for message in caplog.messages] == ["no new images: its file was removed"]
    assert bytes_of(filled.parent) == 0


def test_what_was_cleared_under_a_reader_is_still_right(filled):
    with PixelCache.open(filled.parent, MANY, key()) as reader:
        shutil.rmtree(filled.parent)
        assert found(reader, range(20)) == list(range(20))
        put(reader, range(20, 30))
        reader.flush()  # takes no space that nobody sees
        assert found(reader, range(20, 30)) == []
        with PixelCache.open(filled.parent, MANY, key()) as cache:
            assert found(cache, range(20)) == []


# --- where there can be none ----------------------------------------------------------------------------------------


def test_a_folder_is_made_for_us_alone(tmp_path):
    folder = tmp_path / "not" / "yet"
    PixelCache.open(folder, MANY, key()).close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_folder_of_the_users_is_not_tagged(folder):
    folder.mkdir()
    (folder / "photo.jpg").write_bytes(b"mine")
    PixelCache.open(folder, MANY, key()).close()
    assert not (folder / "CACHEDIR.TAG").exists()
    assert (folder / "photo.jpg").read_bytes() == b"mine"


def test_no_folder_means_no_cache_and_one_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    assert PixelCache.open(tmp_path / "file" / "cache", MANY, key()) is None
    assert caplog.messages == [f"no cache in {tmp_path}/file/cache: Not a directory"]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])
def test_what_is_no_file_means_no_cache(folder, caplog, make):
    folder.mkdir()
    make(folder / FILE_NAME)
    assert PixelCache.open(folder, MANY, key()) is None
    assert len(caplog.messages) == 1


def test_opening_removes_what_former_versions_left(folder):
    folder.mkdir()
    for name in ("224.pixels", "0123456789abcdef.recipe", "big.pixels"):
        (folder / name).write_bytes(b"old")
    (folder / "48.pixels").symlink_to(folder / "big.pixels")
    assert prepare_cache(folder, MANY, Size.square(SIDE))
    assert {path.name for path in folder.iterdir()} == {FILE_NAME, "big.pixels", "48.pixels"}


def test_preparing_says_whether_there_will_be_a_cache(folder, tmp_path, caplog):
    assert prepare_cache(folder, MANY, Size.square(SIDE))
    assert caplog.messages == []
    assert survey(folder) == []
    (tmp_path / "file").write_text("no folder")
    assert not prepare_cache(tmp_path / "file", MANY, Size.square(SIDE))
    assert len(caplog.messages) == 1
