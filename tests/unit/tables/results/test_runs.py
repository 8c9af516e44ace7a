"""The lease of a day: real processes own it, die, and leave it behind."""

import os
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import delete, select, update

from infer_app.base.errors import DayHeld
from infer_app.base.machine import process_identity
from infer_app.tables.results.model_versions import read_versions
from infer_app.tables.results.runs import LEASE_S, OTHERS_LEASE_S, RunStore
from infer_app.tables.results.schema import models, runs
from tests.conftest import DAY, MODEL
from tests.support.results import commit, predicted
from tests.support.run_reports import REPORT
from tests.support.waiting import wait_until


@pytest.fixture
def run_store(database):
    return RunStore(database)


def open_run(run_store, model=MODEL, day=DAY):
    return run_store.open_run(day, model)


def row_of(database, run_id):
    with database.read() as connection:
        return dict(connection.execute(select(runs).where(runs.c.id == run_id)).one()._mapping)


def change(database, run_id, **values):
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(values))


def now():
    return datetime.now(UTC).replace(tzinfo=None)


def test_an_open_run_says_who_holds_which_day(database, run_store):
    before = now() - timedelta(milliseconds=1)  # SQLite's clock has no finer ones
    row = row_of(database, open_run(run_store))
    assert before <= row["started_at"] == row["heartbeat_at"] <= now()
    shown = ("day", "time_zone", "interval_start", "interval_end", "model", "model_id", "variant", "host", "process")
    assert {key: row[key] for key in shown} == {
        "day": DAY.date,
        "time_zone": "UTC",
        "interval_start": datetime(2026, 11, 20),
        "interval_end": datetime(2026, 11, 21),
        "model": "stub",
        "model_id": MODEL.model_id,
        "variant": "cpu-torchscript",
        "host": socket.gethostname(),
        "process": process_identity(os.getpid()),
    }
    assert (row["state"], row["ended_at"], row["exit_code"], row["predicted"]) == ("running", None, None, 0)


@pytest.mark.parametrize(("age_s", "is_held"), [(LEASE_S - 10, True), (LEASE_S + 10, False)])
@pytest.mark.parametrize(
    "owner",
    [{"host": "elsewhere"}, {"process": f"{os.getpid()}@?@?"}, {"process": "1@8812@1f2e3d4c-4026532201"}],
    ids=["another host", "no /proc", "another container"],
)
def test_an_owner_that_can_not_be_looked_at_lives_by_its_heartbeat(database, run_store, owner, age_s, is_held):
    """The process of that number here says nothing."""
    run_id = open_run(run_store)
    change(database, run_id, **owner, heartbeat_at=now() - timedelta(seconds=age_s))
    if is_held:
        with pytest.raises(DayHeld):
            open_run(run_store)
    else:
        assert open_run(run_store) != run_id
    assert row_of(database, run_id)["state"] == ("running" if is_held else "failed")


def test_a_run_closes_what_dead_runs_of_any_model_left_of_its_day(database, run_store):
    removed, paused, alive = (
        open_run(run_store, replace(MODEL, model_id=one)) for one in ("removed", "paused", "alive")
    )
    of_another_day = open_run(run_store, day=DAY.before(1))
    for run_id in (removed, of_another_day):
        change(database, run_id, process="1@0@gone", heartbeat_at=now() - timedelta(seconds=2 * OTHERS_LEASE_S))
    change(database, paused, process="1@0@gone", heartbeat_at=now() - timedelta(seconds=2 * LEASE_S))
    open_run(run_store)
    states = [row_of(database, run_id)["state"] for run_id in (removed, paused, alive, of_another_day)]
    assert states == ["failed", "running", "running", "running"]


def test_a_closed_run_frees_its_day_and_keeps_what_it_did(database, run_store):
    run_id = open_run(run_store)
    speed = {"limited_by": "model", "walls": {"decode": 1.7}, "passed_over": {"trt-fp16": "no GPU"}}
    report = replace(REPORT, run_id=run_id, exit_code=3, **speed)
    run_store.close_run(report)
    row = row_of(database, run_id)
    kept = ("selected", "predicted", "rejected", "reasons", "stages", "seconds", "images_per_second", "exit_code")
    kept += ("limit_images_per_second",)
    assert [row[name] for name in kept] == [getattr(report, name) for name in kept]
    assert {name: row["throughput"][name] for name in speed} == speed
    assert (row["state"], row["error"]) == ("done", None)
    assert row["started_at"] <= row["ended_at"] <= now()
    open_run(run_store)


def test_a_run_is_opened_once_however_often_it_is_asked_for(database, run_store):
    for _ in range(2):
        assert run_store.open_run(DAY, MODEL, "run 1") == "run 1"
    with database.read() as connection:
        assert connection.scalars(select(runs.c.id)).all() == ["run 1"]


def test_a_run_lives_by_its_heartbeat_however_long_a_chunk_takes(database, run_store):
    run_id, other = open_run(run_store), open_run(run_store, day=DAY.before(1))
    change(database, run_id, heartbeat_at=datetime(2026, 1, 1))
    change(database, other, heartbeat_at=datetime(2026, 1, 1))
    with run_store.lease_renewal([run_id], every_s=0.05):
        wait_until(lambda: row_of(database, run_id)["heartbeat_at"] > now() - timedelta(minutes=1))
    assert row_of(database, other)["heartbeat_at"] == datetime(2026, 1, 1)


def test_the_heart_beats_on_after_any_error_and_says_so_once(database, run_store, caplog):
    run_id = open_run(run_store)
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE refused (x)")
        connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE UPDATE OF heartbeat_at ON infer_runs WHEN (SELECT count(*) FROM refused) = 0"
            " BEGIN SELECT RAISE(ABORT, 'no beat at all'); END"
        )
    with run_store.lease_renewal([run_id], every_s=0.05):
        wait_until(lambda: caplog.records)
        for statement in (
            "ALTER TABLE infer_runs RENAME TO away",  # as a database that is away, of which nothing is said
            "ALTER TABLE away RENAME TO infer_runs",
            "INSERT INTO refused VALUES (1)",
        ):
            time.sleep(0.3)
            with database.write() as connection:
                connection.exec_driver_sql(statement)
        change(database, run_id, heartbeat_at=datetime(2026, 1, 1))
        wait_until(lambda: row_of(database, run_id)["heartbeat_at"] > now() - timedelta(minutes=1))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "no beat at all" in record.getMessage()


def test_the_heart_stops_with_its_run(database, run_store):
    run_id = open_run(run_store)
    with run_store.lease_renewal([run_id], every_s=0.05):
        pass
    wait_until(lambda: all(thread.name != "heartbeat" for thread in threading.enumerate()))
    change(database, run_id, heartbeat_at=datetime(2026, 1, 1))
    time.sleep(0.2)
    assert row_of(database, run_id)["heartbeat_at"] == datetime(2026, 1, 1)


def test_a_run_whose_row_somebody_deleted_goes_on(database, run_store):
    run_id = open_run(run_store)
    with database.write() as connection:
        connection.execute(delete(runs))
    commit(database, predicted("1"), run_id=run_id)


def test_a_failed_run_frees_its_day_and_says_why_and_what_was_passed_over(database, run_store):
    passed_over = {"trt-fp16": "no GPU"}
    run_id = open_run(run_store, replace(MODEL, passed_over=passed_over))
    for state, exit_code, error in (("running", None, None), ("failed", 14, "the root is gone")):
        row = row_of(database, run_id)
        assert (row["state"], row["exit_code"], row["error"]) == (state, exit_code, error)
        assert row["throughput"] == {"passed_over": passed_over}
        run_store.fail_run(run_id, 14, "the root is gone")
    open_run(run_store)


def test_a_run_that_was_closed_is_not_failed_afterwards(database, run_store):
    """As where the row of another model of the same run can't be closed."""
    run_id = open_run(run_store)
    run_store.close_run(replace(REPORT, run_id=run_id))
    run_store.fail_run(run_id, 10, "the other row can't be closed")
    row = row_of(database, run_id)
    assert (row["state"], row["exit_code"], row["error"]) == ("done", 0, None)


def test_every_commit_is_a_heartbeat_and_counts_in_the_run(database, run_store):
    run_id = open_run(run_store)
    change(database, run_id, heartbeat_at=datetime(2026, 1, 1))
    for image_id in "12":
        commit(database, predicted(image_id), run_id=run_id)
    row = row_of(database, run_id)
    assert [row[name] for name in ("selected", "predicted", "rejected")] == [2, 2, 0]
    assert row["heartbeat_at"] > row["started_at"]


def test_a_model_has_the_time_of_its_first_run_and_the_manifest_of_its_last(database, run_store):
    open_run(run_store)
    with database.read() as connection:
        first = connection.execute(select(models)).one()
    run_id = open_run(run_store, replace(MODEL, manifest={"variants": {"new": {}}}), DAY.before(2))
    started_at = row_of(database, run_id)["started_at"]
    assert started_at >= first.created_at
    with database.read() as connection:
        assert connection.execute(select(models)).all() == [
            (MODEL.model_id, "stub", {"variants": {"new": {}}}, first.created_at, first.in_use_since, None)
        ]
        (version,) = read_versions(connection)
    assert first.in_use_since == first.created_at == version.first_run_at
    assert version.last_run_at == started_at


def test_the_first_run_of_a_version_is_later_than_that_of_others_also_if_the_clock_was_set_back(database, run_store):
    """Exports number classes in this order, and no number may move."""
    open_run(run_store)
    future = datetime(2100, 1, 1)
    with database.write() as connection:
        connection.execute(update(models).values(created_at=future))
    open_run(run_store, replace(MODEL, model_id="0" * 16))
    with database.read() as connection:
        first_runs = {one.model_id: one.first_run_at for one in read_versions(connection)}
    assert first_runs == {MODEL.model_id: future, "0" * 16: future + timedelta(microseconds=1)}


def test_the_day_is_that_of_the_date_whatever_its_zone(run_store):
    """One lease for a date and model: settings with another zone don't open a second door."""
    open_run(run_store)
    with pytest.raises(DayHeld):
        open_run(run_store, day=type(DAY).of(date(2026, 11, 20), "Asia/Tokyo"))
