"""The lease of a day: real processes own it, die, and leave it behind."""

import subprocess
from datetime import datetime

import psutil
import pytest

from infer_app.base.errors import DayHeld
from infer_app.base.machine import process_identity
from infer_app.tables.results.runs import RunStore
from tests.support.waiting import wait_until
from tests.unit.tables.results.test_runs import change, open_run, row_of


@pytest.fixture
def process():
    """Another process of this machine; `end` ends and reaps it."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        yield sleeper
        sleeper.kill()


def test_a_day_is_held_as_long_as_its_owner_lives_whatever_its_heartbeat(database, process):
    run_store = RunStore(database)
    run_id = open_run(run_store)
    change(database, run_id, process=process_identity(process.pid), heartbeat_at=datetime(2026, 1, 1))
    with pytest.raises(DayHeld):
        open_run(run_store)


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_dead_owner_is_taken_over_at_once_and_its_row_closed(database, process, is_reaped):
    """In a container whose first process reaps nothing, a killed run stays a zombie."""
    run_store = RunStore(database)
    dead = open_run(run_store)
    change(database, dead, process=process_identity(process.pid))
    process.kill()
    if is_reaped:
        process.wait()
    else:
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert open_run(run_store) != dead
    row = row_of(database, dead)
    assert (row["state"], row["error"]) == ("failed", "the process ended unexpectedly")
    assert row["ended_at"] == row["heartbeat_at"]
