"""SQLite as it really is: locks of other processes, logs of crashed ones, files that are something else."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infer_app.base.errors import DatabaseUnavailable, InferError, UsageError, install
from infer_app.tables.engine.connect import Database
from tests.conftest import need


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some.db"


@pytest.fixture
def database(file):
    with Database(f"sqlite:///{file}") as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x)")
        yield database


def values(database):
    with database.read() as connection:
        return [x for (x,) in connection.exec_driver_sql("SELECT x FROM t ORDER BY x")]


def insert(database, x):
    with database.write() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (?)", (x,))


def read_only(file):
    return Database(f"sqlite:///{file}", read_only=True)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_asking_whether_readers_block_commits_releases_no_lock(database, file):
    """Without its lock another program would remove the log as it closes the file, and what is committed after."""

    def locks():
        return {line for line in Path("/proc/locks").read_text().splitlines() if f":{file.stat().st_ino} " in line}

    assert locks()
    assert not database.readers_block_commits
    assert locks()


def test_a_write_is_committed_at_its_end_and_rolled_back_on_any_exception(database):
    insert(database, 1)
    with pytest.raises(KeyboardInterrupt), database.write() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2)")
        raise KeyboardInterrupt
    assert values(database) == [1]


def test_a_read_sees_one_moment(database):
    insert(database, 1)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 1
        insert(database, 2)
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 1
    assert values(database) == [1, 2]


def test_a_read_does_not_wait_for_a_writer(database):
    insert(database, 1)
    with database.write() as writer:
        writer.exec_driver_sql("INSERT INTO t VALUES (2)")
        assert values(database) == [1]  # or it would wait for ever


@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (2)", "DROP TABLE t", "CREATE TABLE u (x)"])
def test_a_read_only_connection_writes_nothing_and_leaves_no_file_behind(database, file, statement):
    insert(database, 1)
    database.close()
    before = files_of(file.parent)
    with read_only(file) as look:
        assert values(look) == [1]
        with pytest.raises(DatabaseUnavailable), look.write() as connection:
            connection.exec_driver_sql(statement)
    assert files_of(file.parent) == before


def test_a_read_only_connection_follows_a_living_writer(database, file):
    with read_only(file) as look:
        for x in (1, 2):
            insert(database, x)
            assert values(look) == list(range(1, x + 1))


def test_a_read_only_connection_makes_no_file_where_there_is_none(file):
    with read_only(file) as look, pytest.raises(InferError), look.read() as connection:
        connection.exec_driver_sql("SELECT x FROM t")
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("spoil", ["no folder", "a folder", "something else"])
def test_a_file_that_is_no_database_is_unavailable(file, spoil):
    if spoil == "no folder":
        file = file / "below" / "some.db"
    elif spoil == "a folder":
        file.mkdir()
    else:
        file.write_bytes(b"no database " * 1000)
    with Database(f"sqlite:///{file}") as database, pytest.raises(DatabaseUnavailable) as caught:
        insert(database, 1)
    assert caught.value.exit_code == 10
    assert str(file) in caught.value.message


@pytest.fixture
def logged_file(file):
    """A file of another program, with a log, that nobody has open."""
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("PRAGMA journal_mode=WAL")
        theirs.execute("CREATE TABLE t (x)")
    return file


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_write_names_the_file_that_is_read_only_and_leaves_none_behind(logged_file, monkeypatch, suffix):
    unwritable = logged_file.with_name(logged_file.name + suffix)
    unwritable.touch()
    before = files_of(logged_file.parent)
    monkeypatch.setattr(os, "access", lambda path, _: path != unwritable)
    with Database(f"sqlite:///{logged_file}") as database, pytest.raises(DatabaseUnavailable) as caught:
        insert(database, 1)
    assert caught.value.message == f"{unwritable} is read-only"
    assert f"chmod u+w {unwritable};" in caught.value.hint
    assert files_of(logged_file.parent) == before


def test_a_read_of_a_read_only_file_leaves_no_read_only_log_behind(logged_file, monkeypatch):
    """It would still be read-only when the file is writable again."""
    logged_file.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, _: path != logged_file)
    with read_only(logged_file) as look:
        assert values(look) == []
    assert [path.name for path in logged_file.parent.iterdir()] == [logged_file.name]


def test_what_others_write_is_seen_though_nothing_may_be_written_here(tmp_path, monkeypatch):
    """As of a folder that is mounted read-only, which for root is none otherwise."""
    file = tmp_path / "theirs.db"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE t (x INTEGER)")
        theirs.commit()
        monkeypatch.setattr(os, "access", lambda *_: False)
        with read_only(file) as look:
            assert values(look) == []
            for number in range(2000):
                theirs.execute("INSERT INTO t VALUES (?)", (number,))
            theirs.commit()
            assert values(look) == list(range(2000))


@pytest.mark.parametrize("come", ["removed", "replaced"])
def test_nothing_is_written_into_a_file_that_has_another_place(database, file, come):
    insert(database, 1)
    file.rename(file.with_name("moved.db"))
    if come == "replaced":
        with Database(f"sqlite:///{file}") as other, other.write() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x)")
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match="was replaced or removed while it was open"):
            insert(database, 2)
    assert come == "replaced" or values(database) == [1]  # a file that came in its place has mixed logs with it


def test_a_full_database_is_unavailable_and_whole(database):
    with pytest.raises(DatabaseUnavailable, match="full") as caught, database.write() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=3")
        connection.exec_driver_sql("INSERT INTO t VALUES (zeroblob(100000))")
    assert "free some space" in caught.value.hint
    assert values(database) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://user:canary@host/db", "no driver for 'nosuch' databases"),
        ("oracle+nosuch://user:canary@host/db", "no driver for 'oracle+nosuch' databases"),
        ("oracle://host/name", "no driver for 'oracle' databases"),
        ("sqlite://relative.db", "sqlite"),
        ("sqlite://user:canary@host/some.db", "sqlite"),
        ("sqlite://", "an in-memory database forgets its results"),
        ("sqlite:///:memory:", "an in-memory database forgets its results"),
    ],
)
def test_a_url_that_names_no_database_of_ours_is_a_usage_error(url, message):
    with pytest.raises(UsageError) as caught, Database(url) as database, database.read():
        pass
    assert message in caught.value.message
    assert "canary" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("mysql://user:secret@host/db", "pymysql", "mariadb"),
        ("mariadb://user:secret@host/db", "pymysql", "mariadb"),
        ("postgresql://user:secret@host/db", "psycopg", "postgres"),
        ("postgres://user:secret@host/db", "psycopg", "postgres"),
    ],
)
def test_a_driver_that_is_not_installed_is_named(monkeypatch, url, driver, extra):
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(UsageError, match=f"the driver '{driver}' is not installed") as caught:
        Database(url)
    assert caught.value.hint == install(extra)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:canary@/name?host=/nowhere&oops=1",
        "mariadb://user:canary@localhost/name?oops=1",
        "mariadb://user:canary@localhost/name?connect_timeout=soon",
    ],
)
def test_an_option_that_the_driver_does_not_know_is_a_usage_error(url):
    with pytest.raises(UsageError) as refused, Database(url) as database, database.read():
        pass
    assert "canary" not in f"{refused.value} {refused.value.hint}"


def test_what_a_driver_repeats_of_the_url_is_masked_like_it():
    need("psycopg")
    with (
        pytest.raises(DatabaseUnavailable, match=r'service "\*\*\*"') as refused,
        Database("postgresql://user@/name?host=/nowhere&service=canary") as database,
        database.read(),
    ):
        pass
    assert "canary" not in f"{refused.value} {refused.value.hint}"


# A file that another program made, in SQLite's default mode with a rollback journal


@pytest.fixture
def theirs(file):
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        yield connection


def mode_of(database):
    with database.write() as connection:
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]


NORMAL, FULL = 1, 2


def test_a_file_that_is_made_here_is_in_wal_mode(file):
    with Database(f"sqlite:///{file}") as database:
        assert mode_of(database) == ["wal", NORMAL]


@pytest.mark.parametrize(("mode", "synchronous"), [("wal", NORMAL), ("delete", FULL)])
def test_a_file_that_others_made_keeps_its_journal_mode_and_survives_a_power_cut(theirs, file, mode, synchronous):
    theirs.execute(f"PRAGMA journal_mode={mode}")
    with Database(f"sqlite:///{file}") as database:
        insert(database, 2)
        assert mode_of(database) == [mode, synchronous]
        assert database.readers_block_commits is (mode == "delete")
    assert theirs.execute("PRAGMA journal_mode").fetchone() == (mode,)


def test_a_read_only_connection_reads_while_a_transaction_of_another_is_open(theirs, file):
    theirs.execute("BEGIN IMMEDIATE")
    theirs.execute("INSERT INTO t VALUES (2)")
    assert file.with_name("some.db-journal").exists()
    with read_only(file) as look:
        assert values(look) == [1]
        theirs.execute("COMMIT")
        assert values(look) == [1, 2]


def test_a_file_that_another_program_holds_is_called_held(theirs, file):
    theirs.execute("BEGIN IMMEDIATE")
    with (
        Database(f"sqlite:///{file}") as database,
        pytest.raises(DatabaseUnavailable) as caught,
        database.write(wait_limit_s=0) as connection,
    ):
        connection.exec_driver_sql("INSERT INTO t VALUES (2)")
    assert "another program holds the file" in caught.value.hint
