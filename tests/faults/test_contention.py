"""Others at the same tables: locks, two days at once, several runs of one day, with the lease and without it."""

import sqlite3
import threading
import time
from contextlib import closing

import pytest

from tests.faults.conftest import on
from tests.faults.project_run import DATE, photos, slow_photos

NEXT = "2026-11-21"
SLOW = slow_photos(200)


@on("sqlite")
@pytest.mark.timeout(200)
def test_a_lock_that_comes_in_the_middle_of_a_run_is_waited_for(night, kind):
    night.add(photos(30))
    run = night.start()
    night.wait_for_results(run, 4)
    hold(night, kind, 3)
    ended = night.wait(run)
    night.check_end(ended)


@on("sqlite", of=["sqlite"])
def test_a_database_that_another_program_keeps_in_its_old_journal_mode_is_waited_for(night):
    """Its lock keeps even readers out, and the change of mode."""
    night.add(photos(10))
    with closing(sqlite3.connect(night.engine.url.database, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("PRAGMA journal_mode=DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        run = night.start()
        threading.Timer(4, holder.execute, ["ROLLBACK"]).start()
        ended = night.wait(run)
    night.check_end(ended)


def hold(night, kind, seconds):
    """Keeps every other writer of predictions out."""
    with night.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as holder:
        lock = {
            "sqlite": ["BEGIN IMMEDIATE"],
            "postgres": ["BEGIN", "LOCK TABLE infer_predictions IN EXCLUSIVE MODE"],
            "mariadb": ["LOCK TABLES infer_predictions WRITE"],
        }
        for statement in lock[kind]:
            holder.exec_driver_sql(statement)
        time.sleep(seconds)
        holder.exec_driver_sql("UNLOCK TABLES" if kind == "mariadb" else "ROLLBACK")


@on("sqlite")
def test_two_days_side_by_side_end_as_if_one_came_after_the_other(night):
    night.add(photos(40, seed=1))
    night.add(photos(40, seed=2), date=NEXT)
    runs = {date: night.start(date=date) for date in (DATE, NEXT)}
    ended = {date: night.wait(run) for date, run in runs.items()}
    for date, end in ended.items():
        assert end.exit_code == 0, end.err
        night.check(end, date)
    assert night.results() == sorted(night.expected() + night.expected(NEXT), key=repr)


@on("postgres")
def test_of_four_starts_at_once_one_runs_and_the_others_say_so(night):
    night.add(SLOW)  # the last one to start, on a busy machine, must meet the first
    ended = [night.wait(run) for run in [night.start() for _ in range(4)]]
    assert sorted(end.exit_code for end in ended) == [0, 13, 13, 13], [end.err for end in ended]
    for end in ended:
        night.check(end)
        assert end.exit_code == 0 or "is held by run" in end.answer["error"]
    assert night.results() == night.expected()
    assert night.rows("SELECT count(*) FROM infer_runs") == [(1,)]


@on("postgres")
def test_without_the_lease_several_runs_of_a_day_still_end_right(night):
    night.add(photos(40))
    ended = [night.wait(run) for run in [night.start(lease=False) for _ in range(3)]]
    assert [end.exit_code for end in ended] == [0, 0, 0], [end.err for end in ended]
    night.check()
    assert night.results() == night.expected()


@on("sqlite")
def test_a_run_whose_row_is_gone_still_ends_right(night):
    night.add(photos(40))
    first = night.start()
    night.wait_for_results(first, 4)
    night.execute("DELETE FROM infer_runs")
    second = night.start()
    ended = [night.wait(first), night.wait(second)]
    assert [end.exit_code for end in ended] == [0, 0], [end.err for end in ended]
    night.check()
    assert night.results() == night.expected()
