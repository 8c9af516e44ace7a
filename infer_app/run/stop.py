"""Ends a run early after a signal or a time limit; chunks in flight are finished and committed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from types import FrameType
from typing import TypeVar

from infer_app.base.errors import EXIT_OK, EXIT_TIME_BUDGET, InferError, Interrupted, UsageError

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_S = 20  # to finish the chunks in flight; a scheduler kills after 30
RECORD_S = 3  # then, to record the end of the run in a database that may not answer


class Stop:
    """Ends an iterable between two items once a signal came or the deadline passed.

    Within `with`, Interrupted is raised wherever the program is at a second signal, or `grace_s` after the first:
    chunks in flight are then lost and their images stay pending. `record_s` later it is raised once more.
    """

    def __init__(self, deadline_s: float | None = None, *, grace_s: int = GRACE_S, record_s: int = RECORD_S) -> None:
        self._grace_s, self._record_s = grace_s, record_s
        self._deadline = None if deadline_s is None else time.monotonic() + deadline_s
        self._signal: int | None = None
        self._cut_short = False
        self._interrupted = False

    @property
    def exit_code(self) -> int:
        """128 + N after signal N, 75 if the deadline ended the run early, else 0."""
        if self._signal is not None:
            return 128 + self._signal
        return EXIT_TIME_BUDGET if self._cut_short else EXIT_OK

    def until(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items until a signal came or the deadline passed."""
        for item in items:
            if self._signal is not None or self._is_late():
                self._cut_short = True
                return
            yield item

    def raise_if_signalled(self) -> None:
        """Raise Interrupted after a signal."""
        if self._signal is not None:
            raise Interrupted(self._signal)

    def check(self, waiting_for: InferError) -> None:
        """Raise Interrupted after a signal, and `waiting_for` once the deadline has passed."""
        self.raise_if_signalled()
        if self._is_late():
            raise waiting_for

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def __enter__(self) -> Stop:
        self._previous = {number: signal.signal(number, self._on_signal) for number in (*SIGNALS, signal.SIGALRM)}
        return self

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._signal is not None:
            signal.alarm(0 if self._interrupted else self._record_s)
            self._interrupted = True
            raise Interrupted(self._signal)
        self._signal = number
        signal.alarm(self._grace_s)


def seconds_until(clock: str, now: datetime | None = None) -> float:
    """Return the seconds from now to the next HH:MM of the local clock, also if that is changed in between.

    Raises UsageError if it isn't a time.
    """
    now = now or datetime.now()
    try:
        at = datetime.strptime(clock, "%H:%M")
    except ValueError:
        raise UsageError(f"--finish-by {clock!r} is not a time", "write it as 05:30") from None
    today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    days = (today + timedelta(days=number) for number in (0, 1))
    times = [day.replace(fold=fold).timestamp() for day in days for fold in (0, 1)]  # an hour may come twice
    return min(time for time in times if time > now.timestamp()) - now.timestamp()
