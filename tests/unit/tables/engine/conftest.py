"""A SQLite file, and what is asked of it."""

import pytest

from infer_app.tables.engine.connect import Database


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
