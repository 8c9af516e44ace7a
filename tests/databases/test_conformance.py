"""What the rooms of `database/` promise holds on every database alike."""

import json
import random
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event, insert, make_url, select, text, update

from infer_app.base.day import Day
from infer_app.base.domain import (
    ATTEMPT_INTERVAL_H,
    Broken,
    DetectedObject,
    FileFacts,
    ImageFile,
    ImageRef,
    Output,
    Prediction,
    Reason,
)
from infer_app.base.errors import DatabaseUnavailable, DayHeld, UsageError
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import SourceSettings
from infer_app.cli.project.proposal import init_from
from infer_app.tables.engine import array_upsert
from infer_app.tables.engine.column_types import UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing import cross_database_source, image_registry, left_out
from infer_app.tables.listing import source as source_module
from infer_app.tables.listing.cross_database_source import CrossDatabaseSource
from infer_app.tables.listing.image_registry import (
    DatedImage,
    add_images,
    count_images,
    end_queue,
    read_late_times,
)
from infer_app.tables.listing.image_registry import register as register_files
from infer_app.tables.listing.propose_mapping import propose
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.source_checks import check_source
from infer_app.tables.listing.watched_images import (
    ChangedCounts,
    RegisteredElsewhere,
    SeenImages,
    count_changed,
    has_images_in,
    mark_missing,
    read_changed,
)
from infer_app.tables.queries.arrivals import ArrivalGap, find_gap
from infer_app.tables.queries.day_queries import DayQueries
from infer_app.tables.queries.pending_images import PendingDays
from infer_app.tables.results import runs as run_rows
from infer_app.tables.results.dry_run_database import open_dry_run_database
from infer_app.tables.results.forget_results import forget_rejections, forget_results
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.runs import LEASE_S, RunStore
from infer_app.tables.results.schema import (
    MAX_ID,
    VERSION,
    VERSION_TABLE,
    images,
    metadata,
    models,
    objects,
    predictions,
    rejections,
    runs,
)
from infer_app.tables.results.views import VIEWS
from tests.conftest import DAY, MODEL
from tests.support.results import ODD_TEXTS, broken, commit, predicted, relations, stored

ID = MODEL.model_id
NASTY = """"><script>alert(1)</script>'; DROP TABLE infer_predictions; --{"a": [1]} %s %(x)s :y \\ \n"""
COUNT = 100


LISTINGS = pytest.mark.parametrize("listing", [Source, CrossDatabaseSource])


def open_source(listing, database, settings):
    """A source of the database, or one of another database, which here is the same."""
    return listing(database, settings, *([database] if listing is CrossDatabaseSource else []))


def select_new(database, settings=None, day=DAY, model_id=ID):
    return list(Source(database, settings or SourceSettings()).select_new(day, model_id))


# Migrations


def test_an_upgrade_makes_our_tables_and_leaves_the_users_alone(empty):
    theirs = {"images", "alembic_version"}
    with empty.write() as connection:
        for statement in ("CREATE TABLE images (id INTEGER)", "CREATE TABLE alembic_version (version_num VARCHAR(9))"):
            connection.execute(text(statement))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    assert upgrade(empty) is None
    check_schema(empty)
    assert upgrade(empty) == VERSION
    assert relations(empty) == {*metadata.tables, *VIEWS, VERSION_TABLE, *theirs}
    with empty.read() as connection:
        assert connection.scalars(text("SELECT version_num FROM alembic_version")).all() == ["theirs"]


def model_version(number):
    return type(MODEL)(MODEL.name, f"{number}" * 16, "cpu-torchscript", {"a": "😀"})


def test_the_view_shows_the_version_in_use_and_so_do_the_books(database, register):
    """Image 1 was seen by the first version only, and image 3 by one that was only tried."""
    run_store, day_queries = RunStore(database), DayQueries(database, Source(database, SourceSettings()))
    register("/1.jpg", "/2.jpg", "/3.jpg")
    for number, seen in ((1, "12"), (2, "2"), (3, "123")):
        model = model_version(number)
        if number == 2:
            switch_version(database, model.name, model.model_id, model.manifest)
        run_store.open_run(DAY, model)
        commit(database, predicted(*seen), model_id=model.model_id)
    with database.read() as connection:
        found = connection.execute(text("SELECT image_id, model_id FROM infer_current_predictions ORDER BY image_id"))
        assert [tuple(row) for row in found] == [("1", "1" * 16), ("2", "2" * 16)]
    listed = day_queries.read_current_predictions(DAY, day_queries.models_in_use())
    assert [(row["image_id"], row["model_id"]) for row in listed] == [("1", "1" * 16), ("2", "2" * 16)]


def test_a_switch_puts_one_version_in_use_and_a_run_none(database):
    """Whatever the clock said: here version 2 was put in use in the year 2099, and the others within one tick."""
    run_store, day_queries = RunStore(database), DayQueries(database, Source(database, SourceSettings()))
    for number in "213":
        run_store.open_run(DAY, model_version(number))
        commit(database, predicted("1"), model_id=number * 16)
    assert day_queries.ids_in_use() == {"2" * 16}
    with database.write() as connection:
        connection.execute(update(models).where(models.c.id == "2" * 16).values(in_use_since=datetime(2099, 1, 1)))
    before = "2"
    for days_ago, number in enumerate("12133214", 1):
        model = model_version(number)
        former = switch_version(database, model.name, model.model_id, model.manifest)
        assert former.model_id == before * 16
        before = number
        run_store.open_run(DAY.before(days_ago), model_version("3"))
        with database.read() as connection:
            shown = connection.execute(text("SELECT model_id FROM infer_current_predictions")).scalars().all()
        assert day_queries.ids_in_use() == {number * 16}
        assert day_queries.models_of()[0][1] == number * 16
        assert shown == [number * 16 if number != "4" else "1" * 16]  # version 4 never ran


def test_a_first_run_and_two_switches_at_once_leave_one_version_in_use(database):
    def start(number):
        name, model = f"name-{number // 3}", model_version(1 + number % 3)
        with Database(database.url) as own:
            if number % 3:
                switch_version(own, name, model.model_id, model.manifest)
            else:
                RunStore(own).open_run(DAY.before(number), replace(model, name=name))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(start, range(30)))
    with database.read() as connection:
        in_use = connection.scalars(select(models.c.name).where(models.c.in_use_since.is_not(None))).all()
    assert sorted(in_use) == [f"name-{number}" for number in range(10)]


def test_versions_of_one_moment_are_told_in_the_order_of_the_view(database):
    moment = datetime(2026, 1, 1)
    row = {"name": MODEL.name, "manifest": {}, "created_at": moment, "used_until": moment}
    with database.write() as connection:
        connection.execute(insert(models), [row | {"id": version * 16} for version in "132"])
    for version in "123":
        commit(database, predicted("1"), model_id=version * 16)
    with database.read() as connection:
        (current,) = connection.execute(text("SELECT model_id FROM infer_current_predictions")).scalars()
    assert DayQueries(database, Source(database, SourceSettings())).models_of()[0] == (MODEL.name, current)


# What is written is what is read


def test_a_prediction_is_kept_to_the_last_bit(database):
    vector = np.frombuffer(bytes(range(256)) * 16, "<f4")
    details = {"top": [{"label": NASTY + "😀", "index": 3, "score": 1 / 3}], "values": [1e-320, 1.7e308, -0.0]}
    ids = [str(number) for number in range(COUNT)]
    output = {"vector": vector.tobytes(), "vector_dtype": "float32", "vector_dim": vector.size}
    good = predicted(*ids, label=NASTY + "😀", details=json.dumps(details), **output)
    without = predicted("0 without", label=None, score=None)
    commit(database, [*good[:50], *without, *good[50:]])
    result = ("cpu-torchscript", NASTY + "😀", 0.1 + 0.2, details, vector.tobytes(), "float32", 1024)
    file = ("ab" * 32, 640, 480, None)
    expected = {i: (ID, "run 1", *result, *file, f"/{i}.jpg", None, None, None) for i in ids}
    nothing = (None, None, {}, None, None, None)
    expected["0 without"] = (ID, "run 1", "cpu-torchscript", *nothing, *file, "/0 without.jpg", None, None, None)
    assert stored(database, predictions) == expected


def test_a_rejection_is_kept_with_the_facts_of_a_file_of_any_size(database):
    ids = [str(number) for number in range(COUNT)]
    commit(database, bad=broken(*ids, detail=NASTY + "\0\udce4", size=50 << 30))
    reason = ("corrupt", NASTY + "\\x00\\udce4", "decode", 1)
    file = (50 << 30, 1763609999.123457, "cd" * 32, "jpg 9")
    assert stored(database, rejections) == {i: (ID, "run 1", *reason, f"/{i}.jpg", *file, None) for i in ids}


def test_a_repeat_changes_nothing_and_another_result_takes_its_place_whole(database):
    ids = [str(number) for number in range(COUNT)]
    for _ in range(2):
        commit(database, predicted(*ids, vector=b"1234", vector_dtype="float32", vector_dim=1), broken("x"))
        commit(database)
    assert stored(database, predictions, "label", "vector") == dict.fromkeys(ids, ("cat", b"1234"))
    commit(database, predicted(*ids[1:], label="dog"))
    expected = dict.fromkeys(ids, ("dog", None)) | {ids[0]: ("cat", b"1234")}
    assert stored(database, predictions, "label", "vector") == expected
    assert stored(database, rejections, "attempts") == {"x": (1,)}


def test_the_objects_of_an_image_are_replaced_with_its_prediction(database):
    cat, dog = DetectedObject("cat", 0, 0.9, 0.1, 0.2, 0.3, 0.4), DetectedObject("dog", 1, 0.8, 0, 0, 1, 1)
    commit(database, [*predicted("a", objects=(cat, dog)), *predicted("b", objects=(dog,))])
    commit(database, predicted("a", objects=(dog,)), model_id="another")
    commit(database, [*predicted("a", objects=(dog,)), *predicted("b", objects=())])
    with database.read() as connection:
        rows = connection.execute(select(objects).order_by(objects.c.model_id)).all()
    assert rows == [("a", ID, 0, *dog), ("a", "another", 0, *dog)]


def test_attempts_are_counted_by_run_at_most_once_in_some_hours_and_anew_once_a_missing_file_is_there(database):
    ids = [str(number) for number in range(COUNT)]
    for run, hours, reason, attempts in (
        ("1", 0, Reason.NOT_FOUND, 1),
        ("2", ATTEMPT_INTERVAL_H, Reason.NOT_FOUND, 2),
        ("2", ATTEMPT_INTERVAL_H, Reason.NOT_FOUND, 2),  # the same commit again
        ("3", 0, Reason.READ_ERROR, 1),
        ("4", ATTEMPT_INTERVAL_H - 1, Reason.READ_ERROR, 1),
        ("5", 1, Reason.READ_TIMEOUT, 2),  # counted from the first of an attempt's runs, however many follow
        ("6", 0, Reason.READ_ERROR, 2),
    ):
        began_at = min(stored(database, rejections, "created_at").values(), default=None)
        if began_at:
            with database.write() as connection:
                connection.execute(update(rejections).values(created_at=began_at[0] - timedelta(hours=hours)))
        commit(database, bad=broken(*ids, reason=reason), run_id=run)
        expected = (reason.value, run, attempts)
        assert stored(database, rejections, "reason", "run_id", "attempts") == dict.fromkeys(ids, expected)


def test_a_transient_reason_stands_after_three_attempts_but_not_found_never_does(database, register):
    register("/1.jpg", "/2.jpg")
    refs = select_new(database)
    for attempt in range(3):
        assert select_new(database) == refs
        bad = [*broken("1", reason=Reason.READ_TIMEOUT), *broken("2", reason=Reason.NOT_FOUND)]
        commit(database, bad=bad, run_id=f"run {attempt}")
        with database.write() as connection:
            connection.execute(update(rejections).values(created_at=datetime(2026, 11, 20)))
    assert select_new(database) == refs[1:]


@pytest.mark.parametrize("count", [COUNT, 1100])  # 1100: more than MariaDB takes in one statement
def test_a_prediction_deletes_its_rejection_and_outlives_a_later_one(database, count):
    ids = [str(number) for number in range(count)]
    commit(database, bad=broken(*ids, "other"))
    commit(database, bad=broken(*ids), model_id="another")
    commit(database, predicted(*ids))
    commit(database, bad=broken(*ids), run_id="a run that had lost its lease")
    with database.read() as connection:
        left = connection.execute(select(rejections.c.image_id, rejections.c.model_id)).all()
    assert {tuple(row) for row in left} == {("other", ID), *((i, "another") for i in ids)}


@pytest.mark.parametrize("code", ["25P03", "25P04"])
def test_a_transaction_that_a_timeout_of_its_session_has_ended_is_done_again(database, kind, code):
    if kind != "postgres":
        pytest.skip("it has no such codes")
    ends = [f"DO $$ BEGIN RAISE 'terminating connection' USING ERRCODE = '{code}'; END $$"]
    assert (
        database.transact(lambda connection: connection.exec_driver_sql(ends.pop() if ends else "SELECT 7").scalar())
        == 7
    )


def refuse(execute, kind, table, condition, *, silently=False):
    """Let a trigger refuse rows of a table."""
    error = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'"
    raised = "IGNORE" if silently else "ABORT, 'not this one'"
    body = {
        "sqlite": f"WHEN {condition} BEGIN SELECT RAISE({raised}); END",
        "mariadb": f"FOR EACH ROW IF {condition} THEN {error}; END IF",
        "postgres": f"FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION refuse()",
    }
    if kind == "postgres":
        done = "RETURN NULL" if silently else "RAISE EXCEPTION 'not this one'"
        execute(f"CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN {done}; END $$ LANGUAGE plpgsql")
    execute(f"CREATE TRIGGER t BEFORE INSERT ON {table} {body[kind]}")


@pytest.mark.parametrize("table", [predictions, objects], ids=str)
def test_of_a_chunk_with_one_row_that_is_refused_only_that_is_rejected(database, execute, kind, table):
    """A prediction and its objects are one transaction."""
    refuse(execute, kind, table, "NEW.label = 'refused'")
    ids = [str(number) for number in range(COUNT)]
    bad = predicted("bad", label="refused", objects=(DetectedObject("refused", 0, 0.9, 0, 0, 1, 1),))
    written = commit(database, [*predicted(*ids), *bad], broken("no image"))
    assert len(written.predictions) == COUNT
    assert stored(database, predictions).keys() == set(ids)
    assert stored(database, objects) == {}
    assert stored(database, rejections, "reason") == {"bad": ("write_error",), "no image": ("corrupt",)}
    assert "not this one" in stored(database, rejections, "detail")["bad"][0]


def test_a_row_that_can_not_even_be_rejected_ends_the_run(database, execute, kind):
    refuse(execute, kind, rejections, "NEW.image_id = 'bad'")
    with pytest.raises(DatabaseUnavailable, match="not even a rejection can be written: .*not this one"):
        commit(database, bad=broken("bad"))
    assert stored(database, rejections) == {}


def test_a_row_that_a_trigger_drops_without_a_word_is_rejected(database, execute, kind):
    if kind == "mariadb":
        pytest.skip("its triggers skip no row")
    refuse(execute, kind, predictions, "NEW.label = 'dropped'", silently=True)
    ids = [str(number) for number in range(COUNT)]
    for _ in range(2):  # the second time they are overwritten
        written = commit(database, [*predicted(*ids), *predicted("bad", label="dropped")])
        assert (len(written.predictions), [one.reason for one in written.broken]) == (COUNT, [Reason.WRITE_ERROR])
    assert stored(database, predictions).keys() == set(ids)
    assert "dropped without an error" in stored(database, rejections, "detail")["bad"][0]


def test_a_text_that_no_server_takes_costs_its_own_row_only(database):
    """PostgreSQL has no NUL in text, no database a lone surrogate."""
    ids = [str(number) for number in range(COUNT)]
    written = commit(database, [*predicted(*ids), *predicted("bad", label="\udce4")])
    assert (len(written.predictions), [one.reason for one in written.broken]) == (COUNT, [Reason.WRITE_ERROR])
    assert stored(database, predictions).keys() == set(ids)


def test_a_text_too_long_for_an_index_of_the_users_costs_its_own_row_only(database, execute, kind):
    if kind != "postgres":
        pytest.skip("the others have no such limit, or say so when the index is made")
    execute("CREATE INDEX by_label ON infer_predictions (label)")
    long = random.Random(0).randbytes(5000).hex()  # which does not compress
    written = commit(database, [*predicted("1", "2"), *predicted("bad", label=long)])
    assert (len(written.predictions), [one.reason for one in written.broken]) == (2, [Reason.WRITE_ERROR])
    assert "index row" in stored(database, rejections, "detail")["bad"][0]


def test_a_row_longer_than_a_statement_may_be_costs_that_row_only(url, database, kind):
    """A server that is sent more hangs up, which must not be taken for an outage."""
    if kind != "mariadb":
        pytest.skip("only MariaDB has a limit so low")
    with database.read() as connection:
        longest = connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar()
    vector = bytes(longest)
    big = {"vector": vector, "vector_dtype": "float32", "vector_dim": len(vector) // 4}
    written = commit(database, [*predicted("1", "2"), *predicted("bad", **big)])
    assert (len(written.predictions), [one.reason for one in written.broken]) == (2, [Reason.WRITE_ERROR])
    assert "max_allowed_packet" in stored(database, rejections, "detail")["bad"][0]


def test_a_chunk_longer_than_a_message_may_be_is_written_by_image(database, kind, monkeypatch):
    """PostgreSQL hangs up at 1 GiB, which must not be taken for an outage."""
    if kind != "postgres":
        pytest.skip("only PostgreSQL is sent a chunk in one message")
    monkeypatch.setattr(array_upsert, "MAX_MESSAGE_BYTES", 10_000)
    big = {"vector": bytes(8_000), "vector_dtype": "float32", "vector_dim": 2_000}
    assert len(commit(database, predicted("1", "2", "3", **big)).predictions) == 3
    written = commit(database, predicted("4", vector=bytes(12_000), vector_dtype="float32", vector_dim=3_000))
    assert [one.reason for one in written.broken] == [Reason.WRITE_ERROR]
    assert stored(database, predictions, "vector_dim") == {"1": (2_000,), "2": (2_000,), "3": (2_000,)}


# Ids and locations


def test_ids_that_look_alike_are_kept_apart(database, execute, kind):
    exact = " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" if kind == "mariadb" else ""
    execute(f"CREATE TABLE shots (id VARCHAR(600){exact}, location TEXT{exact}, added_at DATE)")
    ids = [*ODD_TEXTS, "x" * MAX_ID, "😀" * MAX_ID]
    rows = [{"id": i, "location": f"/{n}/{i[:20]}.jpg", "at": date(2026, 11, 20)} for n, i in enumerate(ids)]
    execute(("INSERT INTO shots VALUES (:id, :location, :at)", rows))
    settings = SourceSettings(table="shots")
    source = Source(database, settings)
    assert source.find_left_out(DAY).text == ""
    refs = select_new(database, settings)
    assert {ref.image_id: ref.location for ref in refs} == {row["id"]: row["location"] for row in rows}
    commit(database, bad=[Broken(ref, Reason.READ_ERROR, "", "read") for ref in refs])
    commit(database, [Prediction(ref, Output()) for ref in refs[::2]])
    assert stored(database, rejections).keys() == {ref.image_id for ref in refs[1::2]}
    assert set(select_new(database, settings)) == set(refs[1::2])
    commit(database, bad=[Broken(ref, Reason.CORRUPT, "", "decode") for ref in refs[1::2]])
    assert select_new(database, settings) == []
    assert len(stored(database, predictions)) + len(stored(database, rejections)) == len(ids)


@pytest.fixture
def pages_of_two_rows(monkeypatch):
    for module in (source_module, cross_database_source):
        monkeypatch.setattr(module, "PAGE_SIZE", 2)


@LISTINGS
def test_rows_without_an_id_of_their_own_are_left_out_and_named(database, execute, kind, pages_of_two_rows, listing):
    """Of images of one moment: pages go on after an id, which three rows on two pages have."""
    exact = " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" if kind == "mariadb" else ""
    execute(f"CREATE TABLE shots (id VARCHAR(600){exact}, location VARCHAR(80), added_at DATE)")
    ids = [None, None, None, None, "x" * (MAX_ID + 1), "twice", "twice", "twice", "TWICE", "3", "4", "5"]
    rows = [{"id": i, "location": f"/{n}.jpg", "at": date(2026, 11, 20)} for n, i in enumerate(ids)]
    execute(("INSERT INTO shots VALUES (:id, :location, :at)", rows))
    source = open_source(listing, database, SourceSettings(table="shots"))
    found = source.find_left_out(DAY).text
    assert "of 12 images of 2026-11-20 some are left out: 4 without an id ('/0.jpg', '/1.jpg', '/2.jpg'); " in found
    assert "3 with an id that several have ('/5.jpg', '/6.jpg', '/7.jpg')" in found
    assert ("1 with an id of more than 512 characters ('/4.jpg')" in found) == (kind != "sqlite")
    usable = {f"/{n}.jpg" for n in range(8, 12)} | ({"/4.jpg"} if kind == "sqlite" else set())
    refs = list(source.select_new(DAY, ID))
    assert {ref.location for ref in refs} == usable
    commit(database, [Prediction(ref, Output()) for ref in refs])
    day_queries = DayQueries(database, source)
    assert day_queries.count_day(DAY, ID) == DayCounts(12, len(usable), 0, 12 - len(usable))
    assert found in day_queries.find_problems(DAY, ID)
    pending = [one.location for one in day_queries.read_pending(DAY, ID)]
    assert sorted(pending) == sorted({f"/{n}.jpg" for n in range(len(ids))} - usable)


def test_a_column_whose_values_are_mostly_shared_is_refused(database, execute, monkeypatch):
    monkeypatch.setattr(left_out, "MAX_SHARED", 1)
    execute("CREATE TABLE shots (id INTEGER, location TEXT, added_at DATE)")
    execute("INSERT INTO shots SELECT id % 2, '/a.jpg', '2026-11-20' FROM (" + " UNION ALL ".join(
        f"SELECT {n} AS id" for n in range(6)) + ") AS numbers")  # fmt: skip
    with pytest.raises(UsageError, match="of 6 images of 2026-11-20 4 have the id of another"):
        Source(database, SourceSettings(table="shots")).find_left_out(DAY)


@pytest.mark.parametrize("type_name", ["SMALLINT", "BIGINT", "UUID", "CHAR(36)", "VARCHAR(40)", "NUMERIC(20, 0)"])
@LISTINGS
def test_ids_of_a_type_are_matched_with_their_results(database, execute, type_name, pages_of_two_rows, listing):
    execute(f"CREATE TABLE shots (id {type_name} PRIMARY KEY, location TEXT, added_at TIMESTAMP)")
    textual = type_name in ("UUID", "CHAR(36)", "VARCHAR(40)")
    first = 0 if type_name == "SMALLINT" else 10**10
    ids = [f"123e4567-e89b-12d3-a456-42661417400{n}" if textual else str(first + n) for n in range(7)]
    rows = [{"id": i if textual else int(i), "at": datetime(2026, 11, 20, 12, int(i[-1]) // 3)} for i in ids]
    execute(("INSERT INTO shots VALUES (:id, '/a.jpg', :at)", rows))
    source = open_source(listing, database, SourceSettings(table="shots", time_zone="UTC"))
    refs = list(source.select_new(DAY, ID))
    assert [ref.image_id for ref in refs] == ids
    commit(database, [Prediction(ref, Output()) for ref in refs[:4]])
    assert list(source.select_new(DAY, ID)) == refs[4:]


def test_files_are_registered_once_whatever_their_names(database, monkeypatch):
    """Also several times in one call, and of more than one statement takes."""
    monkeypatch.setattr(image_registry, "ROWS_PER_INSERT", 3)
    long = "/".join(["", *["d" * 200] * 20])  # 4,000 characters that begin alike
    names = [*(f"/{name}.jpg" for name in ODD_TEXTS), "/a.jpg", "/a.jpg ", f"{long}/1", f"{long}/2"]
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


def at(time, queued_at=None):
    return lambda new: [DatedImage(file, time, queued_at) for file in new]


def test_files_are_registered_under_their_dates_and_replaced_ones_are_noticed(database, monkeypatch):
    times = [datetime(2026, 11, 20, 23, 59, 59, 999999), datetime(2026, 11, 3)]
    files = [ImageFile("/ä0.jpg", 7, 1.7e9), ImageFile("/ä1.jpg", 7, 1.6e9), ImageFile("/ä2.jpg", 7, None)]

    def add(*found, dry_run=False):
        batches = register_files(database, found, lambda new: [dated[file] for file in new], dry_run=dry_run)
        done = list(batches)
        return sum(len(one.new) for one in done), sum(one.num_changed for one in done)

    dated = {file: DatedImage(file, time) for file, time in zip(files, [*times, times[1]], strict=True)}
    assert add(*files, dry_run=True) == (3, 0)
    assert count_images(database) == 0
    assert [add(*files) for _ in range(2)] == [(3, 0), (0, 0)]
    columns = select(images.c.added_at, images.c.size, images.c.modified).order_by(images.c.location)
    replaced = [files[0]._replace(size=8), files[1]._replace(modified=1e9), files[2]]
    assert [add(*replaced, dry_run=True), add(*replaced), add(*replaced)] == [(0, 2), (0, 2), (0, 0)]
    with database.read() as connection:
        rows = [tuple(row) for row in connection.execute(columns)]
    assert rows == [(times[0], 8, 1.7e9), (times[1], 7, 1e9), (times[1], 7, None)]
    monkeypatch.setattr(database, "write", None)  # looking at known files writes nothing
    assert [add(*replaced), add()] == [(0, 0), (0, 0)]
    assert has_images_in(database, ["/"])
    assert not has_images_in(database, ["/ä/"])


def test_queued_images_are_late_until_they_have_results_or_the_queue_is_ended(database, tables):
    first, second, now = datetime(2026, 10, 1), datetime(2026, 10, 2), datetime(2026, 11, 20)
    before = datetime(2026, 11, 17)
    queued = (("/1", first, now), ("/2", second, now), ("/3", second, None), ("/4", before, now))
    for location, time, queued_at in queued:
        list(register_files(database, [ImageFile(location)], at(time, queued_at)))

    def late(*model_ids):
        with database.read() as connection:
            return list(read_late_times(connection, tables.source.picture, model_ids, before))

    assert late(ID) == [first, second]
    commit(database, predicted("1"))
    assert (late(ID), late(ID, "another")) == ([second], [first, second])
    for registered_before, left in ((now, [second]), (datetime(2026, 11, 21), [])):
        database.transact(lambda connection, before=registered_before: end_queue(connection, before))
        assert late(ID) == left


def test_a_replaced_file_of_an_old_day_that_was_rejected_is_tried_again(database, tables):
    old, new = datetime(2026, 10, 1), datetime(2026, 11, 20)
    files = {f"/{n}.jpg": ImageFile(f"/{n}.jpg", 7, 1.0) for n in (1, 2, 3)}
    for file, time in zip(files.values(), (old, old, new), strict=True):
        list(register_files(database, [file], at(time)))
    commit(database, predicted("2"), broken("1", "3"))
    replaced = [file._replace(size=8) for file in files.values()]
    list(register_files(database, replaced, at(new)))
    assert stored(database, rejections) == {}
    with database.read() as connection:
        assert list(read_late_times(connection, tables.source.picture, [ID], new)) == [
            old
        ]  # of the first file; the second has a prediction


def test_a_path_that_the_database_can_not_hold_is_left_out_and_told_and_the_others_are_registered(database, kind):
    too_long = "/" + "".join(random.Random(0).choices("abcdefghij", k=9000))  # PostgreSQL compresses what repeats
    files = [ImageFile("/a.jpg"), ImageFile(too_long), ImageFile("/z.jpg")]
    (done,) = register_files(database, files, at(datetime(2026, 11, 20)))
    refused = [one.partition(": ")[0] for one in done.refused]
    assert (len(done.new), refused) == ((2, [too_long]) if kind == "postgres" else (3, []))


def test_the_days_of_older_pending_images_and_a_gap_are_read(tables, database, register):
    for n in (*range(3, 12), 40):
        register(f"/{n}.jpg", at=datetime(2026, 11, 20, 12) - timedelta(days=n))
    day_queries = tables.day_queries
    found = day_queries.find_older_pending(DAY.before(5), ID)
    assert (found.first, found.last) == (date(2026, 10, 11), date(2026, 11, 14))
    assert day_queries.find_older_pending(DAY.before(60), ID) is None
    ids = [ref.image_id for ref in tables.source.select_new(DAY.before(40), ID)]
    commit(database, predicted(*ids))
    found = day_queries.find_older_pending(DAY.before(5), ID)
    assert (found.first, found.last) == (date(2026, 11, 9), date(2026, 11, 14))
    assert find_gap(tables.source, DAY) == ArrivalGap(date(2026, 11, 17), 3, 9)
    assert find_gap(tables.source, DAY.before(2)) is None


# Days


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
def test_a_day_begins_and_ends_to_the_microsecond(database, register, zone):
    day = Day.of(date(2026, 10, 25), zone)  # of 25 hours in Berlin
    tick = timedelta(microseconds=1)
    moments = [day.start - tick, day.start, day.end - tick, day.end]
    for number, moment in enumerate(moments):
        register(f"/{number}.jpg", at=moment.replace(tzinfo=None))
    assert [ref.location for ref in select_new(database, day=day)] == ["/1.jpg", "/2.jpg"]
    assert DayQueries(database, Source(database, SourceSettings())).count_day(day, ID).eligible == 2
    assert [ref.location for ref in select_new(database, day=day.before(1))] == ["/0.jpg"]
    assert [ref.location for ref in select_new(database, day=day.before(-1))] == ["/3.jpg"]


@pytest.mark.parametrize(
    ("type_name", "zone", "found"),
    [
        ("DATE", None, {"1", "2"}),
        ("naive", "UTC", {"1", "2"}),
        ("naive", "America/New_York", {"0", "1"}),
        ("aware", None, {"1", "2"}),
        ("TEXT", "UTC", {"1", "2"}),
        ("BIGINT", None, {"1", "2"}),
    ],
)
def test_times_of_every_type_fall_into_their_day(database, execute, kind, type_name, zone, found):
    """The servers' own zone is another one, so that a session's zone would show."""
    if type_name == "aware" and kind != "postgres":
        pytest.skip("no type for it")
    spelled = {"naive": "DATETIME" if kind == "mariadb" else "TIMESTAMP", "aware": "TIMESTAMP WITH TIME ZONE"}
    moments = {
        "0": datetime(2026, 11, 19, 23, 59),
        "1": datetime(2026, 11, 20, 0, 0),
        "2": datetime(2026, 11, 20, 23, 59),
        "3": datetime(2026, 11, 21, 0, 0),
    }
    write = {
        "DATE": lambda moment: moment.date(),
        "naive": lambda moment: str(moment) if kind == "sqlite" else moment,
        "aware": lambda moment: moment.replace(tzinfo=UTC),
        "TEXT": str,
        "BIGINT": lambda moment: int(moment.replace(tzinfo=UTC).timestamp()),
    }[type_name]
    execute(f"CREATE TABLE shots (id INTEGER, location TEXT, added_at {spelled.get(type_name, type_name)})")
    rows = [{"id": int(key), "at": write(moment)} for key, moment in moments.items()]
    rows[:0] = [{"id": 9, "at": unknown} for key, unknown in (("TEXT", ""), ("BIGINT", 0)) if key == type_name]
    settings = SourceSettings(table="shots", time_zone=zone)
    assert select_new(database, settings) == []  # before it has any row
    assert Source(database, settings).nearest_date(DAY) is None
    execute(("INSERT INTO shots VALUES (:id, '/a.jpg', :at)", rows))
    assert {ref.image_id for ref in select_new(database, settings)} == found
    assert Source(database, settings).nearest_date(Day.of(date(2026, 12, 1), "UTC")) == date(2026, 11, 21)


def test_times_are_read_whatever_way_the_database_writes_them(url, database, execute, kind):
    if kind != "postgres":
        pytest.skip("PostgreSQL's DateStyle")
    execute(
        "CREATE TABLE photos (id integer, location text, time timestamptz)",
        ("INSERT INTO photos VALUES (1, '/1.jpg', :time)", [{"time": DAY.start}]),
        f"ALTER DATABASE {make_url(url).database} SET DateStyle = 'German'",
    )
    with Database(url) as german:
        for _ in range(2):  # the second time after a rollback
            settings = SourceSettings(table="photos", time="time")
            assert [ref.image_id for ref in select_new(german, settings)] == ["1"]


def test_mariadbs_timestamps_are_utc_whatever_zone_the_server_is_in(database, execute, kind):
    if kind != "mariadb":
        pytest.skip("its TIMESTAMP alone is shown in the session's zone")
    execute("CREATE TABLE shots (id INTEGER, location TEXT, added_at TIMESTAMP NULL)")
    execute("INSERT INTO shots VALUES (1, '/a.jpg', FROM_UNIXTIME(1795132800))")  # 2026-11-20 00:00:00 UTC
    settings = SourceSettings(table="shots", time_zone="UTC")
    assert [ref.image_id for ref in select_new(database, settings)] == ["1"]


def test_a_users_table_view_and_query_in_other_words_give_the_same(database, execute, kind):
    quote = "`" if kind == "mariadb" else '"'
    table, order = f"{quote}my photos{quote}", f"{quote}order{quote}"
    execute(
        f"CREATE TABLE {table} (pid INTEGER, {order} TEXT, seen TIMESTAMP NULL)",
        f"INSERT INTO {table} VALUES (7, '/a:b%c.jpg', '2026-11-20 10:00:00'), (8, '/b.jpg', NULL)",
        f"CREATE VIEW seen_photos AS SELECT pid, {order} AS path, seen FROM {table}",
    )
    common = {"id": "pid", "time": "seen", "time_zone": "UTC"}
    query = f"SELECT pid, {order} AS path, seen FROM {table} WHERE {order} LIKE '%:b%'"
    for settings in (
        SourceSettings(table="my photos", location="order", **common),
        SourceSettings(table="seen_photos", location="path", **common),
        SourceSettings(query=query, location="path", **common),
    ):
        source = Source(database, settings)
        check_source(source)
        assert source.find_left_out(DAY).text == ""
        assert select_new(database, settings) == [ImageRef("7", "/a:b%c.jpg")]
    assert Source(database, SourceSettings(table="seen_photos", location="path", **common)).count_without_time() == 1
    with pytest.raises(UsageError, match="no table or view 'seen_photo'"):
        check_source(Source(database, SourceSettings(table="seen_photo")))
    for wrong in ("SELECT pid FROM seen_photos", "SELECT * FROM nowhere", "SELEC 1"):
        with pytest.raises(UsageError, match="can't be read"):
            check_source(Source(database, SourceSettings(query=wrong, location="path", **common)))


def test_a_query_that_the_server_ends_is_not_called_a_wrong_one(url, database, execute, kind):
    execute("CREATE TABLE shots (id INTEGER, location VARCHAR(80), added_at DATE)")
    execute("INSERT INTO shots VALUES (1, '/a.jpg', '2026-11-20')")
    limit, sleep = {
        "postgres": ("options=-c%20statement_timeout%3D200", "pg_sleep(5)"),
        "mariadb": ("init_command=SET%20max_statement_time%3D0.2", "SLEEP(5)"),
        "sqlite": (None, None),
    }[kind]
    if limit is None:
        pytest.skip("it has no such limit")
    settings = SourceSettings(query=f"SELECT id, location, added_at, {sleep} FROM shots WHERE {sleep} IS NOT NULL")
    with Database(f"{url}{'&' if '?' in url else '?'}{limit}") as impatient, pytest.raises(DatabaseUnavailable):
        check_source(Source(impatient, settings))


def test_a_users_table_is_found_among_others(database, execute, kind):
    execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(80), created TIMESTAMP NULL)")
    execute("INSERT INTO people VALUES (1, 'A. Jones', '2026-11-20 01:02:03')")
    clock = {"sqlite": "TEXT", "postgres": "TIMESTAMPTZ", "mariadb": "DATETIME"}[kind]
    execute(f"CREATE TABLE photos (nr INTEGER PRIMARY KEY, path VARCHAR(200), taken DATE, uploaded {clock})")
    for number in range(3):
        execute(f"INSERT INTO photos VALUES ({number}, '/srv/p/{number}.JPG', '2026-11-19', '2026-11-20 01:02:03')")
    execute("CREATE VIEW recent AS SELECT nr AS id, path, uploaded FROM photos")
    photos, recent = propose(database)
    assert (photos.table, photos.id, photos.location, photos.time.name) == ("photos", "nr", "path", "uploaded")
    assert (photos.folder, photos.time.has_zone) == ("/srv/p", kind == "postgres")
    assert [time.name for time in photos.other_times] == ["taken"]
    assert [sample[:2] for sample in photos.samples] == [(number, f"/srv/p/{number}.JPG") for number in range(3)]
    execute(photos.index.rstrip(";"))
    assert propose(database)[0].index is None
    assert (recent.table, recent.id, recent.index) == ("recent", "id", None)


def test_a_table_of_large_values_is_proposed_without_reading_them(database, execute, kind):
    large = 4 << 20
    types = {"sqlite": ("BLOB", "TEXT"), "postgres": ("BYTEA", "TEXT"), "mariadb": ("LONGBLOB", "LONGTEXT")}
    blob, text_ = types[kind]
    execute(f"CREATE TABLE scans (nr INTEGER PRIMARY KEY, picture {blob}, notes {text_}, name TEXT, uploaded DATE)")
    row = {"picture": b"x" * large, "notes": "y" * large}
    for number in range(3):
        execute((f"INSERT INTO scans VALUES ({number}, :picture, :notes, '{number}.jpg', '2026-11-20')", [row]))
    del row
    tracemalloc.start()
    try:
        (found,) = propose(database)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.table, found.id, found.location, found.time.name) == ("scans", "nr", "name", "uploaded")
    assert [sample[:2] for sample in found.samples] == [(number, f"{number}.jpg") for number in range(3)]
    assert peak < large


def test_a_server_or_database_that_is_not_there_is_told_with_what_to_check(url, kind, tmp_path):
    if kind == "sqlite":
        pytest.skip("a file that is not there has a test of its own")
    gone = make_url(url).set(database="nodb").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnavailable, match="nodb") as caught:
        init_from(gone, folder=tmp_path)
    assert "database, user and password of the URL" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_table_with_types_of_its_own_is_proposed(database, execute, kind):
    if kind != "postgres":
        pytest.skip("it has neither domains nor enums of their own name")
    execute("CREATE DOMAIN place AS TEXT CHECK (VALUE LIKE '/%')", "CREATE TYPE state AS ENUM ('new', 'old')")
    execute("CREATE TABLE shots (id UUID PRIMARY KEY, path place, state state, about JSONB, came TIMESTAMPTZ)")
    key = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
    execute(f"INSERT INTO shots VALUES ('{key}', '/srv/a.jpg', 'new', '[]', '2026-11-20 08:00+00')")
    (found,) = propose(database)
    assert (found.id, found.location, found.time.name) == ("id", "path", "came")
    assert [tuple(map(str, sample[:2])) for sample in found.samples] == [(key, "/srv/a.jpg")]


@pytest.mark.parametrize("size", [1, 3, 7])
@LISTINGS
def test_pages_of_any_size_give_each_image_once(database, register, monkeypatch, size, listing):
    """Though results are written meanwhile."""
    monkeypatch.setattr(source_module, "PAGE_SIZE", size)
    monkeypatch.setattr(cross_database_source, "PAGE_SIZE", size)
    for minute in (1, 0, 2):
        register(*[f"/{minute}-{number}.jpg" for number in range(7)], at=datetime(2026, 11, 20, 12, minute))
    found = []
    for ref in open_source(listing, database, SourceSettings()).select_new(DAY, ID):
        commit(database, predicted(ref.image_id))
        found.append(ref.location)
    assert found == [f"/{minute}-{number}.jpg" for minute in (0, 1, 2) for number in range(7)]


def test_two_models_have_each_their_own_new_images(database, register):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    ids = [ref.image_id for ref in select_new(database)]
    commit(database, predicted(ids[0], ids[1]))
    commit(database, predicted(ids[0]), broken(ids[2]), model_id="another")
    (page,) = Source(database, SourceSettings()).select_pages(DAY, ID, "another")
    assert [(new.ref.image_id, new.model_indices) for new in page] == [(ids[1], (1,)), (ids[2], (0,))]


# DayQueries, run_store, rehearsal


def test_the_books_are_counted_from_rows(tables, database, register):
    register(*[f"/{number}.jpg" for number in range(10)])
    ids = [ref.image_id for ref in select_new(database)]
    run_id = tables.run_store.open_run(DAY, MODEL)
    commit(database, predicted(*ids[:3]), broken(ids[3]), run_id)
    commit(database, (), broken(ids[4], reason=Reason.READ_ERROR), run_id)
    commit(database, predicted(*ids[5:7]), model_id="another")
    commit(database, predicted("999", f"0{ids[9]}"))  # of no image that the source has
    day_queries = tables.day_queries
    assert day_queries.count_day(DAY, ID) == DayCounts(eligible=10, predicted=3, rejected=2, pending=5)
    assert day_queries.count_day(DAY, "another") == DayCounts(10, 2, 0, 8)
    assert day_queries.count_day(DAY.before(1), ID) == DayCounts(0, 0, 0, 0)
    assert (day_queries.count_new(DAY, ID), day_queries.count_older_pending(DAY.before(-1), ID)) == (6, 5)
    pending = list(day_queries.read_pending(DAY, ID))
    assert [(one.image_id, one.failure and one.failure.reason) for one in pending] == [
        (ids[4], "read_error"),
        *((image_id, None) for image_id in ids[5:]),
    ]
    assert {one.time for one in pending} == {datetime(2026, 11, 20, 12, tzinfo=UTC)}
    assert day_queries.find_older_pending(DAY.before(-1), ID) == PendingDays(DAY.date, DAY.date, 5)
    future = replace(DAY, end=Day.of(date(9000, 1, 1), "UTC").end)
    for days in (day_queries.read_older_pending_days(DAY.before(-1), ID), day_queries.read_pending_days(future, ID)):
        assert list(days) == [PendingDays(DAY.date, DAY.date, 5, 1)]
    assert day_queries.find_problems(DAY, ID) == []
    assert [row["image_id"] for row in day_queries.read_predictions(DAY, ID)] == ids[:3]
    (rejection,) = broken(ids[3])
    settled = [(one.image_id, one.reason, one.file) for one in day_queries.final_rejections(DAY, ID)]
    assert settled == [(ids[3], "corrupt", rejection.file)]
    assert [forget_rejections(database, ids, ID) for _ in range(2)] == [2, 0]
    commit(database, predicted(ids[9]), run_id="nobody's")
    with database.write() as connection:
        row = {"image_id": ids[0], "model_id": ID, "created_at": datetime(2026, 11, 20)}
        row |= {"run_id": "?", "reason": "odd", "detail": "", "stage": "", "attempts": 1, "location": "", "decoder": ""}
        connection.execute(insert(rejections), row)
    assert sorted(day_queries.find_problems(DAY, ID)) == [
        "1 image with both a prediction and a rejection",
        "1 prediction of a run that is not in infer_runs",
        "1 rejection of a run that is not in infer_runs",
        "1 rejection with a reason outside the list",
    ]
    assert day_queries.runs_of_day(DAY.date, ID)[0]["predicted"] == 3


def test_the_counts_of_a_day_add_up_while_images_arrive_and_are_predicted(url, database, register, kind):
    """Another connection commits both after each statement."""
    if kind == "sqlite":
        pytest.skip("a transaction sees one state of the file")
    register("/1.jpg")  # whose time shows how times are written
    numbers = iter(range(2, 100))

    def arrive(*_):
        number = next(numbers)
        register(f"/{number}.jpg")
        commit(database, predicted(str(number)))

    with Database(url) as reader:
        event.listen(reader._engine, "after_cursor_execute", arrive)
        counts = DayQueries(reader, Source(reader, SourceSettings())).count_day(DAY, ID)
    assert counts.balanced
    assert counts.predicted > 0


def test_a_lost_primary_key_is_reported_though_an_image_has_two_rows(tables, database, register, execute):
    register("/1.jpg", "/2.jpg")
    commit(database, predicted("1"), run_id="nobody's")
    twice = "INSERT INTO infer_predictions SELECT * FROM infer_predictions"
    if database.file is not None:
        execute(*(f"DROP VIEW {view}" for view in VIEWS), "CREATE TABLE kept AS SELECT * FROM infer_predictions")
        execute("DROP TABLE infer_predictions", "ALTER TABLE kept RENAME TO infer_predictions", twice)
    elif database.dialect.name == "postgresql":
        execute("ALTER TABLE infer_predictions DROP CONSTRAINT infer_predictions_pkey", twice)
    else:
        execute("ALTER TABLE infer_predictions DROP PRIMARY KEY", twice)
    assert tables.day_queries.count_day(DAY, ID) == DayCounts(eligible=2, predicted=1, rejected=0, pending=1)
    lost = "infer_predictions has lost its primary key: an image may have two rows of one model"
    assert lost in tables.day_queries.find_problems(DAY, ID)


@pytest.mark.parametrize("is_registered", [True, False], ids=["known model", "new model"])
@pytest.mark.parametrize("names", [("stub", "stub"), ("stub", "other")], ids=["one name", "two names"])
def test_a_start_can_not_look_at_the_day_while_another_takes_it(url, database, monkeypatch, names, is_registered):
    """By whichever names of the model: predictions are kept by its id."""
    starts = [replace(MODEL, name=name) for name in names]
    both_looked = threading.Barrier(2)
    if is_registered:
        for model in starts:
            RunStore(database).fail_run(RunStore(database).open_run(DAY, model), 1, "")
        monkeypatch.setattr(RunStore, "_register_model", lambda *_: None)  # what it locks is not what is relied on
    look_together(monkeypatch, both_looked)

    def start(model):
        with Database(url) as own:
            try:
                return own.with_reconnect(lambda: RunStore(own).open_run(DAY, model))
            except DayHeld as held:
                return str(held)

    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(start, starts))
    with database.read() as connection:
        (run_id,) = connection.scalars(select(runs.c.id).where(runs.c.state == "running"))
    assert both_looked.broken
    assert run_id in outcomes
    assert sum(f"is held by run {run_id}" in outcome for outcome in outcomes) == 1


def look_together(monkeypatch, both_looked):
    """Let a transaction that has looked for a run of the day wait for another one that looks."""
    take_over = run_rows._take_over

    def look(*given):
        take_over(*given)
        with suppress(threading.BrokenBarrierError):
            both_looked.wait(2)

    monkeypatch.setattr(run_rows, "_take_over", look)


def test_a_start_and_a_retry_can_not_look_at_the_day_together(url, database, monkeypatch):
    """The run would select the image after the look of the retry, and write objects amid its deletions."""
    RunStore(database).fail_run(RunStore(database).open_run(DAY, MODEL), 1, "")
    commit(database, predicted("1"))
    monkeypatch.setattr(RunStore, "_register_model", lambda *_: None)  # what it locks is not what is relied on
    both_looked = threading.Barrier(2)
    look_together(monkeypatch, both_looked)

    def attempt(work):
        with Database(url) as own, suppress(DayHeld):
            return own.with_reconnect(lambda: work(own))

    with ThreadPoolExecutor(2) as threads:
        run_id, forgotten = threads.map(
            attempt,
            [
                lambda own: RunStore(own).open_run(DAY, MODEL),
                lambda own: forget_results(own, ["1"], [DAY.date], [(MODEL.name, ID)]),
            ],
        )
    assert both_looked.broken
    assert run_id is not None
    assert forgotten in (1, None)


def test_nothing_is_forgotten_of_a_day_that_a_run_holds(database):
    """The run may have read the image before, and would write what it found in it afterwards."""
    run_id, this = RunStore(database).open_run(DAY, MODEL), (MODEL.name, ID)
    commit(database, predicted("1", objects=(DetectedObject("cat", 0, 0.9, 0, 0, 1, 1),)), run_id=run_id)
    before = DAY.before(1).date
    with pytest.raises(DayHeld, match=f"2026-11-20 with model stub is held by run {run_id}"):
        forget_results(database, ["1"], [before, DAY.date], [("other", "other"), this])
    assert (len(stored(database, predictions)), len(stored(database, objects))) == (1, 1)
    assert forget_results(database, ["1"], [before], [("other", "other"), this]) == 1
    assert stored(database, predictions) == stored(database, objects) == {}


def test_a_start_that_is_refused_puts_no_version_in_use(database):
    """As of a model that runs by another name, under which it was never run before."""
    run_store = RunStore(database)
    run_store.open_run(DAY, MODEL)
    with pytest.raises(DayHeld):
        run_store.open_run(DAY, replace(MODEL, name="other"))
    day_queries = DayQueries(database, Source(database, SourceSettings()))
    assert day_queries.models_in_use() == [(MODEL.name, MODEL.model_id)]


def test_a_lease_runs_out_by_the_databases_clock_and_its_late_owner_writes_nothing(database):
    """All servers run in other zones than UTC here."""
    run_store = RunStore(database)
    asleep = run_store.open_run(DAY, MODEL)
    for age_s, is_held in ((LEASE_S - 30, True), (LEASE_S + 5, False)):
        with database.write() as connection:
            now = connection.execute(select(UtcNow())).scalar_one()
            assert abs(now - datetime.now(UTC).replace(tzinfo=None)) < timedelta(seconds=5)
            connection.execute(update(runs).values(host="elsewhere", heartbeat_at=now - timedelta(seconds=age_s)))
        if is_held:
            with pytest.raises(DayHeld):
                run_store.open_run(DAY, MODEL)
    run_store.open_run(DAY, MODEL)
    with pytest.raises(DayHeld, match="sent no heartbeat"):
        commit(database, predicted("1"), run_id=asleep)
    assert stored(database, predictions) == {}


def test_a_commit_whose_answer_was_lost_is_counted_once(database, monkeypatch):
    run_id = RunStore(database).open_run(DAY, MODEL)
    once = database.transact
    monkeypatch.setattr(database, "transact", lambda work: (once(work), once(work)))
    commit(database, predicted("1", "2"), broken("3"), run_id)
    with database.read() as connection:
        assert connection.execute(select(run_rows.runs.c.selected)).scalars().all() == [3]


def test_what_a_rehearsal_writes_is_gone(database, register):
    register("/1.jpg", "/2.jpg")
    commit(database, predicted("1"), broken("2"))
    before = stored(database, predictions), stored(database, rejections)
    with open_dry_run_database(database) as rehearsal:
        commit(rehearsal, predicted(*map(str, range(COUNT)), label="dog"), broken("3"))
    assert (stored(database, predictions), stored(database, rejections)) == before


def test_a_read_only_connection_reads_and_can_not_write(url, database, register):
    register("/1.jpg")
    with Database(url, read_only=True) as read_only:
        assert len(select_new(read_only)) == 1
        check_source(Source(read_only, SourceSettings()))
        with pytest.raises(DatabaseUnavailable) as caught, read_only.write() as connection:
            connection.execute(insert(images), {"location": "/2.jpg", "added_at": datetime(2026, 11, 20)})
        assert caught.value.exit_code == 10
        with pytest.raises(DatabaseUnavailable):
            commit(read_only, predicted("1"))
    assert (count_images(database), stored(database, predictions)) == (1, {})


MAY_WRITE = "GRANT ALL ON {all} TO {role}"


def test_a_role_that_may_not_read_is_no_bug(database, add_role, kind):
    if kind != "postgres":
        pytest.skip("MariaDB's refusals are those of any statement that can't be done")
    with (
        Database(add_role()) as limited,
        pytest.raises(DatabaseUnavailable, match="permission denied for table infer_"),
    ):
        check_schema(limited)


def test_a_role_that_may_not_read_the_source_is_told_so(execute, add_role):
    execute("CREATE TABLE shots (id INTEGER, path VARCHAR(9), came VARCHAR(9))")
    settings = SourceSettings(table="shots", location="path", time="came")
    with (
        Database(add_role("GRANT SELECT ON {schema}.infer_runs TO {role}")) as limited,
        pytest.raises(DatabaseUnavailable, match="(?i)(permission|command) denied.*shots") as caught,
    ):
        check_source(Source(limited, settings))
    assert "to read the table of [source]" in caught.value.hint


def test_a_role_that_only_reads_is_no_bug(database, add_role, kind):
    if kind != "postgres":
        pytest.skip("MariaDB's refusals are those of any statement that can't be done")
    only_reads = "ALTER ROLE {role} SET default_transaction_read_only = on"
    with Database(add_role(MAY_WRITE, only_reads)) as limited:
        check_schema(limited)
        with pytest.raises(DatabaseUnavailable, match="cannot execute INSERT in a read-only transaction"):
            RunStore(limited).open_run(DAY, MODEL)
        with pytest.raises(DatabaseUnavailable, match="not even a rejection can be written: .*read-only"):
            commit(limited, good=predicted("a"))


def test_a_row_that_a_policy_refuses_costs_that_row_only(database, execute, add_role, kind):
    """PostgreSQL has the same code for it as for a role that may not write at all."""
    if kind != "postgres":
        pytest.skip("only PostgreSQL has policies")
    execute(
        "ALTER TABLE infer_predictions ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY not_b ON infer_predictions USING (image_id <> 'b')",
    )
    with Database(add_role(MAY_WRITE)) as limited:
        commit(limited, good=predicted("a", "b", "c"))
    assert stored(database, predictions, "label") == {"a": ("cat",), "c": ("cat",)}
    assert stored(database, rejections, "reason") == {"b": ("write_error",)}


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
        locations = connection.scalars(select(images.c.location)).all()
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
