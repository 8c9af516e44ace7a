"""What is done again when a database was away or let another transaction pass, and for how long."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from infer_app.errors import DatabaseUnavailable

OUTAGE_S = 300.0  # a restart or an upgrade of a server; a longer one ends the run
SILENCE_S = 30.0  # of a statement's server, after which it is asked whether it is there
LOCK_LIMIT_S = 300.0  # for a lock that another session holds, perhaps one that somebody forgot to end
MAX_PAUSE_S = 5.0
DEADLOCK_TRIES = 10
T = TypeVar("T")
log = logging.getLogger(__name__)


class Deadlocked(DatabaseUnavailable):
    """The same again may succeed."""


class Forbidden(DatabaseUnavailable):
    """Not allowed to this role, or not now: the same again fails too. PostgreSQL says so of a row's policy as well."""


class ConnectionLost(DatabaseUnavailable):
    """The same again may succeed; whether a commit that was in flight was done is not known."""


class Patience:
    """Pauses that grow, until `limit_s` has passed since the first failure; OUTAGE_S if None."""

    def __init__(self, limit_s: float | None = None) -> None:
        self._limit_s = OUTAGE_S if limit_s is None else limit_s
        self._pause_s = 0.05
        self._since: float | None = None

    def wait(self, what: str) -> bool:
        """Sleeps and returns True, or False once the patience is at its end."""
        now = time.monotonic()
        is_first, self._since = self._since is None, self._since or now
        left_s = self._since + self._limit_s - now
        if left_s <= 0:
            return False
        if is_first:
            log.warning("%s: trying again for %.0f s", what, self._limit_s)
        time.sleep(min(left_s, self._pause_s * random.uniform(0.5, 1)))
        self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s)
        return True

    def end(self) -> None:
        """What was waited for has come."""
        if self._since is not None:
            log.warning("it is back after %.1f s", time.monotonic() - self._since)


def with_reconnect(work: Callable[[], T]) -> T:
    """What `work` returns, which bears being repeated: after a deadlock, and when the connection was lost."""
    outage, deadlocks = Patience(), 0
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
