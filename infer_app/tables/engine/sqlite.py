"""SQLite: a file on this machine, whose values have types of their own."""

import sqlite3
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Engine, create_engine, event, func
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles

from infer_app.base.errors import UsageError
from infer_app.tables.engine.backend import Backend
from infer_app.tables.engine.column_types import AsText, HoursAfter, PictureKey, StoredLocation, UtcNow
from infer_app.tables.engine.sqlite_file import (
    PICTURE_KEY,
    STORED_LOCATION,
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
    has_text_limits = False
    json_pictures = (
        "SELECT key + 1 AS place, json_extract(value, '$[0]') AS image_id,"
        " json_extract(value, '$[1]') AS picture_key FROM json_each(:pictures)"
    )

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

    def hint_for(self, error: BaseException | None, file: Path | None) -> str:
        assert file is not None
        return hint_for(error, file)

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

    def exact(self, text: ColumnElement[str]) -> ColumnElement[str]:
        return text.collate("BINARY")

    def char_length(self, text: ColumnElement[str]) -> ColumnElement[int]:
        return func.length(text)


@compiles(UtcNow, "sqlite")
def _utc_now_sqlite(element: UtcNow, compiler: object, **_: object) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"  # in the format that SQLAlchemy writes


@compiles(HoursAfter, "sqlite")
def _hours_after_sqlite(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"datetime({compiler.process(element.clauses, **options)}, '+{element.hours} hours')"


@compiles(PictureKey, "sqlite")
def _picture_key_sqlite(element: PictureKey, compiler: Any, **options: Any) -> str:
    parts = (f"CAST({compiler.process(one, **options)} AS BLOB)" for one in element.clauses)
    return f"{PICTURE_KEY}({', '.join(parts)})"


@compiles(StoredLocation, "sqlite")
def _stored_location_sqlite(element: StoredLocation, compiler: Any, **options: Any) -> str:
    listed = compiler.process(AsText(*element.clauses), **options)
    # Python is called only for a URL, or where not all is printable ASCII without a backslash.
    is_plain = f"{listed} NOT GLOB '*[^] -[^-~]*' AND instr({listed}, '://') = 0 AND instr({listed}, char(0)) = 0"
    return f"CASE WHEN {is_plain} THEN {listed} ELSE {STORED_LOCATION}(CAST({listed} AS BLOB)) END"
