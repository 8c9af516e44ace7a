"""SQLite's own ways: how a file is opened, and how a lock is waited for."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from infer_app.errors import DatabaseUnavailable

BUSY_TIMEOUT_S = 60
FILE = "infer_file"  # what a connection's file was when it was opened


def connect_sqlite(path: Path, read_only: bool) -> sqlite3.Connection:
    """A read-only connection never writes, and leaves no file behind that wasn't there."""
    mode = _read_mode(path) if read_only else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # SQLite waits for a lock without hearing a signal, so not for long: `begin_sqlite` waits again.
    connection = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
    # One undecodable name must not end a run: it is handed on, and found or not found as the file system says.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    if read_only:
        connection.execute("PRAGMA query_only=ON")
        return connection
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA journal_mode=WAL")  # kept by the file; one that others made keeps theirs
    is_wal = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    # In WAL mode NORMAL is safe against a crash of the program; after a power cut the last commits may be gone, whole.
    # With a rollback journal a power cut could leave half of one.
    connection.execute(f"PRAGMA synchronous={'NORMAL' if is_wal else 'FULL'}")
    return connection


def remember_file(record: ConnectionPoolEntry, path: Path) -> None:
    record.info[FILE] = os.stat(path)  # noqa: PTH116 - as in `_check_file`


def begin_sqlite(path: Path, connection: Connection) -> None:
    """Run what the execution option `sqlite_begin` says, or begin a read that no writer can interrupt.

    Raises DatabaseUnavailable for a write into a file that was replaced or removed since it was opened.
    """
    options = connection.get_execution_options()
    if "sqlite_begin" in options:
        _wait_for_lock(connection, options["sqlite_begin"])
        _check_file(path, connection.info[FILE])
        return
    connection.exec_driver_sql("BEGIN")
    _wait_for_lock(connection, "SELECT 1 FROM sqlite_master LIMIT 1")  # takes the lock that BEGIN leaves for later


def commit_sqlite(connection: Connection) -> None:
    """Commit once nobody reads: with a rollback journal readers keep a writer out, and in WAL mode nobody does."""
    _wait_for_lock(connection, "COMMIT")


def _wait_for_lock(connection: Connection, statement: str) -> None:
    """Execute the statement, again and again while another connection has the lock, for `sqlite_patience_s`."""
    patience_s = connection.get_execution_options().get("sqlite_patience_s", BUSY_TIMEOUT_S)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.exec_driver_sql(statement).close()
        except OperationalError as error:
            if "locked" not in str(error.orig) or time.monotonic() > deadline:
                raise
        else:
            return


def _check_file(path: Path, opened: os.stat_result) -> None:
    """SQLite itself would go on in a file that nobody can open any more, and whose log becomes the new one's."""
    try:
        is_same = os.path.samestat(os.stat(path), opened)  # noqa: PTH116 - a Path costs more than the call
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise DatabaseUnavailable(
            f"sqlite:///{path} was replaced or removed while it was open",
            "what was written since is lost with the old file: run again once nobody moves it",
        )


def _read_mode(path: Path) -> str:
    """How to open a file without changing a byte of it.

    Opening and closing a database that a crash left behind would write its log into it, so that one is opened with
    mode=ro. That mode can't remove the empty log it makes itself, so it is not for the others; and in a folder where
    nothing may be written it can't make one: a file that needs one is then read as one that nobody else writes.
    What a crash left in a rollback journal is put back by whoever opens the file next: it can't be read before.
    """
    if path.with_name(f"{path.name}-wal").exists():
        return "ro"
    if not os.access(path.parent, os.W_OK):
        return "ro&immutable=1" if _keeps_log(path) else "ro"
    return "rwc" if os.access(path, os.W_OK) else "ro"


def _keeps_log(path: Path) -> bool:
    """Whether it is in WAL mode: https://sqlite.org/fileformat.html, bytes 18 and 19."""
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError:
        return False  # SQLite says why it can't be read
