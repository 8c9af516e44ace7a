"""What walks over folders find: moved, missing and replaced images."""

from datetime import datetime

from sqlalchemy import select

from infer_app.base.domain import FileFacts, ImageFile
from infer_app.tables.listing.image_registry import register as register_files
from infer_app.tables.listing.watched_images import (
    ChangedCounts,
    RegisteredElsewhere,
    SeenImages,
    count_changed,
    has_images_in,
    mark_missing,
    read_changed,
)
from infer_app.tables.results.schema import pictures, rejections
from tests.conftest import DAY, MODEL
from tests.support.listings import at
from tests.support.results import broken, commit, predicted, stored

ID = MODEL.model_id


def test_what_is_registered_below_a_folder_is_moved_and_nothing_else(database):
    """Not what is below a name that differs in case, as for SQLite's LIKE, or that only begins the same."""
    names = ("/old/ä/1.jpg", "/old/%_/2.jpg", "/Old/3.jpg", "/older/4.jpg", "/new/old/5.jpg")
    found = [ImageFile(name, 7 + number, 1.0) for number, name in enumerate(names)]
    list(register_files(database, found, at(datetime(2026, 11, 20))))
    elsewhere = RegisteredElsewhere(database, ["/new/"])
    assert sorted(elsewhere.read_locations([7, 8, 11])) == [("/old/%_/2.jpg", 8), ("/old/ä/1.jpg", 7)]
    commit(database, predicted("4"))  # ids are in the order of the names
    assert elsewhere.read_files(elsewhere.read_ids("/old/")) == [(found[1], set()), (found[0], {"ab" * 32})]
    assert elsewhere.move("/old/", "/né/w/") == 2
    with database.read() as connection:
        locations = connection.scalars(select(pictures.c.location)).all()
    assert sorted(locations) == sorted(["/né/w/ä/1.jpg", "/né/w/%_/2.jpg", *names[2:]])
    assert [has_images_in(database, [folder]) for folder in ("/old/", "/Old/", "/né/w/")] == [False, True, True]


def test_what_a_walk_did_not_see_is_missing_until_it_is_seen_again(tables, database):
    found = [ImageFile(f"{folder}/{n}.jpg", 7, 1.0) for folder in ("/in", "/out") for n in range(3)]
    list(register_files(database, found, at(datetime(2026, 10, 1))))

    def walk(*seen):
        looked = SeenImages(database, ["/in/"])
        list(register_files(database, [ImageFile("/in/new.jpg", 7, 1.0)], at(datetime(2026, 10, 1))))  # meanwhile
        for batch in register_files(database, seen, at(datetime(2026, 10, 1))):
            looked.add(batch.known)
        others = looked.read_others()
        mark_missing(database, [row_id for row_id, _ in others])
        return [location for _, location in others]

    new = ImageFile("/in/new.jpg", 7, 1.0)
    assert walk(*found[:3]) == []
    assert [walk(found[0], new), walk(found[0], new)] == [["/in/1.jpg", "/in/2.jpg"], []]
    assert [one.state for one in read_changed(tables.database, tables.source, [ID])] == ["missing", "missing"]
    assert count_changed(tables.database, tables.source, [ID]) == ChangedCounts(missing=2)
    list(register_files(database, [found[1]._replace(modified=2.0)], at(datetime(2026, 10, 1))))
    assert [one.location for one in read_changed(tables.database, tables.source, [ID])] == ["/in/2.jpg"]


def test_a_replaced_image_is_one_whose_prediction_is_of_other_bytes(tables, database):
    """Of any model that is asked about; of a day or of all; until the new bytes are predicted."""
    day = datetime(2026, 11, 20, 12)
    files = [ImageFile(f"/{n}.jpg", 7, 1.0) for n in range(1, 5)]
    for file, time in zip(files, (day, day, day, datetime(2026, 11, 3)), strict=True):
        list(register_files(database, [file], at(time)))
    commit(database, predicted("1", "2", "4"), broken("3"))  # of the checksum abab…
    hashes = {"/1.jpg": "ab" * 32, "/2.jpg": "cd" * 32, "/3.jpg": "ef" * 32, "/4.jpg": "ef" * 32}

    def look(changed):
        return [FileFacts(one.size, one.modified, hashes[one.location]) for one in changed]

    changed = [file._replace(modified=2.0) for file in files]
    for _ in range(2):
        list(register_files(database, changed, at(day), look))
        replaced = [one.image_id for one in read_changed(tables.database, tables.source, [ID])]
        assert replaced == ["4", "2"]
    assert count_changed(tables.database, tables.source, [ID]) == ChangedCounts(replaced=2)
    assert count_changed(tables.database, tables.source, [ID], DAY) == ChangedCounts(replaced=1)
    assert [count_changed(tables.database, tables.source, ids) for ids in (["another"], [])] == 2 * [ChangedCounts()]
    assert stored(database, rejections) == {}  # of other bytes, so it is tried again
    unreadable = [file._replace(modified=3.0) for file in files]
    (batch,) = register_files(database, unreadable, at(day), lambda files: [FileFacts()] * len(files))
    assert batch.num_changed == 4
    assert next(register_files(database, unreadable, at(day), look)).num_changed == 4  # compared again
    hashes = dict.fromkeys(hashes, "ab" * 32)  # the files that were predicted are put back
    list(register_files(database, [file._replace(modified=4.0) for file in files], at(day), look))
    assert count_changed(tables.database, tables.source, [ID]) == ChangedCounts()
