"""Files of SQLite that others made, that may not be written or that have another place."""

import os
import sqlite3
from contextlib import closing

import pytest

from infer_app.base.errors import DatabaseUnavailable
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.sqlite_file import check_writable
from tests.unit.tables.engine.conftest import files_of, insert, read_only, values


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
def logged_file(shared_folder):
    """A file of another program, with a log, that no process has open."""
    with closing(sqlite3.connect(shared_folder / "some.db")) as theirs:
        theirs.execute("PRAGMA journal_mode=WAL")
        theirs.execute("CREATE TABLE t (x)")
    (shared_folder / "some.db").chmod(0o666)
    return shared_folder / "some.db"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_write_names_the_file_that_is_read_only_and_leaves_none_behind(logged_file, suffix):
    unwritable = logged_file.with_name(logged_file.name + suffix)
    unwritable.touch()
    unwritable.chmod(0o444)
    before = files_of(logged_file.parent)
    with Database(f"sqlite:///{logged_file}") as database, pytest.raises(DatabaseUnavailable) as caught:
        insert(database, 1)
    assert caught.value.message == f"{unwritable} is read-only"
    assert f"chmod u+w {unwritable};" in caught.value.hint
    assert files_of(logged_file.parent) == before


def test_a_read_of_a_read_only_file_leaves_no_read_only_log_behind(logged_file):
    """It would still be read-only when the file is writable again."""
    logged_file.chmod(0o444)
    with read_only(logged_file) as look:
        assert values(look) == []
    assert [path.name for path in logged_file.parent.iterdir()] == [logged_file.name]


def test_what_others_write_is_seen_though_nothing_may_be_written_here(shared_folder):
    """As of a folder that is mounted read-only."""
    file = shared_folder / "theirs.db"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("PRAGMA journal_mode=MEMORY")
        theirs.execute("CREATE TABLE t (x INTEGER)")
        theirs.commit()
        file.chmod(0o444)
        shared_folder.chmod(0o555)
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


def test_a_log_that_another_program_deletes_meanwhile_is_not_called_read_only(tmp_path, monkeypatch):
    path, log = tmp_path / "infer.db", tmp_path / "infer.db-wal"
    log.touch()

    def access(file, mode, asked=os.access):
        log.unlink(missing_ok=True)  # by the program that closes the database last
        return asked(file, mode)

    monkeypatch.setattr(os, "access", access)
    check_writable(path)
