"""Rows that are read while a run writes, in SQLite."""

import sqlite3
from contextlib import closing

import pytest

from infer_app.base.domain import DetectedObject
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.listed_images import IMAGES_AT_ONCE, ListedImages
from infer_app.tables.queries.pending_images import PendingImages
from infer_app.tables.rows.results import (
    Part,
    Selection,
    read,
    read_preferred,
    read_rejected,
    read_rejections,
    read_together,
)
from tests.conftest import DAY
from tests.support.results import broken, commit, predicted

CAT = DetectedObject("cat", 0, 0.9, 0.0, 0.0, 1.0, 1.0)
READERS = {
    "objects": lambda images: read_preferred(images, DAY, ["a"], Part.OBJECTS),
    "outputs": lambda images: read_preferred(images, DAY, ["a"], Part.OUTPUT),
    "rejected": lambda images: read_rejected(images, DAY, "a"),
    "predictions": lambda images: read(images, DAY, Selection(["a"])),
    "rejections": lambda images: read_rejections(images, DAY, "a"),
    "pending": lambda images: PendingImages(images).read_pending(DAY, "b"),
    "pairs": lambda images: read_together(images, DAY, ["a", "c"], Part.OBJECTS),
}


@pytest.fixture
def database(users_file):
    return users_file


@pytest.fixture
def write(database):
    def write_result(*image_ids, model_id="a", bad=False):
        good = () if bad else predicted(*image_ids, objects=(CAT, CAT))
        commit(database, good, broken(*image_ids) if bad else (), model_id=model_id)

    return write_result


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_pauses_keeps_nobody_from_writing(database, register, write, reader):
    register("/1.jpg", "/2.jpg", "/3.jpg", "/4.jpg")
    for image_id in "12":
        write(image_id)
        write(image_id, model_id="c")
    for image_id in "34":
        write(image_id, bad=True)
    rows = READERS[reader](ListedImages(database, Source(database)))
    first = next(rows)
    with closing(sqlite3.connect(database.file, timeout=0, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")  # what a commit needs
        writer.execute("ROLLBACK")
    assert first not in list(rows)


def test_images_of_several_pages_are_read_once_and_in_order_with_all_their_objects(database, register, write):
    """Pages of 400 images and of 200, each of them in parts."""
    ids = [str(number) for number in range(1, 601)]
    register(*(f"/{number}.jpg" for number in ids))
    write(*ids[:300])
    images = read_preferred(ListedImages(database, Source(database, page_size=400)), DAY, ["a"], Part.OBJECTS)
    found = [next(images)]
    write("1", *ids[300:])  # of which the first was read already
    found += images
    assert IMAGES_AT_ONCE < 400
    assert [(image.image_id, image.objects) for image in found] == [(image_id, (CAT, CAT)) for image_id in ids]
