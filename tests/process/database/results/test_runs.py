"""The lease of a day: real processes own it, die, and leave it behind."""

import sqlite3
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from infer_app.database.results.runs import RunStore
from infer_app.errors import DayHeld
from infer_app.machine import process_identity
from tests.support.waiting import wait_until
from tests.unit.database.results.test_runs import change, now, open_run, row_of


@pytest.fixture
def run_store(database):
    return RunStore(database)


@pytest.fixture
def process():
    """Another process of this machine; `end` ends and reaps it."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        yield sleeper
        sleeper.kill()


def test_a_day_is_held_as_long_as_its_owner_lives_whatever_its_heartbeat(database, run_store, process):
    run_id = open_run(run_store)
    change(database, run_id, process=process_identity(process.pid), heartbeat_at=datetime(2026, 1, 1))
    with pytest.raises(DayHeld):
        open_run(run_store)


def test_a_dead_owner_is_taken_over_at_once_and_its_row_closed(database, run_store, process):
    dead = open_run(run_store)
    change(database, dead, process=process_identity(process.pid))
    process.kill()
    process.wait()
    assert open_run(run_store) != dead
    row = row_of(database, dead)
    assert (row["state"], row["error"]) == ("failed", "the process ended unexpectedly")
    assert row["ended_at"] == row["heartbeat_at"]


def test_a_dead_owner_that_nobody_has_reaped_is_dead(database, run_store, process):
    """In a container whose first process reaps nothing, a killed run stays a zombie."""
    dead = open_run(run_store)
    change(database, dead, process=process_identity(process.pid))
    process.kill()
    state = Path(f"/proc/{process.pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert open_run(run_store) != dead
    assert row_of(database, dead)["state"] == "failed"


def test_another_process_with_the_dead_ones_pid_does_not_hold_the_day(database, run_store, process):
    pid, started, where = process_identity(process.pid).split("@")
    dead = open_run(run_store)
    change(database, dead, process=f"{pid}@{int(started) - 1}@{where}")
    assert open_run(run_store) != dead
    assert row_of(database, dead)["state"] == "failed"


def test_the_heart_beats_on_after_the_database_was_away(database, run_store, monkeypatch):
    monkeypatch.setattr("infer_app.database.results.runs.RENEW_EVERY_S", 0.05)
    run_id = open_run(run_store)
    with run_store.lease_renewal([run_id]):
        with sqlite3.connect(database.file, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(2)
            other.execute("ROLLBACK")
        change(database, run_id, heartbeat_at=datetime(2026, 1, 1))
        wait_until(lambda: row_of(database, run_id)["heartbeat_at"] > now() - timedelta(minutes=1))
