"""The database of a dry run: it discards what is written, after the time of writing was measured."""

import contextlib
import logging
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, delete, false, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from infer_app.base.errors import DatabaseUnavailable, UsageError, os_errors_as
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.reconnect import BUSY_TIMEOUT_S
from infer_app.tables.results.schema import (
    metadata,
    object_predictions,
    objects,
    pictures,
    predictions,
    project_table,
    rejections,
    runs,
)

log = logging.getLogger(__name__)


@contextmanager
def open_dry_run_database(database: Database) -> Iterator[Database]:
    """Open a database to write into instead of `database`, which is not changed.

    For SQLite it is an empty copy of its tables, indexes and triggers in a temporary file. So the time to wait for
    another run's lock, and for tables larger than the cache, is not measured. For a server it is the database itself,
    where every transaction is rolled back. If the role may only read, it is an empty SQLite file.
    """
    if database.file is None:
        with RolledBack(database.url) as rolled_back:
            if not find_unwritable(
                rolled_back, (project_table, pictures, predictions, objects, object_predictions, rejections, runs)
            ):
                yield rolled_back
                return
            log.warning("%s is read-only: the dry run writes to a SQLite file instead", database.shown_url)
    with temporary_folder() as folder, Database(f"sqlite:///{Path(folder) / 'dry_run.db'}") as temporary:
        _copy_tables(database if database.file is not None else None, temporary)
        with temporary.write() as connection:
            connection.execute(insert(project_table).values(id="", last_picture=0, last_object=0))
        yield temporary


def find_unwritable(database: Database, tables: Iterable[Table]) -> list[str]:
    """Return the names of the tables that the role may not write, by statements that concern no row.

    `database` rolls back what it writes.
    """
    return [table.name for table in tables if not _may_write(database, table)]


def _may_write(database: Database, table: Table) -> bool:
    names = [column.name for column in table.columns]
    try:
        with database.write() as connection:
            connection.execute(insert(table).from_select(names, select(table).where(false())))
            connection.execute(update(table).where(false()).values({names[0]: table.c[names[0]]}))
            connection.execute(delete(table).where(false()))
    except (DBAPIError, DatabaseUnavailable):
        return False
    return True


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    with os_errors_as(UsageError, "a dry run needs a temporary folder to write into", "name one with TMPDIR"):
        return tempfile.TemporaryDirectory(prefix="infer-dry-run-")


class RolledBack(Database):
    """A database whose writes are rolled back."""

    @contextmanager
    def write(self, wait_limit_s: float = BUSY_TIMEOUT_S) -> Iterator[Connection]:
        with self.read() as connection:  # closed without a commit
            yield connection


def _copy_tables(database: Database | None, target: Database) -> None:
    """Create the tables, then the indexes, views and triggers; skip what can't be created, such as shadow tables.

    They are without foreign keys: stored pictures and objects are not in the copy. None stands for a server, in place
    of which our tables are made.
    """
    statements = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type <> 'table', rowid"
    found: Sequence[str] = [str(CreateTable(table).compile(dialect=target.dialect)) for table in metadata.sorted_tables]
    journal_mode = "wal"
    if database is not None:
        with database.read() as connection:
            found = connection.exec_driver_sql(statements).scalars().all()
            journal_mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    with contextlib.closing(sqlite3.connect(target.file or "")) as copy:
        copy.execute(f"PRAGMA journal_mode={journal_mode}")
        copy.execute("BEGIN")
        for statement in found:
            with contextlib.suppress(sqlite3.Error):
                copy.execute(_FOREIGN_KEY.sub("", statement))
        copy.commit()


_FOREIGN_KEY = re.compile(r",\s*FOREIGN KEY\s*\([^)]*\) REFERENCES \S+ \([^)]*\) ON DELETE CASCADE")
