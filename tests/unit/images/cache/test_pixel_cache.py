import hashlib
import os
import shutil
from functools import cache as remember
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from infer_app.domain import Recipe
from infer_app.images.cache.cache_file import PAGE_BYTES, Layout, survey
from infer_app.images.cache.cache_key import CacheKey
from infer_app.images.cache.pixel_cache import PixelCache, prepare_cache

SIDE = 32  # a slot is one page
MANY = 10**9


def key(size: int = SIDE, **changed) -> CacheKey:
    return CacheKey(**{"recipe": Recipe("stretch", size), "max_pixels": 10**6, "made_by": "test", **changed})


def bytes_for(num_images: int, size: int = SIDE) -> int:
    """The least bound that holds so many."""
    return 2 * PAGE_BYTES + num_images * (Layout(size, 0).slot_bytes + 64)


def sha256(number: int) -> str:
    return hashlib.sha256(f"image {number}".encode()).hexdigest()


@remember
def pixels(number: int, size: int = SIDE) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (size, size, 3), np.uint8)


def put(cache: PixelCache, numbers, size: int = SIDE) -> None:
    for number in numbers:
        cache.put(sha256(number), pixels(number, size))


def found(cache: PixelCache, numbers, size: int = SIDE) -> list[int]:
    """Those that are found, each of which must be right."""
    out = np.empty((size, size, 3), np.uint8)
    hits = [number for number in numbers if cache.get(sha256(number), out) and check(out, number, size)]
    assert len(hits) <= len(list(numbers))
    return hits


def check(out: np.ndarray, number: int, size: int) -> bool:
    assert np.array_equal(out, pixels(number, size)), f"wrong pixels for image {number}"
    return True


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.pixels"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def filled(folder):
    """Twenty images, and the cache closed."""
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(20))
    return folder / f"{SIDE}.pixels"


# --- finding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 16, 33, SIDE, 224])
def test_what_was_put_is_found_by_the_next_process(folder, size):
    with PixelCache.open(folder, MANY, key(size)) as cache:
        put(cache, range(40), size)
        assert found(cache, range(40), size) == list(range(40))
    with PixelCache.open(folder, MANY, key(size)) as cache:
        assert found(cache, range(50), size) == list(range(40))
        assert (cache.hits, cache.misses) == (40, 10)


def test_a_cache_that_is_not_full_keeps_all(folder):
    numbers = range(1500)
    with PixelCache.open(folder, bytes_for(2000), key()) as cache:
        put(cache, numbers)
        assert found(cache, numbers) == list(numbers)


def test_pixels_go_straight_into_a_row_of_a_batch(folder):
    batch = np.zeros((3, SIDE, SIDE, 3), np.uint8)
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, [7])
        assert cache.get(sha256(7), batch[1])
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
        theirs.put(sha256(0), pixels(99))
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
            cache.put(sha256(0), wrong)
        with pytest.raises(ValueError, match="the cache takes contiguous uint8"):
            cache.get(sha256(0), wrong)


# --- the bound ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_slots", [1, 5, 64, 200])
def test_it_never_outgrows_its_bound(folder, num_slots):
    bound = bytes_for(num_slots)
    with PixelCache.open(folder, bound, key()) as cache:
        for number in range(3 * num_slots):
            put(cache, [number])
            assert bytes_of(folder) <= bound
            assert found(cache, [number]) == [number]
        kept = len(found(cache, range(3 * num_slots)))
    assert num_slots * 3 // 4 - 1 <= kept <= num_slots


def test_a_second_pass_over_more_images_than_fit_finds_a_part(folder, monkeypatch):
    clock = SimpleNamespace(time=count(1).__next__)  # a second for each image, so that one of them is the oldest
    monkeypatch.setattr("infer_app.images.cache.pixel_cache.time", clock)
    numbers = range(300)
    with PixelCache.open(folder, bytes_for(200), key()) as cache:
        put(cache, numbers)
        hits = 0
        for number in numbers:
            hits += len(found(cache, [number])) or cache.put(sha256(number), pixels(number)) or 0
    assert hits > 60  # to give up the oldest would find hardly any


def test_of_two_sizes_the_one_unused_for_longest_gives_way(folder):
    bound = 128 * PAGE_BYTES
    with PixelCache.open(folder, bound, key()) as old, PixelCache.open(folder, bound, key(48)) as new:
        put(old, range(300))
        before = len(found(old, range(300)))
        for number in range(10):
            put(new, [number], 48)
            assert bytes_of(folder) <= bound
        assert found(new, range(10), 48) == list(range(10))
        assert 0 < len(found(old, range(300))) < before
        put(new, range(200), 48)
        assert found(old, range(300)) == []
        assert bytes_of(folder) <= bound


def test_a_bound_below_one_image_means_no_cache(folder, caplog):
    assert PixelCache.open(folder, 5000, key()) is None
    assert caplog.messages == ["no cache: its max_size of 5,000 bytes holds no image"]
    assert not folder.exists()


# --- damage ---------------------------------------------------------------------------------------------------------


def test_pixels_in_another_slot_than_their_own_are_misses(filled):
    layout = Layout(SIDE, MANY)
    content = bytearray(filled.read_bytes())
    slots = content[layout.slots_start :]
    content[layout.slots_start :] = slots[layout.slot_bytes :] + slots[: layout.slot_bytes]
    filled.write_bytes(content)
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert found(cache, range(20)) == []


def test_an_entry_does_not_vouch_for_another_image(filled):
    layout, mine = Layout(SIDE, MANY), bytes.fromhex(sha256(0))
    other = mine[:31] + bytes([mine[31] ^ 1])  # of the same set
    content = filled.read_bytes()
    assert content[: layout.slots_start].count(mine) == 1
    filled.write_bytes(content.replace(mine, other, 1))
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert not cache.get(other.hex(), np.empty((SIDE, SIDE, 3), np.uint8))


@pytest.mark.parametrize("kept", [0, 1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 100, 0.5, 0.99])
def test_a_file_cut_anywhere_is_misses(filled, kept):
    size = filled.stat().st_size
    with PixelCache.open(filled.parent, MANY, key()) as reader:
        os.truncate(filled, kept if isinstance(kept, int) else int(size * kept))
        assert len(found(reader, range(20))) < 20
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        put(cache, range(20))
        assert found(cache, range(20)) == list(range(20))


@pytest.mark.parametrize("content", [b"foreign", b"infer_app pixels 1\n", bytes(9000), b"\xff" * 20_000])
def test_a_foreign_file_is_replaced(folder, content):
    folder.mkdir()
    (folder / f"{SIDE}.pixels").write_bytes(content)
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(3))
        assert found(cache, range(3)) == [0, 1, 2]


def test_another_bound_starts_empty(filled):
    with PixelCache.open(filled.parent, MANY // 2, key()) as cache:
        assert found(cache, range(20)) == []
        put(cache, range(20))
        assert found(cache, range(20)) == list(range(20))


def test_what_was_cleared_under_a_reader_is_still_right(filled):
    with PixelCache.open(filled.parent, MANY, key()) as reader:
        shutil.rmtree(filled.parent)
        assert found(reader, range(20)) == list(range(20))
        put(reader, range(20, 30))  # takes no space that nobody sees
        assert found(reader, range(20, 30)) == []
        with PixelCache.open(filled.parent, MANY, key()) as cache:
            assert found(cache, range(20)) == []


# --- where there can be none ----------------------------------------------------------------------------------------


def test_a_folder_is_made_for_us_alone(tmp_path):
    folder = tmp_path / "not" / "yet"
    PixelCache.open(folder, MANY, key()).close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / f"{SIDE}.pixels").stat().st_mode & 0o777 == 0o600
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
    make(folder / f"{SIDE}.pixels")
    assert PixelCache.open(folder, MANY, key()) is None
    assert len(caplog.messages) == 1


def test_a_linked_file_is_never_cut(folder, tmp_path):
    folder.mkdir()
    theirs = tmp_path / "theirs"
    theirs.write_bytes(bytes(10**6))
    (folder / "48.pixels").symlink_to(theirs)
    with PixelCache.open(folder, bytes_for(10), key()) as cache:
        put(cache, range(20))
        assert len(found(cache, range(20))) == 10
    assert theirs.stat().st_size == 10**6


def test_preparing_says_whether_there_will_be_a_cache(folder, tmp_path, caplog):
    assert prepare_cache(folder, MANY, SIDE)
    assert caplog.messages == []
    assert survey(folder) == []
    (tmp_path / "file").write_text("no folder")
    assert not prepare_cache(tmp_path / "file", MANY, SIDE)
    assert len(caplog.messages) == 1
