"""Connections: read or write, each in one transaction, with the database's own quirks kept in here."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError

from infer_app.errors import DatabaseUnavailable, UsageError
from infer_app.settings import mask_url

BUSY_TIMEOUT_S = 60


class Database:
    """One database. `with database.write() as connection:` commits at its end, or rolls back on any exception."""

    def __init__(self, url: str, read_only: bool = False) -> None:
        self._url = make_url(url)
        self.shown_url = mask_url(self._url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        if self.is_sqlite and self._url.host:
            raise UsageError(f"an sqlite URL has no host: {self.shown_url}", "three slashes: sqlite:///infer.db")
        if self.is_sqlite and self._url.database in (None, "", ":memory:"):
            raise UsageError("an in-memory database forgets its results", "name a file: sqlite:///infer.db")
        self._read_only = read_only
        self._engine = self._create_engine()
        self.dialect = self._engine.dialect

    @property
    def url(self) -> str:
        """With its password: for another connection, not to be shown."""
        return self._url.render_as_string(hide_password=False)

    @property
    def sqlite_file(self) -> Path | None:
        return Path(self._url.database) if self.is_sqlite and self._url.database else None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._translate_errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self, patience_s: float = BUSY_TIMEOUT_S) -> Iterator[Connection]:
        # SQLite: take the write lock at the start; a read lock that is upgraded later fails at once instead of waiting.
        writer = self._engine.execution_options(sqlite_begin="BEGIN IMMEDIATE", sqlite_patience_s=patience_s)
        with self._translate_errors(), writer.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create_engine(self) -> Engine:
        try:
            if self.is_sqlite:
                return self._create_sqlite_engine()
            options = {"postgresql_readonly": True} if self._read_only else {}
            return create_engine(self._url, pool_pre_ping=True, hide_parameters=True, execution_options=options)
        except NoSuchModuleError:
            raise UsageError(
                f"no driver for {self._url.drivername!r} databases", "sqlite:/// or postgresql:// work"
            ) from None
        except ModuleNotFoundError as error:
            extra = "'infer_app[postgres]'" if error.name == "psycopg" else error.name
            raise UsageError(f"the driver {error.name!r} is not installed", f"pip install {extra}") from None

    def _create_sqlite_engine(self) -> Engine:
        engine = create_engine(self._url, creator=self._connect_sqlite, hide_parameters=True)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _connect_sqlite(self) -> sqlite3.Connection:
        """A read-only connection never writes, and leaves no file behind that wasn't there."""
        path = self.sqlite_file
        assert path is not None
        mode = _read_mode(path) if self._read_only else "rwc"
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        # SQLite waits for a lock without hearing a signal, so not for long: `_begin_sqlite` waits again.
        connection = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
        # One undecodable name must not end a run: it is handed on, and found or not found as the file system says.
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        if self._read_only:
            connection.execute("PRAGMA query_only=ON")
            return connection
        connection.execute("PRAGMA journal_mode=WAL")
        # Safe in WAL mode against a crash of the program; after a power cut the last commits may be gone, whole.
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if not isinstance(error, (OperationalError, InterfaceError)) and type(error) is not DatabaseError:
                raise  # a statement that is wrong: a bug
            raise self._unavailable(error) from None  # `from None`: the chain may hold the URL with its password
        except sqlite3.Error as error:
            raise DatabaseUnavailable(
                f"{self.shown_url}: {error}", "is the file's folder there and writable?"
            ) from None

    def _unavailable(self, error: DBAPIError) -> DatabaseUnavailable:
        first_line = (str(error.orig).strip().splitlines() or ["no answer"])[0]
        password = self._url.password
        message = first_line.replace(str(password), "***") if password else first_line
        return DatabaseUnavailable(f"{self.shown_url}: {message}", "`infer doctor` checks the connection")


def _read_mode(path: Path) -> str:
    """How to open a file without changing a byte of it.

    Opening and closing a database that a crash left behind would write its log into it, so that one is opened with
    mode=ro. That mode can't remove the empty log it makes itself, so it is not for the others; and in a folder where
    nothing may be written it needs to be told that nobody else writes.
    """
    if any(path.with_name(f"{path.name}{log}").exists() for log in ("-wal", "-journal")):
        return "ro"
    if not os.access(path.parent, os.W_OK):
        return "ro&immutable=1"
    return "rwc" if os.access(path, os.W_OK) else "ro"


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    deadline = time.monotonic() + options.get("sqlite_patience_s", BUSY_TIMEOUT_S)
    while True:
        try:
            connection.exec_driver_sql(options.get("sqlite_begin", "BEGIN"))
        except OperationalError as error:
            if "locked" not in str(error.orig) or time.monotonic() > deadline:
                raise
        else:
            return
