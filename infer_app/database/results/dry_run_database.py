"""Where a dry run writes: what it writes is thrown away, and what writing it took has been measured."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, delete, false, update
from sqlalchemy.exc import DBAPIError

from infer_app.database.engine.connect import Database
from infer_app.database.engine.sqlite import BUSY_TIMEOUT_S
from infer_app.database.results.schema import metadata, predictions, rejections, runs
from infer_app.errors import DatabaseUnavailable, UsageError

log = logging.getLogger(__name__)


@contextmanager
def open_dry_run_database(database: Database) -> Iterator[Database]:
    """A database to write into instead of `database`, which stays as it is.

    SQLite: an empty copy of its tables, indexes and triggers in a temporary file. Another run that holds the lock and
    tables too large for the cache cost more than it shows. Servers: the database itself, and every transaction is
    rolled back instead of committed; where the role may only read, an empty SQLite file stands in for it.
    """
    if not database.is_sqlite:
        with RolledBack(database.url) as rolled_back:
            if _may_write(rolled_back):
                yield rolled_back
                return
            log.warning("%s may only be read: writing is rehearsed in a SQLite file instead", database.shown_url)
    with _temporary_folder() as folder, Database(f"sqlite:///{Path(folder) / 'rehearsal.db'}") as rehearsal:
        if database.is_sqlite:
            _copy_tables(database, rehearsal)
        else:
            with rehearsal.write() as connection:
                metadata.create_all(connection)
        yield rehearsal


def _may_write(database: Database) -> bool:
    try:
        with database.write() as connection:
            for table in (predictions, rejections, runs):
                connection.execute(delete(table).where(false()))
                connection.execute(update(table).where(false()).values({table.primary_key.columns[0]: ""}))
    except (DBAPIError, DatabaseUnavailable):
        return False
    return True


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="infer-dry-run-")
    except OSError as error:
        raise UsageError(
            f"a dry run needs a temporary folder to write into: {error.strerror}", "name one with TMPDIR"
        ) from None


class RolledBack(Database):
    """A database whose writes are rolled back."""

    @contextmanager
    def write(self, patience_s: float = BUSY_TIMEOUT_S) -> Iterator[Connection]:
        with self.read() as connection:  # closed without a commit
            yield connection


def _copy_tables(database: Database, rehearsal: Database) -> None:
    """Tables before what stands on them. What can't be made again, such as a virtual table's own ones, is left out."""
    statements = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type <> 'table', rowid"
    with database.read() as connection:
        found = connection.exec_driver_sql(statements).scalars().all()
        journal_mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    with contextlib.closing(sqlite3.connect(rehearsal.sqlite_file or "")) as copy:
        copy.execute(f"PRAGMA journal_mode={journal_mode}")
        copy.execute("BEGIN")
        for statement in found:
            with contextlib.suppress(sqlite3.Error):
                copy.execute(statement)
        copy.commit()
