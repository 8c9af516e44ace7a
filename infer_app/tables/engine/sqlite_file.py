"""SQLite's connections: how a file is opened, and how a lock is waited for."""

import os
import shlex
import shutil
import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from infer_app.base.errors import DatabaseUnavailable
from infer_app.tables.engine.reconnect import BUSY_TIMEOUT_S

LEAST_FREE_BYTES = 1 << 20  # on the disk: a transaction needs some
HINT_FOLDER = "does the file's folder exist, and is it writable?"
HINT_LOCKED = "another program holds the file: close it there (`fuser FILE` names it); the next run catches up"
HINT_SPACE = "the disk is full: free some space, then run again; what was committed stays"
HINT_DAMAGED = (
    "is it open by another path too, as of a container or a bind mount? Use one path; else it is damaged: restore a"
    " backup, or save what can be read: sqlite3 FILE .recover"
)
HINT_DISK = "is its disk in order, and is it open by this path only, not by that of a container or a bind mount too?"

FILE = "infer_file"  # key of the os.stat of a connection's file when it was opened


def connect_sqlite(path: Path, read_only: bool) -> sqlite3.Connection:
    """Open a connection; a read-only one never writes, and leaves no new file behind.

    Raises DatabaseUnavailable for writing into files of which one is read-only: SQLite would leave a read-only log.
    """
    if not read_only:
        check_writable(path)
    mode = _read_mode(path) if read_only else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # While SQLite waits for a lock, Python handles no signal. So the timeout is short, and `_wait_for_lock` repeats it.
    connection = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
    # One undecodable file name must not end a run: it is passed on, and the file system decides whether it exists.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    if read_only:
        connection.execute("PRAGMA query_only=ON")
        return connection
    connection.execute("PRAGMA foreign_keys=ON")  # of SQLite alone a setting of each connection
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA journal_mode=WAL")  # stored in the file; an existing database keeps its mode
    is_wal = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    # In WAL mode NORMAL survives a crash of the program, and a power cut loses only whole commits, the last ones.
    # With a rollback journal a power cut could leave a partial commit, so that one needs FULL.
    connection.execute(f"PRAGMA synchronous={'NORMAL' if is_wal else 'FULL'}")
    return connection


def check_writable(path: Path) -> None:
    """Raise DatabaseUnavailable, naming the file, if the database, its log or its folder is read-only."""
    log, shared = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm"))
    for file in (path, log, shared, *([] if log.exists() else [path.parent])):
        # Checked twice: the last program to close the database deletes its log, perhaps between two checks.
        if all(file.exists() and not os.access(file, os.W_OK) for _ in range(2)):
            hint = f"make it writable for this user: chmod u+w {shlex.quote(str(file))}; or is its disk read-only?"
            raise DatabaseUnavailable(f"{file} is read-only", hint)


_HINTS = {  # by the code of SQLite; HINT_FOLDER for others
    sqlite3.SQLITE_CORRUPT: HINT_DAMAGED,
    sqlite3.SQLITE_NOTADB: HINT_DAMAGED,
    sqlite3.SQLITE_BUSY: HINT_LOCKED,
    sqlite3.SQLITE_FULL: HINT_SPACE,
    sqlite3.SQLITE_IOERR: HINT_DISK,
    sqlite3.SQLITE_ERROR: "",  # of the statement, which the message names
}


def hint_for(error: BaseException | None, path: Path) -> str:
    """Return what to do about an error of SQLite, whose message says neither which disk is full nor that one is."""
    hint = _HINTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, HINT_FOLDER)
    return HINT_SPACE if hint in (HINT_FOLDER, HINT_DISK) and is_full(error, path) else hint


def is_full(error: BaseException | None, path: Path) -> bool:
    """Return whether an error comes of a disk with too little space for a transaction."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FULL):
        return bool(code == sqlite3.SQLITE_FULL)
    try:
        return shutil.disk_usage(path.parent).free < LEAST_FREE_BYTES
    except OSError:
        return False  # SQLite reports why the folder can't be read


def remember_file(record: ConnectionPoolEntry, path: Path) -> None:
    """Record which file a connection was opened on, for `_check_file`."""
    record.info[FILE] = os.stat(path)  # noqa: PTH116 - as in `_check_file`


def begin_sqlite(path: Path, connection: Connection) -> None:
    """Run the statement in the execution option `sqlite_begin`, or begin a read that no writer can interrupt.

    Raises DatabaseUnavailable for a write into a file that was replaced or removed after it was opened.
    """
    options = connection.get_execution_options()
    if "sqlite_begin" in options:
        _wait_for_lock(connection, options["sqlite_begin"])
        _check_file(path, connection.info[FILE])
        return
    connection.exec_driver_sql("BEGIN")
    _wait_for_lock(connection, "SELECT 1 FROM sqlite_master LIMIT 1")  # takes the lock that BEGIN leaves for later


def commit_sqlite(connection: Connection) -> None:
    """Commit, waiting for readers: with a rollback journal they block a commit, in WAL mode they don't."""
    _wait_for_lock(connection, "COMMIT")


def _wait_for_lock(connection: Connection, statement: str) -> None:
    """Execute the statement, retrying while another connection holds the lock, for up to `sqlite_wait_limit_s`."""
    wait_limit_s = connection.get_execution_options().get("sqlite_wait_limit_s", BUSY_TIMEOUT_S)
    deadline = time.monotonic() + wait_limit_s
    while True:
        try:
            connection.exec_driver_sql(statement).close()
        except OperationalError as error:
            if "locked" not in str(error.orig) or time.monotonic() > deadline:
                raise
        else:
            return


def _check_file(path: Path, opened: os.stat_result) -> None:
    """Raise DatabaseUnavailable if the file was replaced or removed.

    SQLite itself would go on writing into the old file, which can't be opened any more, and into the new file's log.
    """
    try:
        is_same = os.path.samestat(os.stat(path), opened)  # noqa: PTH116 - a Path costs more than the call
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise DatabaseUnavailable(
            f"sqlite:///{path} was replaced or removed while it was open",
            "results written since then are lost with the old file: don't move it during a run, and run again",
        )


def _read_mode(path: Path) -> str:
    """Return the `mode` of SQLite's URI that opens a file without changing it.

    Opening and closing a database after a crash would write its log into it, so a file with a log is opened with
    mode=ro. Without a log that mode would leave an empty one behind, so other files are opened with mode=rwc where
    that is permitted. Where it is not, a file in WAL mode is read as immutable: in a read-only folder no log can be
    created, and that of a read-only file would be read-only too, also once the file is writable again.
    A rollback journal left by a crash is rolled back by the next program that opens the file: it can't be read before.
    """
    if path.with_name(f"{path.name}-wal").exists():
        return "ro"
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        return "rwc"
    return "ro&immutable=1" if _keeps_log(path) else "ro"


def _keeps_log(path: Path) -> bool:
    """Return whether the file is in WAL mode: bytes 18 and 19, https://sqlite.org/fileformat.html.

    Not for a file that this process may write: closing it releases the locks of all its connections to the file.
    """
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError:
        return False  # SQLite reports why it can't be read
