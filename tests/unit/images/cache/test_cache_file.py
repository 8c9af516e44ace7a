import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.images.cache.cache_file import ENTRY, PAGE_BYTES, Kept, Layout, Removed, bytes_on_disk, clear, survey
from infer_app.images.cache.pixel_cache import PixelCache
from tests.unit.images.cache.test_pixel_cache import MANY, SIDE, bytes_for, key, put


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@given(size=st.integers(1, 2000), max_bytes=st.integers(0, 10**13))
def test_a_layout_never_outgrows_its_bound(size, max_bytes):
    layout = Layout(size, max_bytes)
    if layout.num_slots:
        assert PAGE_BYTES + layout.num_slots * ENTRY.itemsize <= layout.slots_start
        assert layout.slots_start + layout.num_slots * layout.slot_bytes <= max_bytes
        assert layout.slots_in(max_bytes) >= layout.num_slots
        assert layout.num_slots > 0.98 * layout.slots_in(max_bytes) - layout.num_sets - 1  # and wastes little of it


@given(size=st.integers(1, 300), num_slots=st.integers(1, 10_000))
def test_a_slot_counts_from_its_last_pixel_on(size, num_slots):
    layout = Layout(size, MANY)
    end = layout.slots_start + (num_slots - 1) * layout.slot_bytes + layout.pixel_bytes
    assert (layout.slots_in(end - 1), layout.slots_in(end)) == (num_slots - 1, num_slots)


def test_an_entry_is_the_part_of_a_page_that_it_should_be():
    assert PAGE_BYTES % ENTRY.itemsize == 0
    assert Layout(224, 10**10).ways * ENTRY.itemsize <= PAGE_BYTES


def test_a_survey_counts_by_recipe_and_size(folder):
    other, large = key(max_pixels=5), key(48)
    for one, size, count in ((key(), SIDE, 70), (other, SIDE, 3), (large, 48, 5)):
        with PixelCache.open(folder, MANY, one) as cache:
            put(cache, range(count), size)
    kept = {one.recipe_id: one for one in survey(folder)}
    now = datetime.now(UTC)
    assert {one.oldest <= now and now - one.oldest < timedelta(minutes=1) for one in kept.values()} == {True}
    assert kept == {
        one.recipe_id: Kept(
            one.recipe_id,
            json.loads(one.to_json()),
            size,
            count,
            count * pages * PAGE_BYTES,
            kept[one.recipe_id].oldest,
        )
        for one, size, count, pages in ((key(), SIDE, 70, 1), (other, SIDE, 3, 1), (large, 48, 5, 2))
    }


def test_a_survey_counts_no_more_than_fit(folder):
    with PixelCache.open(folder, bytes_for(130), key()) as cache:
        put(cache, range(400))
    assert [one.images for one in survey(folder)] == [129]  # three sets of 43


def test_a_cut_file_counts_what_is_left(folder):
    with PixelCache.open(folder, bytes_for(64), key()) as cache:
        put(cache, range(64))
    layout, path = Layout(SIDE, bytes_for(64)), folder / f"{SIDE}.pixels"
    content = path.read_bytes()
    path.write_bytes(content[: layout.slots_start + 10 * layout.slot_bytes])
    assert [one.images for one in survey(folder)] == [10]
    path.write_bytes(content[: PAGE_BYTES + 10])
    assert survey(folder) == []


@pytest.mark.parametrize("note", ["", "{", "[]", None])
def test_a_lost_note_costs_only_the_words(folder, note):
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(3))
    path = folder / f"{key().recipe_id}.recipe"
    path.unlink() if note is None else path.write_text(note)
    assert [(one.recipe, one.images) for one in survey(folder)] == [({}, 3)]
    PixelCache.open(folder, MANY, key()).close()
    assert [one.recipe for one in survey(folder)] == [json.loads(key().to_json())]


@pytest.mark.parametrize(
    "content", [b"", b"foreign", bytes(9000), b"infer_app pixels 1\n{}", b"infer_app pixels 1\n[1]"]
)
def test_a_foreign_file_is_no_part_of_a_survey(folder, content):
    folder.mkdir()
    (folder / "32.pixels").write_bytes(content)
    assert survey(folder) == []


def test_clearing_removes_our_files_and_nothing_else(folder):
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(7))
    theirs = {"photo.jpg", "big.pixels", "notes.recipe"}
    for name in theirs:
        (folder / name).write_bytes(b"mine")
    on_disk = bytes_on_disk(folder)
    assert on_disk > 0
    assert clear(folder) == Removed(files=1, images=7, bytes=on_disk)
    assert {path.name for path in folder.iterdir()} == theirs | {"CACHEDIR.TAG"}
    assert clear(folder) == Removed(0, 0, 0)


def test_a_missing_folder_is_an_empty_cache(folder):
    assert (survey(folder), bytes_on_disk(folder), clear(folder)) == ([], 0, Removed(0, 0, 0))
    assert not folder.exists()
