import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from infer_app.images.cache import pixel_cache
from infer_app.images.cache.pixel_cache import FILE_NAME, Kept, PixelCache, Removed, bytes_on_disk, clear, survey
from infer_app.recipe import Size
from tests.unit.images.cache.test_pixel_cache import MANY, SIDE, SMALL, found, key, put


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def test_a_survey_counts_by_recipe_and_size(folder):
    other, large = key(max_pixels=5), key(Size(48, 20))
    for one, size, count in ((key(), SIDE, 70), (other, SIDE, 3), (large, Size(48, 20), 5)):
        with PixelCache.open(folder, MANY, one) as cache:
            put(cache, range(count), size)
    kept = {one.recipe_id: one for one in survey(folder)}
    now = datetime.now(UTC)
    assert {one.oldest <= now and now - one.oldest < timedelta(minutes=1) for one in kept.values()} == {True}
    assert kept == {
        one.recipe_id: Kept(
            one.recipe_id, json.loads(one.to_json()), size, count, count * num_bytes, kept[one.recipe_id].oldest
        )
        for one, size, count, num_bytes in (
            (key(), Size.square(SIDE), 70, SIDE**2 * 3),
            (other, Size.square(SIDE), 3, SIDE**2 * 3),
            (large, Size(48, 20), 5, 48 * 20 * 3),
        )
    }


def test_a_survey_counts_no_more_than_fit(folder):
    with PixelCache.open(folder, SMALL, key()) as cache:
        put(cache, range(400))
        cache.flush()
        assert [one.images for one in survey(folder)] == [len(found(cache, range(400)))]


@pytest.mark.parametrize("content", [b"", b"foreign", bytes(9000), b"SQLite format 3\0"])
def test_a_foreign_file_is_no_part_of_a_survey(folder, content):
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(content)
    assert survey(folder) == []


@pytest.mark.parametrize("note", ["", "{", None])
def test_a_survey_of_a_damaged_file_is_empty(folder, note):
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(3))
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as database:
        database.execute("UPDATE recipes SET note = ?", (note,))
    assert survey(folder) == []


def test_clearing_removes_our_files_and_nothing_else(folder):
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(7))
    theirs = {"photo.jpg", "big.pixels", "notes.recipe"}
    for name in theirs:
        (folder / name).write_bytes(b"mine")
    for name in ("224.pixels", "0123456789abcdef.recipe"):  # of former versions
        (folder / name).write_bytes(b"old")
    on_disk = bytes_on_disk(folder)
    assert on_disk > 0
    assert clear(folder) == Removed(files=3, images=7, bytes=on_disk)
    assert {path.name for path in folder.iterdir()} == theirs | {"CACHEDIR.TAG"}
    assert clear(folder) == Removed(0, 0, 0)


def test_a_missing_folder_is_an_empty_cache(folder):
    assert (survey(folder), bytes_on_disk(folder), clear(folder)) == ([], 0, Removed(0, 0, 0))
    assert not folder.exists()


def test_a_journal_that_goes_while_the_folder_is_listed_disturbs_nobody(folder, monkeypatch):
    """Another process commits just then."""
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(3))
        cache.flush()
        monkeypatch.setattr(pixel_cache, "_our_files", lambda _: [folder / FILE_NAME, folder / f"{FILE_NAME}-journal"])
        assert bytes_on_disk(folder) > 0
        with PixelCache.open(folder, MANY, key()) as other:
            assert found(other, range(3)) == [0, 1, 2]
