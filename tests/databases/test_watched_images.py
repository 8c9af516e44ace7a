"""What walks over watched folders store of registered images, and what is read of it."""

from datetime import datetime

import pytest
from sqlalchemy import event, select, text

from infer_app.base.domain import Broken, FileFacts, ImageFile, Output, Prediction, Reason
from infer_app.base.errors import DayHeld
from infer_app.tables.listing.image_registry import DatedImage, add_objects, register
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.watched_images import (
    ChangedCounts,
    RegisteredElsewhere,
    SeenImages,
    count_changed,
    has_images_in,
    mark_missing,
)
from infer_app.tables.results.project_row import read_forgotten_before, read_owner
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import pictures
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.results import register_rows, run_day

ID = MODEL.model_id
NOON = datetime(2026, 11, 20, 12)


def walk(database, files, hash_files=None):
    """What a walk over a watched folder registers."""

    def date(new):
        return [DatedImage(file, NOON) for file in new]

    return list(register(database, files, date, hash_files))


def run(database, sizes, bad=()):
    """Predict what is new of the day, or reject it; the files have these sizes, and checksums that tell these."""

    def answer(ref):
        facts = FileFacts(sizes[ref.location], None, f"{sizes[ref.location]:064}")
        if ref.location in bad:
            return Broken(ref, Reason.CORRUPT, "", "decode", facts)
        return Prediction(ref, Output("cat", 0.9), facts)

    return sorted(ref.location for ref in run_day(database, Source(database), DAY, answer))


def queued(database):
    with database.read() as connection:
        return connection.scalars(select(pictures.c.location).where(pictures.c.queued_at.is_not(None))).all()


def changed(database):
    return count_changed(database, Source(database), [ID])


def test_a_walk_knows_what_it_has_not_seen_whatever_the_ids_are(database):
    """An id may be as large as the database takes, and a folder is seen twice if it is watched twice."""
    largest = 2**62
    given = {1: "/p/a.jpg", 2: "/p/b.jpg", 1_000_000_000: "/p/c.jpg", largest: "/p/d.jpg"}
    rows = [{"id": row_id, "location": at, "added_at": NOON} for row_id, at in given.items()]
    with database.write() as connection:
        register_rows(connection, *rows, {"id": 3, "location": "/elsewhere/a.jpg", "added_at": NOON})
    seen = SeenImages(database, ["/p/"])
    with database.write() as connection:
        register_rows(connection, {"location": "/p/later.jpg", "added_at": NOON})
    assert sorted(seen.read_others()) == list(given.items())
    seen.add([1, largest])
    seen.add([largest + 1, 1])
    assert sorted(seen.read_others()) == [(2, "/p/b.jpg"), (1_000_000_000, "/p/c.jpg")]
    seen.add([2, 1_000_000_000])
    assert seen.read_others() == []


def test_a_remote_image_is_replaced_if_it_has_another_size_when_it_is_listed_again(database):
    urls = [f"https://host/{name}.jpg" for name in ("same", "new", "rejected", "between")]
    assert add_objects(database, [(url, 5) for url in urls], NOON) == 4
    sizes = dict.fromkeys(urls, 5) | {urls[3]: 7}  # replaced before it was predicted
    assert run(database, sizes, bad=[urls[2]]) == sorted(urls)
    assert changed(database) == ChangedCounts()
    sizes |= {urls[1]: 6, urls[2]: 6}
    assert add_objects(database, list(sizes.items()), NOON) == 0
    assert changed(database) == ChangedCounts(replaced=1)
    assert run(database, sizes) == [urls[2]]
    with database.write() as connection:
        connection.execute(text("DELETE FROM infer_predictions WHERE picture = 2"))  # infer retry --replaced
    assert run(database, sizes) == [urls[1]]
    assert changed(database) == ChangedCounts()


def test_a_predicted_photo_that_was_missing_for_a_while_is_not_queued(database):
    files = [ImageFile(f"/p/{name}.jpg", 5, 1.0) for name in "abc"]
    walk(database, files[:2])
    run(database, {file.location: 5 for file in files})
    walk(database, files[2:])  # nothing has predicted it
    mark_missing(database, [1, 2, 3])
    assert changed(database) == ChangedCounts(missing=3)

    def hash_files(some):
        return [FileFacts(6, 2.0, f"{6:064}") for _ in some]

    walk(database, [files[0], ImageFile("/p/b.jpg", 6, 2.0), files[2]], hash_files)
    assert changed(database) == ChangedCounts(replaced=1)
    assert sorted(queued(database)) == ["/p/b.jpg", "/p/c.jpg"]


def test_no_folder_moves_during_a_run(database):
    walk(database, [ImageFile("/a/photos/1.jpg")])
    elsewhere, runs_ = RegisteredElsewhere(database, ["/b/photos/"]), RunStore(database)
    run_id = runs_.open_run(DAY, MODEL)
    with pytest.raises(DayHeld, match=run_id):
        elsewhere.move("/a/photos/", "/b/photos/")
    assert has_images_in(database, ["/a/photos/"])
    runs_.fail_run(run_id, 1, "")
    assert elsewhere.move("/a/photos/", "/b/photos/") == 1
    assert has_images_in(database, ["/b/photos/"])


@only("postgres", "mariadb")
@pytest.mark.parametrize(
    "read",
    [
        lambda database: has_images_in(database, ["/p/"]),
        lambda database: SeenImages(database, ["/p/"]).read_others() == [(1, "/p/a.jpg")],
        lambda database: bool(RegisteredElsewhere(database, ["/q/"])),
        lambda database: len(RegisteredElsewhere(database, ["/q/"]).read_files([1])) == 1,
        lambda database: database.ask(read_owner)[1:] == (None, None),
        lambda database: read_forgotten_before(database) is None,
    ],
)
def test_a_connection_that_is_lost_costs_no_registration(database, read):
    """Each connection's first statement after it was opened finds it closed once."""
    walk(database, [ImageFile("/p/a.jpg", 5, 1.0)])
    lost = set()

    def lose(connection, cursor, sql, parameters, context, many):
        table = next((table for table in ("infer_pictures", "infer_project") if f"FROM {table}" in sql), None)
        is_stream = context.execution_options.get("yield_per")  # whose cursor psycopg would close later
        if table and not is_stream and sql not in lost:
            lost.add(sql)
            connection.connection.driver_connection.close()

    event.listen(database._engine, "before_cursor_execute", lose)
    assert read(database)
    assert lost
