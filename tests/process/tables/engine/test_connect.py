"""SQLite as it really is: another connection's lock, and the logs of processes that crashed."""

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
for statement in sys.argv[2:]:
    connection.execute(statement)
os._exit(0)
"""
TABLE = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")


def crash(file, *statements):
    """Execute statements in a process that crashes then."""
    subprocess.run([sys.executable, "-c", CRASH, file, *statements], check=True)


@pytest.fixture
def other(tmp_path):
    """Another connection to a file with such a table."""
    with closing(sqlite3.connect(tmp_path / "some.db", isolation_level=None, check_same_thread=False)) as connection:
        for statement in TABLE:
            connection.execute(statement)
        yield connection


def test_a_write_waits_for_another_one(other, tmp_path):
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO t VALUES (2)")
    threading.Timer(1.5, other.execute, ["COMMIT"]).start()  # longer than SQLite itself waits
    with Database(f"sqlite:///{tmp_path / 'some.db'}") as database:
        insert(database, 3)
        assert values(database) == [1, 2, 3]


def test_a_commit_that_waits_longer_than_its_patience_writes_nothing(other, tmp_path):
    with Database(f"sqlite:///{tmp_path / 'some.db'}") as database:
        other.execute("BEGIN")
        other.execute("SELECT * FROM t").fetchall()
        with pytest.raises(DatabaseUnavailable, match="locked"), database.write(wait_limit_s=0) as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (2)")
        other.execute("ROLLBACK")
        insert(database, 3)
        assert values(database) == [1, 3]


def test_a_crashed_database_is_left_as_it_is_by_a_read_only_connection_and_whole_for_the_next_writer(tmp_path):
    """Its log holds what the file does not: it is read, and neither is touched."""
    file = tmp_path / "some.db"
    crash(file, "PRAGMA journal_mode=WAL", *TABLE)
    before = files_of(tmp_path)
    assert before["some.db-wal"]
    with read_only(file) as look:
        assert values(look) == [1]
    after = files_of(tmp_path)
    assert (after["some.db"], after["some.db-wal"]) == (before["some.db"], before["some.db-wal"])
    with Database(f"sqlite:///{file}") as database:
        insert(database, 8)
        assert values(database) == [1, 8]


@pytest.mark.parametrize("is_read_only", [False, True])
def test_what_a_crashed_program_had_not_committed_is_not_read(tmp_path, is_read_only):
    """Also where its file has a rollback journal, SQLite's default, and its changes are in the file already."""
    file = tmp_path / "some.db"
    changes = ("UPDATE t SET x = x + 1000", "INSERT INTO t SELECT zeroblob(100000) FROM t")
    crash(file, *TABLE, "PRAGMA cache_size=1", "BEGIN", *changes)
    assert file.with_name("some.db-journal").exists()
    with Database(f"sqlite:///{file}", read_only=is_read_only) as database:
        assert values(database) == [1]
