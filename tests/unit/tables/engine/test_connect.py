"""SQLite as it really is: locks of other processes, logs of crashed ones, files that are something else."""

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from infer_app.base.errors import DatabaseUnavailable, InferError, UsageError
from infer_app.base.packages import install
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.postgresql import PostgreSQL
from tests.conftest import need
from tests.unit.tables.engine.conftest import files_of, insert, read_only, values


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
        ("postgresql://user:canary@/name?host=/nowhere&oops=1", ""),
        ("mariadb://user:canary@localhost/name?oops=1", ""),
        ("mariadb://user:canary@localhost/name?connect_timeout=soon", ""),
    ],
)
def test_a_url_that_names_no_database_of_ours_or_an_unknown_option_is_a_usage_error(url, message):
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
def test_a_driver_that_is_not_installed_is_named(installed, url, driver, extra):
    installed.remove(driver)
    with pytest.raises(UsageError, match=f"the driver '{driver}' is not installed") as caught:
        Database(url)
    assert caught.value.hint == install(extra)


@pytest.mark.parametrize(
    ("text", "is_away"),
    [
        ("connection refused", True),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  the database system is not yet accepting connections", True),
        ('FATAL:  password authentication failed for user "lab"', False),
    ],
)
def test_a_postgresql_that_only_starts_is_waited_for_as_one_that_is_away(text, is_away):
    driver_error = type("Failed", (Exception,), {"sqlstate": None})  # a failed connection has no code
    assert PostgreSQL().is_away(OperationalError("", {}, driver_error(text))) is is_away


def test_what_a_driver_repeats_of_the_url_is_masked_like_it():
    need("psycopg")
    with (
        pytest.raises(DatabaseUnavailable, match=r'service "\*\*\*"') as refused,
        Database("postgresql://user@/name?host=/nowhere&service=canary") as database,
        database.read(),
    ):
        pass
    assert "canary" not in f"{refused.value} {refused.value.hint}"
