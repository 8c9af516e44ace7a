"""Where a dry run writes: what it writes is thrown away, and what writing it took has been measured."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from infer_app.database.connect import Database
from infer_app.database.sqlite import BUSY_TIMEOUT_S
from infer_app.errors import UsageError


@contextmanager
def open_rehearsal(database: Database) -> Iterator[Database]:
    """A database to write into instead of `database`, which stays as it is.

    SQLite: an empty copy of its tables, indexes and triggers in a temporary file. Another run that holds the lock and
    tables too large for the cache cost more than it shows. Servers: the database itself, and every transaction is
    rolled back instead of committed.
    """
    file = database.sqlite_file
    if file is None:
        with RolledBack(database.url) as rolled_back:
            yield rolled_back
        return
    with _temporary_folder() as folder:
        copy = Path(folder) / "rehearsal.db"
        with Database(f"sqlite:///{copy}") as rehearsal:
            _copy_tables(database, rehearsal)
            yield rehearsal


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
    with contextlib.closing(sqlite3.connect(rehearsal.sqlite_file or "")) as copy:
        copy.execute("BEGIN")
        for statement in found:
            with contextlib.suppress(sqlite3.Error):
                copy.execute(statement)
        copy.commit()
