"""Connections for reading or writing, each in one transaction, and the translation of the drivers' errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)

from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.packages import install, install_packages
from infer_app.base.settings.masks import mask_text, mask_url
from infer_app.tables.engine.backend import Backend
from infer_app.tables.engine.reconnect import (
    BUSY_TIMEOUT_S,
    Backoff,
    ConnectionLost,
    Deadlocked,
    DiskFull,
    Forbidden,
    with_reconnect,
)

T = TypeVar("T")
PAUSE_S = 0.03
# The class in a file of this package, by the first part of a URL. Each is imported once it is used: a run saves what
# SQLAlchemy has for the other databases. A further one is a file of its own and a line here.
_CLASSES = {
    "sqlite": "sqlite:SQLite",
    "postgres": "postgresql:PostgreSQL",
    "postgresql": "postgresql:PostgreSQL",
    "mysql": "mysql:MySQL",
    "mariadb": "mysql:MySQL",
}
_in_use: dict[str, Backend] = {}  # by its class


class Database:
    """One database. `with database.write() as connection:` commits at its end and rolls back on any exception."""

    def __init__(self, url: str, read_only: bool = False, waits: bool = False) -> None:
        """Make a database; with `waits` a server that was never reached is waited for, unless it refuses the login."""
        parsed = make_url(url)
        self.backend = backend_named(parsed)
        # With an explicit driver: SQLAlchemy's default drivers change between its versions.
        self._url = parsed.set(drivername=self.backend.drivers.get(parsed.drivername, parsed.drivername))
        self.shown_url = mask_url(self._url)
        self.backend.check_url(self._url, self.shown_url)
        self._read_only = read_only
        self._was_reached, self._waits = False, waits
        self._engine = self._create_engine()
        self.dialect = self._engine.dialect

    @property
    def url(self) -> str:
        """Return the URL with its password: for opening another connection, never for display."""
        return self._url.render_as_string(hide_password=False)

    @property
    def file(self) -> Path | None:
        """Return the file of a database that is one on this machine."""
        return self.backend.file_of(self._url)

    @property
    def readers_block_commits(self) -> bool:
        """Return whether open reads block a commit, as in a SQLite file with a rollback journal."""
        if self.file is None:
            return False
        with self.read() as connection:
            return self.backend.readers_block_commits(connection)

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

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Return what `question` reads over one connection, and ask it again after a deadlock or a lost connection."""

        def once() -> T:
            with self.read() as connection:
                return question(connection)

        return self.with_reconnect(once)

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in one transaction, and retry it after a deadlock or a lost connection.

        A commit whose answer was lost may have been done, so `work` must be idempotent.
        """

        def once() -> T:
            with self.write() as connection:
                return work(connection)

        return self.with_reconnect(once)

    def pause(self) -> None:
        """Let another program write to a SQLite file, between two of many transactions: it waits for it by sleeping."""
        if self.file is not None:
            sleep(PAUSE_S)

    def with_reconnect(self, work: Callable[[], T]) -> T:
        """Call `work`, which opens its own connections, and retry it as `reconnect.with_reconnect` does."""
        return with_reconnect(work)

    def _connect(self, engine: Engine, wait_limit_s: float = BUSY_TIMEOUT_S) -> Connection:
        """Connect, retrying where the server was reached before: it may be restarting."""
        waits_longer = self.backend.restarts and wait_limit_s >= BUSY_TIMEOUT_S
        backoff = Backoff(None if waits_longer else wait_limit_s)
        while True:
            try:
                connection = engine.connect()
            except (DBAPIError, TypeError, ValueError, AttributeError) as error:  # drivers check options here
                if not isinstance(error, DBAPIError) or self.backend.is_option_error(error):
                    if self._was_reached:
                        raise
                    raise self._wrong_option(error) from None
                was_there = self._was_reached or (self._waits and self.backend.is_away(error))
                may_come = (self.backend.restarts and was_there) or self.backend.is_busy(error)
                if not may_come or not backoff.wait(f"{self.shown_url} can't be reached"):
                    raise
            else:
                self._was_reached = True
                backoff.end()
                return connection

    def is_denied(self, error: DBAPIError) -> bool:
        """Return whether the role lacks a privilege on a table."""
        return self.backend.code_of(error) in self.backend.denied

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create_engine(self) -> Engine:
        try:
            return self.backend.create_engine(self._url, read_only=self._read_only)
        except NoSuchModuleError:
            raise UsageError(*no_driver(self._url)) from None
        except ModuleNotFoundError as error:
            known = self.backend.extras.get(str(error.name))
            hint = install(known) if known else install_packages(str(error.name))
            raise UsageError(f"the driver {error.name!r} is not installed", hint) from None
        except (TypeError, ValueError, ArgumentError) as error:
            raise self._wrong_option(error) from None

    def _wrong_option(self, error: Exception) -> UsageError:
        what = str(getattr(error, "orig", None) or error).splitlines()[0]
        what = "one of its options has a value of a wrong kind" if isinstance(error, AttributeError) else what
        return UsageError(f"{self.shown_url}: {what}", "the options after ? are those of the database's driver")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            code = self.backend.code_of(error)
            unavailable = isinstance(error, (OperationalError, InterfaceError)) or type(error) is DatabaseError
            unavailable |= error.connection_invalidated or code in self.backend.losses
            if code not in self.backend.forbidden and (not unavailable or _is_row_error(error)):
                raise  # a wrong statement, which is a bug, or a row that can't be written
            raise self._unavailable(error) from None  # `from None`: the chain may hold the URL with its password
        except sqlite3.Error as error:  # of a commit, or of opening a file
            error_type = DiskFull if self.backend.is_full(error, self.file) else DatabaseUnavailable
            raise error_type(f"{self.shown_url}: {error}", self.backend.hint_for(error, self.file)) from None

    def _unavailable(self, error: DBAPIError) -> DatabaseUnavailable:
        first_line = (str(error.orig).strip().splitlines() or ["no answer"])[0]
        message = mask_text(first_line, self._url)
        error_type = self._error_type(error)
        return error_type(f"{self.shown_url}: {message}", self.backend.hint_for(error, self.file))

    def _error_type(self, error: DBAPIError) -> type[DatabaseUnavailable]:
        code = self.backend.code_of(error)
        if code in self.backend.deadlocks:
            return Deadlocked
        if code in self.backend.forbidden:
            return Forbidden
        if self.backend.is_full(error, self.file):
            return DiskFull
        is_lost = self.backend.is_connection_lost(error)
        return ConnectionLost if is_lost and self._was_reached else DatabaseUnavailable


def backend_of(connection: Connection) -> Backend:
    return _backend(_CLASSES[connection.dialect.name])


def backend_named(url: URL) -> Backend:
    """Return the backend of a URL. Raises UsageError if there is none."""
    known = _CLASSES.get(url.get_backend_name())
    if known is None:
        raise UsageError(*no_driver(url))
    return _backend(known)


def _backend(place: str) -> Backend:
    if place not in _in_use:
        module, _, name = place.partition(":")
        _in_use[place] = getattr(import_module(f"infer_app.tables.engine.{module}"), name)()
    return _in_use[place]


def no_driver(url: URL) -> tuple[str, str]:
    """Return message and hint of the error that a URL's database is not supported."""
    return f"no driver for {url.drivername!r} databases", "sqlite:///, postgresql:// and mariadb:// work"


def is_file(url: str) -> bool:
    """Return whether a database is a file on this machine."""
    parsed = make_url(url)
    return backend_named(parsed).file_of(parsed) is not None


def _is_row_error(error: DBAPIError) -> bool:
    """Return whether an error is about a row, in any database: a source's passes through the database of results."""
    return any(backend.code_of(error) in backend.row_errors for backend in _in_use.values())
