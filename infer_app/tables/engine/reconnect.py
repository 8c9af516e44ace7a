"""Retries after a deadlock or while a database is unavailable, and the errors that allow them."""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from infer_app.base.errors import DatabaseUnavailable, MachineFailure

OUTAGE_S = 300.0  # a restart or an upgrade of a server; a longer one ends the run
BUSY_TIMEOUT_S = 60  # for a lock of a file
SILENCE_S = 30.0  # without an answer to a statement, after which a second connection checks the server
LOCK_LIMIT_S = 300.0  # for a lock that another session holds, perhaps one that was left open
MAX_PAUSE_S = 5.0
DEADLOCK_TRIES = 10
T = TypeVar("T")
log = logging.getLogger(__name__)


class Deadlocked(DatabaseUnavailable):
    """A transaction was ended by a deadlock or a lock timeout; a retry may succeed."""


class Forbidden(DatabaseUnavailable):
    """The role lacks a privilege or a row policy refuses it, or the server is read-only; a retry fails too."""


class DiskFull(DatabaseUnavailable):
    """The disk of the database is full."""

    exit_code = MachineFailure.exit_code


class ConnectionLost(DatabaseUnavailable):
    """The connection was lost; a retry may succeed. Whether a commit in flight was done is unknown."""


class Backoff:
    """Growing pauses between tries, until `limit_s` has passed since the first failure; None stands for OUTAGE_S."""

    def __init__(self, limit_s: float | None = None) -> None:
        self._limit_s = OUTAGE_S if limit_s is None else limit_s
        self._pause_s = 0.05
        self._since: float | None = None

    def wait(self, problem: str) -> bool:
        """Sleep and return True, or return False once the limit has passed."""
        now = time.monotonic()
        is_first, self._since = self._since is None, self._since or now
        left_s = self._since + self._limit_s - now
        if left_s <= 0:
            return False
        if is_first:
            log.warning("%s: trying again for %.0f s", problem, self._limit_s)
        time.sleep(min(left_s, self._pause_s * random.uniform(0.5, 1)))
        self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s)
        return True

    def end(self) -> None:
        """Log how long the outage lasted, if there was one."""
        if self._since is not None:
            log.warning("it is back after %.1f s", time.monotonic() - self._since)


def with_reconnect(work: Callable[[], T]) -> T:
    """Call `work`, retrying after a deadlock or a lost connection; `work` must be idempotent."""
    outage, deadlocks = Backoff(), 0
    while True:
        try:
            return work()
        except Deadlocked:
            deadlocks += 1
            if deadlocks == DEADLOCK_TRIES:
                raise
            time.sleep(random.uniform(0, 0.02 * 2**deadlocks))
        except ConnectionLost as error:
            if not outage.wait(str(error)):
                raise
