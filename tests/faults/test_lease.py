"""Who holds a day: a frozen run on another machine, its clock, and a server that deadlocks. Rows 16 and 19."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, make_url, select
from sqlalchemy.exc import OperationalError

from infer_app.tables.results.schema import predictions, runs, thresholds
from tests.conftest import SERVERS
from tests.faults.conftest import on
from tests.faults.project_run import DATE, slow_photos
from tests.support.clock import Clock, needs_faketime
from tests.support.suspended import suspend

SLOW = slow_photos(240)  # eight seconds of work
LEASE_S = 4


def start(night, host, *more, **faults):
    return night.start(*more, host=host, lease_s=LEASE_S, **faults)


@on("sqlite")
def test_a_run_that_was_frozen_for_longer_than_its_lease_writes_nothing_more(night):
    """As a machine that slept: another one has done the day meanwhile."""
    night.add(SLOW)
    frozen = start(night, "asleep")
    night.wait_for_results(frozen, 8)
    suspend(frozen, make_url(night.url).database)
    second = night.wait(start(night, "awake", "--wait"))
    assert second.exit_code == 0, second.err
    before = night.rows("SELECT picture, run_id FROM infer_predictions ORDER BY picture")
    os.killpg(frozen.pid, signal.SIGCONT)
    ended = night.wait(frozen)
    assert night.rows("SELECT picture, run_id FROM infer_predictions ORDER BY picture") == before
    night.check_end(ended, 13)
    assert sorted(night.rows("SELECT host, state FROM infer_runs")) == [("asleep", "failed"), ("awake", "done")]


@on("postgres", of=SERVERS)
@pytest.mark.parametrize("hours", [-7, 7])
@needs_faketime
def test_a_machine_whose_clock_is_wrong_by_hours_takes_no_day_from_the_living(night, monkeypatch, hours):
    """The clock is the database's: SQLite's is the machine's own, of which there is one."""
    night.add(SLOW)
    first = start(night, "right")
    night.wait_for_results(first, 4)
    clock = Clock()
    clock.set(datetime.now(UTC) + timedelta(hours=hours))
    sleeps = {"FAKETIME_DONT_FAKE_MONOTONIC": "0"}  # else libfaketime refuses a sleep
    for name, value in (clock.environ | sleeps).items():
        monkeypatch.setenv(name, value)
    told = subprocess.run([sys.executable, "-c", "import time; print(time.time())"], capture_output=True, check=True)
    assert abs(float(told.stdout) - time.time() - hours * 3600) < 60
    wrong = night.wait(start(night, "wrong"))
    waiting = start(night, "wrong", "--wait")
    ended = night.wait(first)
    assert wrong.exit_code == 13, wrong.err
    assert night.wait(waiting).exit_code == 0
    night.check_end(ended)


@on("postgres", of=SERVERS)
def test_a_transaction_that_the_server_ends_by_a_deadlock_is_done_again(night, kind):
    """Another program locks the run's row and then a result; a chunk locks its results and then the run's row."""
    night.add(SLOW)
    run = night.start()
    night.wait_for_results(run, 4)
    before, num_lost = count_deadlocks(night, kind), 0
    for _ in range(3):
        num_lost += not provoke_a_deadlock(night)
    end = night.wait(run)
    assert count_deadlocks(night, kind) - before > num_lost  # the run itself was ended at least once
    night.check_end(end)


def provoke_a_deadlock(night):
    """Whether it was the run's transaction that was ended. MariaDB ends the one that has changed less."""
    with night.engine.connect().execution_options(isolation_level="READ COMMITTED") as connection:
        like = connection.execute(select(predictions).limit(1)).one()._mapping
        connection.rollback()
        try:
            connection.execute(insert(thresholds), [{"model": "", "label": f"{n}", "threshold": 1} for n in range(300)])
            connection.execute(runs.update().values(device="other"))
            time.sleep(0.3)  # a chunk is written and waits for the run's row
            done = {row[0] for row in night.rows("SELECT picture FROM infer_predictions")}
            for picture in [number for number, _ in night.images(DATE) if number not in done][:16]:
                connection.execute(insert(predictions), dict(like) | {"picture": picture, "output": "{}"})
        except OperationalError:
            return False
        finally:
            connection.rollback()
    return True


def count_deadlocks(night, kind):
    counted = {
        "postgres": "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
        "mariadb": "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'",
    }
    return int(night.rows(counted[kind])[0][-1])
