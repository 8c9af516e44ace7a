"""SQLite: a file on this machine, whose values have types of their own."""

import sqlite3
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles

from infer_app.base.errors import UsageError
from infer_app.tables.engine.backend import Backend
from infer_app.tables.engine.column_types import HoursAfter, UtcNow
from infer_app.tables.engine.sqlite_file import (
    begin_sqlite,
    commit_sqlite,
    connect_sqlite,
    hint_for,
    is_full,
    remember_file,
)


class SQLite(Backend):
    drivers = MappingProxyType({"sqlite": "sqlite"})
    insert = staticmethod(sqlite.insert)
    of_its_own = "another file in [database] url (this one in [source] database_url, if it lists its images)"
    restarts = False
    has_typed_columns = False

    def check_url(self, url: URL, shown_url: str) -> None:
        if url.host:
            raise UsageError(f"an sqlite URL has no host: {shown_url}", "three slashes: sqlite:///infer.db")
        if url.database in (None, "", ":memory:"):
            raise UsageError("an in-memory database forgets its results", "name a file: sqlite:///infer.db")

    def file_of(self, url: URL) -> Path | None:
        return Path(str(url.database))

    def create_engine(self, url: URL, *, read_only: bool) -> Engine:
        path = Path(str(url.database))
        engine = create_engine(url, creator=lambda: connect_sqlite(path, read_only), hide_parameters=True)
        event.listen(engine, "connect", lambda _, record: remember_file(record, path))
        event.listen(engine, "begin", partial(begin_sqlite, path))
        event.listen(engine, "commit", commit_sqlite)
        return engine

    def is_busy(self, error: DBAPIError) -> bool:
        return "locked" in str(error.orig)

    def is_statement_error(self, error: DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        return super().is_statement_error(error) or code == sqlite3.SQLITE_ERROR

    def is_full(self, error: Exception, file: Path | None) -> bool:
        assert file is not None
        return is_full(getattr(error, "orig", error), file)

    def hint_for(self, error: Exception, file: Path | None) -> str:
        assert file is not None
        return hint_for(getattr(error, "orig", error), file)

    def readers_block_commits(self, connection: Connection) -> bool:
        """Return whether the file has a rollback journal.

        SQLite is asked, because closing the file, had we read it ourselves, would release SQLite's own locks on it.
        """
        return connection.exec_driver_sql("PRAGMA journal_mode").scalar() != "wal"

    def find_damage(self, connection: Connection) -> str | None:
        problem = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
        return None if problem == "ok" else problem

    def json_member(self, document: str, *path: str) -> str:
        return f"json_extract({document}, '$.{'.'.join(path)}')"

    def json_labels(self, dialect: Dialect, document: str, *keys: str) -> tuple[str, str, str]:
        listed = ", ".join(self.json_member(document, key) for key in keys)
        label, score = (self.json_member("e.value", key) for key in ("label", "score"))
        return f"json_each(COALESCE({listed}, '[]')) e", label, score

    def replace_views(self, connection: Connection, views: dict[str, str]) -> None:
        with self.without_views(connection, views):
            pass


@compiles(UtcNow, "sqlite")
def _utc_now_sqlite(element: UtcNow, compiler: object, **_: object) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"  # in the format that SQLAlchemy writes


@compiles(HoursAfter, "sqlite")
def _hours_after_sqlite(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"datetime({compiler.process(element.clauses, **options)}, '+{element.hours} hours')"
