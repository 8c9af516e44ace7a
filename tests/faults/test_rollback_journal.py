"""Results in a SQLite file of the user's own, which keeps its rollback journal; all the other tests of faults hold with
it too: `pytest tests/faults --sqlite-journal=delete`.
"""

import sqlite3
import time
from contextlib import closing

import pytest

from tests.conftest import make_users_file
from tests.faults.project_run import DATE, slow_photos
from tests.faults.test_failpoints import kill_at_every_transaction


@pytest.fixture
def url(tmp_path):
    make_users_file(tmp_path / "lab.db")
    return f"sqlite:///{tmp_path / 'lab.db'}"


def test_killed_in_every_transaction_a_day_ends_as_if_it_had_not(night):
    kill_at_every_transaction(night, "before commit")
    assert night.rows("PRAGMA journal_mode") == [("delete",)]


def test_readers_and_a_run_wait_for_each_other(night):
    """`infer status` and `infer verify` again and again, and a program that reads for longer than SQLite waits."""
    night.add(slow_photos(120))
    run = night.start()
    night.wait_for_results(run, 4)
    with closing(sqlite3.connect(night.engine.url.database, isolation_level=None, timeout=60)) as look:
        look.execute("BEGIN")
        look.execute("SELECT * FROM infer_predictions LIMIT 1").fetchall()
        time.sleep(2.5)  # the run's next commit waits meanwhile
        look.execute("ROLLBACK")
    has_ended = False
    while not has_ended:
        has_ended = run.poll() is not None
        for command in (("status", "--json"), ("verify", "--date", DATE, "--json")):
            ended = night.wait(night.start_command(*command))
            assert ended.exit_code == 0, ended.err
    ended = night.wait(run)
    night.check_end(ended)
    assert night.rows("PRAGMA journal_mode") == [("delete",)]
