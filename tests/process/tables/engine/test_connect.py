"""SQLite as it really is: locks of other processes, logs of crashed ones, files that are something else."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from infer_app.base.errors import DatabaseUnavailable
from infer_app.tables.engine.connect import Database
from tests.unit.tables.engine.conftest import files_of, insert, read_only, values

CRASH = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("CREATE TABLE t (x)")
connection.execute("INSERT INTO t VALUES (7)")
os._exit(0)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some.db"


@pytest.fixture
def theirs(file):
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        yield connection


def test_a_write_waits_for_another_one(theirs, file):
    theirs.execute("BEGIN IMMEDIATE")
    theirs.execute("INSERT INTO t VALUES (2)")
    threading.Timer(1.5, theirs.execute, ["COMMIT"]).start()  # longer than SQLite itself waits
    with Database(f"sqlite:///{file}") as database:
        insert(database, 3)
        assert values(database) == [1, 2, 3]


def test_a_crashed_database_is_left_as_it_is_by_a_read_only_connection_and_whole_for_the_next_writer(file):
    """Its log holds what the file does not: it is read, and neither is touched."""
    subprocess.run([sys.executable, "-c", CRASH, file], check=True)
    before = files_of(file.parent)
    assert before["some.db-wal"]
    with read_only(file) as look:
        assert values(look) == [7]
    after = files_of(file.parent)
    assert (after["some.db"], after["some.db-wal"]) == (before["some.db"], before["some.db-wal"])
    with Database(f"sqlite:///{file}") as database:
        insert(database, 8)
        assert values(database) == [7, 8]


# A file that another program made, in SQLite's default mode with a rollback journal

CRASH_IN_ROLLBACK = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN")
connection.execute("UPDATE t SET x = x + 1000")
connection.execute("INSERT INTO t SELECT zeroblob(100000) FROM t")
os._exit(0)
"""


def test_a_commit_that_waits_longer_than_its_patience_writes_nothing(theirs, file):
    with Database(f"sqlite:///{file}") as database:
        theirs.execute("BEGIN")
        theirs.execute("SELECT * FROM t").fetchall()
        with pytest.raises(DatabaseUnavailable, match="locked"), database.write(wait_limit_s=0) as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (2)")
        theirs.execute("ROLLBACK")
        insert(database, 3)
        assert values(database) == [1, 3]


@pytest.mark.parametrize("is_read_only", [False, True])
def test_what_a_crashed_program_had_not_committed_is_not_read(theirs, file, is_read_only):
    subprocess.run([sys.executable, "-c", CRASH_IN_ROLLBACK, file], check=True)
    assert file.with_name("some.db-journal").exists()
    with Database(f"sqlite:///{file}", read_only=is_read_only) as database:
        assert values(database) == [1]
