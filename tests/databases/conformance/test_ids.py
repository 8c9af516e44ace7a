"""Ids and locations: each image is listed once, whatever its id and name."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from infer_app.base.domain import Broken, ImageFile, Output, Prediction, Reason
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.day.arrivals import ArrivalGap, find_gap
from infer_app.tables.engine.column_types import MAX_ID
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import (
    ROWS_PER_INSERT,
    DatedImage,
    add_images,
    count_images,
    end_queue,
    read_late_times,
)
from infer_app.tables.listing.image_registry import register as register_files
from infer_app.tables.listing.watched_images import has_images_in
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.schema import pictures, predictions, rejections
from tests.conftest import DAY, MODEL
from tests.support.listings import at, listed, select_new
from tests.support.results import ODD_TEXTS, broken, commit, predicted, run_day, stored
from tests.support.statements import refuse

ID = MODEL.model_id


def test_ids_that_look_alike_are_kept_apart(database, execute, kind):
    exact = " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" if kind == "mariadb" else ""
    execute(f"CREATE TABLE shots (id VARCHAR(600){exact}, location TEXT{exact}, added_at DATE)")
    ids = [*ODD_TEXTS, "x" * MAX_ID, "😀" * MAX_ID]
    rows = [{"id": i, "location": f"/{n}/{i[:20]}.jpg", "at": date(2026, 11, 20)} for n, i in enumerate(ids)]
    execute(("INSERT INTO shots VALUES (:id, :location, :at)", rows))
    settings = SourceSettings(table="shots")
    refs = select_new(database, settings)
    assert {ref.image_id: ref.location for ref in refs} == {row["id"]: row["location"] for row in rows}
    commit(database, bad=[Broken(ref, Reason.READ_ERROR, "", "read") for ref in refs], registered=False)
    commit(database, [Prediction(ref, Output()) for ref in refs[::2]], registered=False)
    assert stored(database, rejections).keys() == {ref.image_id for ref in refs[1::2]}
    assert set(select_new(database, settings)) == set(refs[1::2])
    commit(database, bad=[Broken(ref, Reason.CORRUPT, "", "decode") for ref in refs[1::2]], registered=False)
    assert select_new(database, settings) == []
    assert len(stored(database, predictions)) + len(stored(database, rejections)) == len(ids)


def test_rows_without_an_id_of_their_own_are_images_like_others(database, execute, kind):
    """A location stands for an id that is missing, a long id is cut, and those of one id are told apart by location."""
    exact = " CHARACTER SET utf8mb4" if kind == "mariadb" else ""
    execute(f"CREATE TABLE shots (id VARCHAR(600){exact}, location VARCHAR(80), added_at DATE)")
    ids = [None, None, "", "x" * (MAX_ID + 1), "x" * (MAX_ID + 2), "twice", "twice", "twice", "TWICE", "3"]
    rows = [{"id": i, "location": f"/{n}.jpg", "at": date(2026, 11, 20)} for n, i in enumerate(ids)]
    execute(("INSERT INTO shots VALUES (:id, :location, :at)", [*rows, rows[-1]]))  # of one id and location: one image
    source = listed(database, SourceSettings(table="shots"), page_size=2)
    refs = list(source.select_new(DAY, ID))
    assert [ref.location for ref in refs] == [row["location"] for row in rows]
    found = [ref.image_id for ref in refs]
    assert found[:3] + found[5:] == ["/0.jpg", "/1.jpg", *ids[2:3], *ids[5:]]
    assert [len(long) for long in {*found[3:5]}] == [MAX_ID, MAX_ID]
    assert set(run_day(database, source, DAY)) == set(refs)
    assert run_day(database, source, DAY) == []
    asked = ProjectDatabase(database, source)
    assert asked.count_day(DAY, ID) == DayCounts(len(ids), len(ids), 0, 0)
    assert asked.rows.find_problems(DAY, ID) == []


@pytest.mark.parametrize("type_name", ["SMALLINT", "BIGINT", "UUID", "CHAR(36)", "VARCHAR(40)", "NUMERIC(20, 0)"])
def test_ids_of_a_type_are_matched_with_their_results(database, execute, type_name):
    execute(f"CREATE TABLE shots (id {type_name} PRIMARY KEY, location TEXT, added_at TIMESTAMP)")
    textual = type_name in ("UUID", "CHAR(36)", "VARCHAR(40)")
    first = 0 if type_name == "SMALLINT" else 10**10
    ids = [f"123e4567-e89b-12d3-a456-42661417400{n}" if textual else str(first + n) for n in range(7)]
    rows = [{"id": i if textual else int(i), "at": datetime(2026, 11, 20, 12, int(i[-1]) // 3)} for i in ids]
    execute(("INSERT INTO shots VALUES (:id, '/a.jpg', :at)", rows))
    source = listed(database, SourceSettings(table="shots", time_zone="UTC"), page_size=2)
    refs = list(source.select_new(DAY, ID))
    assert [ref.image_id for ref in refs] == ids
    good = [Prediction(ref, Output()) for ref in refs[:4]]
    commit(database, good, registered=False)
    assert list(source.select_new(DAY, ID)) == refs[4:]


def test_files_are_registered_once_whatever_their_names(database):
    """Also several times in one call, and of more than one statement takes."""
    long = "/".join(["", *["d" * 200] * 20])  # 4,000 characters that begin alike
    names = [*(f"/{name}.jpg" for name in ODD_TEXTS), "/a.jpg", "/a.jpg ", f"{long}/1", f"{long}/2"]
    names += [f"/many/{number}.jpg" for number in range(2 * ROWS_PER_INSERT)]
    noon = datetime(2026, 11, 20, 12)
    assert add_images(database, [Path(name) for name in [*names, *names[::3]]], noon) == len(names)
    assert add_images(database, [Path(name) for name in [*names, "/new.jpg"]], datetime(2026, 11, 21)) == 1
    assert {ref.location for ref in select_new(database)} == set(names)


def test_several_may_register_the_same_files_at_once(url, database):
    paths = [Path(f"/{number}.jpg") for number in range(700)]

    def add(order):
        with Database(url) as own:
            add_images(own, paths[::order], datetime(2026, 11, 20))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, [1, 1, 1, 1]))
    assert count_images(database) == 700


def test_files_are_registered_under_their_dates_and_replaced_ones_are_noticed(database, url):
    times = [datetime(2026, 11, 20, 23, 59, 59, 999999), datetime(2026, 11, 3)]
    files = [ImageFile("/ä0.jpg", 7, 1.7e9), ImageFile("/ä1.jpg", 7, 1.6e9), ImageFile("/ä2.jpg", 7, None)]

    def add(*found, dry_run=False, into=database):
        done = list(register_files(into, found, lambda new: [dated[file] for file in new], dry_run=dry_run))
        return sum(len(one.new) for one in done), sum(one.num_changed for one in done)

    dated = {file: DatedImage(file, time) for file, time in zip(files, [*times, times[1]], strict=True)}
    assert add(*files, dry_run=True) == (3, 0)
    assert count_images(database) == 0
    assert [add(*files) for _ in range(2)] == [(3, 0), (0, 0)]
    columns = select(pictures.c.added_at, pictures.c.size, pictures.c.modified).order_by(pictures.c.location)
    replaced = [files[0]._replace(size=8), files[1]._replace(modified=1e9), files[2]]
    assert [add(*replaced, dry_run=True), add(*replaced), add(*replaced)] == [(0, 2), (0, 2), (0, 0)]
    with database.read() as connection:
        rows = [tuple(row) for row in connection.execute(columns)]
    assert rows == [(times[0], 8, 1.7e9), (times[1], 7, 1e9), (times[1], 7, None)]
    with Database(url, read_only=True) as unwritable:  # looking at known files writes nothing
        assert [add(*replaced, into=unwritable), add(into=unwritable)] == [(0, 0), (0, 0)]
    assert has_images_in(database, ["/"])
    assert not has_images_in(database, ["/ä/"])


def test_queued_images_are_late_until_they_have_results_or_the_queue_is_ended(database):
    first, second, now = datetime(2026, 10, 1), datetime(2026, 10, 2), datetime(2026, 11, 20)
    before = datetime(2026, 11, 17)
    queued = (("/1", first, now), ("/2", second, now), ("/3", second, None), ("/4", before, now))
    for location, time, queued_at in queued:
        list(register_files(database, [ImageFile(location)], at(time, queued_at)))

    def late(*model_ids):
        with database.read() as connection:
            return list(read_late_times(connection, model_ids, before))

    assert late(ID) == [first, second]
    commit(database, predicted("1"))
    assert (late(ID), late(ID, "another")) == ([second], [first, second])
    for registered_before, left in ((now, [second]), (datetime(2026, 11, 21), [])):
        database.transact(lambda connection, before=registered_before: end_queue(connection, before))
        assert late(ID) == left


def test_a_replaced_file_of_an_old_day_that_was_rejected_is_tried_again(database):
    old, new = datetime(2026, 10, 1), datetime(2026, 11, 20)
    files = {f"/{n}.jpg": ImageFile(f"/{n}.jpg", 7, 1.0) for n in (1, 2, 3)}
    for file, time in zip(files.values(), (old, old, new), strict=True):
        list(register_files(database, [file], at(time)))
    commit(database, predicted("2"), broken("1", "3"))
    replaced = [file._replace(size=8) for file in files.values()]
    list(register_files(database, replaced, at(new)))
    assert stored(database, rejections) == {}
    with database.read() as connection:
        assert list(read_late_times(connection, [ID], new)) == [old]  # of the first file; the second has a prediction


def test_a_path_that_the_database_refuses_is_left_out_and_told_and_the_others_are_registered(database, execute, kind):
    """One of any length is taken, though PostgreSQL's indexes hold only short ones."""
    long = "/" + "".join(random.Random(0).choices("abcdefghij", k=9000))  # PostgreSQL compresses what repeats
    refuse(execute, kind, pictures, "NEW.location = '/b.jpg'")
    files = [ImageFile("/a.jpg"), ImageFile("/b.jpg"), ImageFile(long), ImageFile("/z.jpg")]
    (done,) = register_files(database, files, at(datetime(2026, 11, 20)))
    assert {ref.location for ref in select_new(database)} == {one.file.location for one in done.new}
    assert (len(done.new), [one.partition(": ")[0] for one in done.refused]) == (3, ["/b.jpg"])


def test_the_days_of_older_pending_images_and_a_gap_are_read(tables, database, register):
    for n in (*range(3, 12), 40):
        register(f"/{n}.jpg", at=datetime(2026, 11, 20, 12) - timedelta(days=n))
    found = tables.pending.find_older_pending(DAY.before(5), ID)
    assert (found.first, found.last) == (date(2026, 10, 11), date(2026, 11, 14))
    assert tables.pending.find_older_pending(DAY.before(60), ID) is None
    ids = [ref.image_id for ref in tables.source.select_new(DAY.before(40), ID)]
    commit(database, predicted(*ids))
    found = tables.pending.find_older_pending(DAY.before(5), ID)
    assert (found.first, found.last) == (date(2026, 11, 9), date(2026, 11, 14))
    assert find_gap(tables.source, DAY) == ArrivalGap(date(2026, 11, 17), 3, 9)
    assert find_gap(tables.source, DAY.before(2)) is None


def test_an_image_is_found_by_its_id_and_by_what_looks_like_it(tables, register):
    register("/p/1%.jpg", "/p/12.jpg", at=datetime(2026, 11, 20))
    source = tables.source
    (ref, _) = source.select_new(DAY, ID)
    assert source.find_by_id(ref.image_id) == [(ref.location, DAY.start)]
    assert source.find_by_id(ref.image_id, DAY) == [(ref.location, DAY.start)]
    assert source.find_by_id(ref.image_id, DAY.before(1)) == []
    assert source.find_by_id("x'; --") == []
    assert [location for _, location in source.find_similar("%.jpg")] == ["/p/1%.jpg"]
    assert source.find_similar("\\") == []
