"""Suspend a run without a lock on the database, which a stopped process would keep."""

import os
import signal
import sqlite3
import time
from contextlib import closing

ATTEMPTS = 500


def suspend(run, sqlite_file):
    """Stop all processes of a run between two transactions."""
    for _ in range(ATTEMPTS):
        os.killpg(run.pid, signal.SIGSTOP)
        if _is_unlocked(sqlite_file):
            return
        os.killpg(run.pid, signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError("the database was locked at every attempt")


def _is_unlocked(sqlite_file):
    try:
        with closing(sqlite3.connect(sqlite_file, timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    return True
