"""Connections for reading or writing, each in one transaction, and the translation of the drivers' errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)

from infer_app.database.engine.reconnect import (
    OUTAGE_S,
    Backoff,
    ConnectionLost,
    Deadlocked,
    Forbidden,
    with_reconnect,
)
from infer_app.database.engine.sqlite import (
    BUSY_TIMEOUT_S,
    begin_sqlite,
    commit_sqlite,
    connect_sqlite,
    hint_for,
    remember_file,
)
from infer_app.errors import DatabaseUnavailable, UsageError
from infer_app.settings.masks import mask_text, mask_url

DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
EXTRAS = {"psycopg": "'infer_app[postgres]'", "pymysql": "'infer_app[mariadb]'"}
HINT_SERVER = "is the server running, and are host, port, database, user and password of the URL right?"
CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = OUTAGE_S  # of PyMySQL: a server that sends nothing for so long has frozen
# MariaDB's errors about a row, which PyMySQL doesn't distinguish from errors of the server: a trigger, a constraint
# (MariaDB's and MySQL's number), a row that is too long, a statement longer than the server accepts. The last one is
# PostgreSQL's, for which psycopg raises OperationalError: a value is too long for its type or for an index.
ROW_ERRORS = (1644, 4025, 3819, 1118, 1153, "54000")
# The server ended the transaction for the sake of another: MariaDB's deadlock and lock wait, PostgreSQL's SQLSTATEs.
DEADLOCKS = (1213, 1205, "40P01", "40001", "55P03")
# The server announced that it ends the connection: MariaDB's shutdown, KILL and aborted reads and writes, PostgreSQL's
# shutdowns. Connections that end unannounced are reported by the drivers.
LOSSES = (1053, 1152, 1158, 1159, 1160, 1161, 1317, 1927, "57P01", "57P02", "57P03", "08003", "08006")
# PostgreSQL's codes for a privilege that the role lacks, and for a server (a standby), database or role that is
# read-only.
FORBIDDEN = ("42501", "25006")
DENIED = ("42501", 1142, 1143)  # a privilege on a table or column; MariaDB's are reported as a server's errors
FULL = (1021, 1114, "53100")  # the server's disk, or in MariaDB a table
# Detects a machine that disappeared; TCP's defaults take hours.
POSTGRES_KEEPALIVE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 90_000,
}
T = TypeVar("T")


class Database:
    """One database. `with database.write() as connection:` commits at its end and rolls back on any exception."""

    def __init__(self, url: str, read_only: bool = False) -> None:
        self._url = _with_driver(make_url(url))
        self.shown_url = mask_url(self._url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        if self.is_sqlite and self._url.host:
            raise UsageError(f"an sqlite URL has no host: {self.shown_url}", "three slashes: sqlite:///infer.db")
        if self.is_sqlite and self._url.database in (None, "", ":memory:"):
            raise UsageError("an in-memory database forgets its results", "name a file: sqlite:///infer.db")
        self._read_only = read_only
        self._was_reached = False
        self._engine = self._create_engine()
        self.dialect = self._engine.dialect

    @property
    def url(self) -> str:
        """Return the URL with its password: for opening another connection, never for display."""
        return self._url.render_as_string(hide_password=False)

    @property
    def sqlite_file(self) -> Path | None:
        return Path(self._url.database) if self.is_sqlite and self._url.database else None

    @property
    def readers_block_commits(self) -> bool:
        """Return whether open reads block a commit, as in a SQLite file with a rollback journal.

        SQLite is asked, because closing the file, had we read it ourselves, would release SQLite's own locks on it.
        """
        if not self.is_sqlite:
            return False
        with self.read() as connection:
            return connection.exec_driver_sql("PRAGMA journal_mode").scalar() != "wal"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._translate_errors(), self._connect(self._engine) as connection:
            yield connection

    @contextmanager
    def write(self, wait_limit_s: float = BUSY_TIMEOUT_S) -> Iterator[Connection]:
        """Open a transaction that commits at the end of the `with` block.

        SQLite's lock is waited for up to `wait_limit_s`. Less than the default also limits the wait for a server.
        """
        # SQLite: take the write lock at the start. Upgrading a read lock later fails at once instead of waiting.
        writer = self._engine.execution_options(sqlite_begin="BEGIN IMMEDIATE", sqlite_wait_limit_s=wait_limit_s)
        with self._translate_errors(), self._connect(writer, wait_limit_s) as connection, connection.begin():
            yield connection

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in one transaction, and retry it after a deadlock or a lost connection.

        A commit whose answer was lost may have been done, so `work` must be idempotent.
        """

        def once() -> T:
            with self.write() as connection:
                return work(connection)

        return self.with_reconnect(once)

    def with_reconnect(self, work: Callable[[], T]) -> T:
        """Call `work`, which opens its own connections, and retry it as `reconnect.with_reconnect` does."""
        return with_reconnect(work)

    def _connect(self, engine: Engine, wait_limit_s: float = BUSY_TIMEOUT_S) -> Connection:
        """Connect, retrying where the server was reached before: it may be restarting."""
        waits_longer = not self.is_sqlite and wait_limit_s >= BUSY_TIMEOUT_S
        backoff = Backoff(None if waits_longer else wait_limit_s)
        while True:
            try:
                connection = engine.connect()
            except (ProgrammingError, TypeError, ValueError) as error:  # drivers check their options as they connect
                if self._was_reached:
                    raise
                raise self._wrong_option(error) from None
            except DBAPIError as error:
                may_come = "locked" in str(error.orig) if self.is_sqlite else self._was_reached
                if not may_come or not backoff.wait(f"{self.shown_url} can't be reached"):
                    raise
            else:
                self._was_reached = True
                backoff.end()
                return connection

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
            if self._url.get_backend_name() == "postgresql":
                return self._create_postgres_engine()
            return self._create_mariadb_engine()
        except NoSuchModuleError:
            raise UsageError(
                f"no driver for {self._url.drivername!r} databases", "sqlite:///, postgresql:// and mariadb:// work"
            ) from None
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(str(error.name), error.name)
            raise UsageError(f"the driver {error.name!r} is not installed", f"pip install {extra}") from None
        except (TypeError, ValueError, ArgumentError) as error:
            raise self._wrong_option(error) from None

    def _wrong_option(self, error: Exception) -> UsageError:
        what = str(getattr(error, "orig", None) or error).splitlines()[0]
        return UsageError(f"{self.shown_url}: {what}", "the options after ? are those of the database's driver")

    def _create_postgres_engine(self) -> Engine:
        timeout = {} if "connect_timeout" in self._url.query else {"connect_timeout": CONNECT_TIMEOUT_S}
        # Always UTF-8, whatever the database's encoding, PGCLIENTENCODING or the URL are: we encode arrays ourselves.
        # Prepared statements are lost behind a pooler that gives each transaction another session.
        options = {"postgresql_readonly": True} if self._read_only else {}
        engine = create_engine(
            self._url,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args=timeout | POSTGRES_KEEPALIVE | {"client_encoding": "utf8", "prepare_threshold": None},
            execution_options=options,
        )
        from infer_app.database.engine.postgres import WatchedConnection  # psycopg is an extra

        event.listen(
            engine, "do_connect", lambda dialect, record, given, named: WatchedConnection.open(*given, **named)
        )
        return engine

    def _create_mariadb_engine(self) -> Engine:
        # READ COMMITTED as in PostgreSQL: MariaDB's default locks gaps between keys, so that two runs would deadlock.
        limits = {"read_timeout": READ_TIMEOUT_S, "write_timeout": READ_TIMEOUT_S}
        engine = create_engine(
            self._url,
            pool_pre_ping=True,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            connect_args={key: limit for key, limit in limits.items() if key not in self._url.query},
        )
        from infer_app.database.engine.mariadb import CappedConnection  # PyMySQL is an extra

        event.listen(engine, "do_connect", lambda dialect, record, given, named: CappedConnection(*given, **named))
        event.listen(engine, "connect", lambda connection, _: connection.prepare(self._read_only))
        return engine

    def _create_sqlite_engine(self) -> Engine:
        path = self.sqlite_file
        assert path is not None
        engine = create_engine(self._url, creator=lambda: connect_sqlite(path, self._read_only), hide_parameters=True)
        event.listen(engine, "connect", lambda _, record: remember_file(record, path))
        event.listen(engine, "begin", partial(begin_sqlite, path))
        event.listen(engine, "commit", commit_sqlite)
        return engine

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            unavailable = isinstance(error, (OperationalError, InterfaceError)) or type(error) is DatabaseError
            if _code(error) not in FORBIDDEN and (not unavailable or _code(error) in ROW_ERRORS):
                raise  # a wrong statement, which is a bug, or a row that can't be written
            raise self._unavailable(error) from None  # `from None`: the chain may hold the URL with its password
        except sqlite3.Error as error:
            assert self.sqlite_file is not None
            raise DatabaseUnavailable(f"{self.shown_url}: {error}", hint_for(error, self.sqlite_file)) from None

    def _unavailable(self, error: DBAPIError) -> DatabaseUnavailable:
        first_line = (str(error.orig).strip().splitlines() or ["no answer"])[0]
        message = mask_text(first_line, self._url)
        kind = self._kind_of(error)
        hint = hint_for(error.orig, self.sqlite_file) if self.sqlite_file else HINT_SERVER
        if kind is Forbidden or is_denied(error):
            hint = "the role must be allowed to read and write the infer_ tables, and to read the table of [source]"
        elif _code(error) in FULL:
            hint = "free space on the disk of the database server; the next run does the rest"
        return kind(f"{self.shown_url}: {message}", hint)

    def _kind_of(self, error: DBAPIError) -> type[DatabaseUnavailable]:
        code = _code(error)
        if code in DEADLOCKS:
            return Deadlocked
        if code in FORBIDDEN:
            return Forbidden
        # libpq's own errors have no SQLSTATE, and all of them are about the connection.
        is_libpq_error = self._url.get_backend_name() == "postgresql" and code is None
        is_lost = error.connection_invalidated or is_libpq_error or code in LOSSES
        return ConnectionLost if is_lost and self._was_reached else DatabaseUnavailable


def _with_driver(url: URL) -> URL:
    """Return the URL with an explicit driver: SQLAlchemy's default drivers change between its versions."""
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))


def is_denied(error: DBAPIError) -> bool:
    """Return whether the role lacks a privilege on a table."""
    return _code(error) in DENIED


def _code(error: DBAPIError) -> object:
    """Return MariaDB's error number or PostgreSQL's SQLSTATE, or None where there is neither."""
    cause = error.orig
    if cause is not None and type(cause).__module__.startswith("pymysql"):
        return cause.args[0] if cause.args else None
    return getattr(cause, "sqlstate", None)
