"""When a run should end early: a signal or a time budget. What is in flight is finished and committed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from types import FrameType
from typing import TypeVar

from infer_app.errors import EXIT_OK, EXIT_TIME_BUDGET, InferError, Interrupted, UsageError

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_S = 20  # for what is in flight; a scheduler kills after 30
LAST_WORDS_S = 3  # then, to say how the run ended to a database that may not answer


class Stop:
    """Asked between chunks: `until` ends its iterable once a signal came or the deadline passed.

    Within `with`, a second signal or GRACE_S seconds after the first raise Interrupted wherever the program is: what
    is in flight then is lost and stays pending. LAST_WORDS_S later that is raised once more.
    """

    def __init__(self, deadline_s: float | None = None) -> None:
        self._deadline = None if deadline_s is None else time.monotonic() + deadline_s
        self._signal: int | None = None
        self._cut_short = False
        self._interrupted = False

    @property
    def exit_code(self) -> int:
        """128 + N after a signal, 75 when the deadline left something undone, else 0."""
        if self._signal is not None:
            return 128 + self._signal
        return EXIT_TIME_BUDGET if self._cut_short else EXIT_OK

    def until(self, items: Iterable[T]) -> Iterator[T]:
        """The items up to the moment of the stop."""
        for item in items:
            if self._signal is not None or self._is_late():
                self._cut_short = True
                return
            yield item

    def check(self, waiting_for: InferError) -> None:
        """Raises Interrupted after a signal, and `waiting_for` once the deadline has passed."""
        if self._signal is not None:
            raise Interrupted(self._signal)
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
            signal.alarm(0 if self._interrupted else LAST_WORDS_S)
            self._interrupted = True
            raise Interrupted(self._signal)
        self._signal = number
        signal.alarm(GRACE_S)


def seconds_until(clock: str, now: datetime | None = None) -> float:
    """Seconds from now to the next HH:MM of this machine's clock; UsageError when it isn't one."""
    now = now or datetime.now()
    try:
        at = datetime.strptime(clock, "%H:%M")
    except ValueError:
        raise UsageError(f"--finish-by {clock!r} is not a time", "write it as 05:30") from None
    target = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return ((target if target > now else target + timedelta(days=1)) - now).total_seconds()
