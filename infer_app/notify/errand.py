"""Something done in a thread of its own, for which nobody waits longer than he likes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from infer_app.notify.post import Undelivered

LOOK_EVERY_S = 0.05


class BackgroundTask:
    """Begun when it is made. Left behind where it hangs (in a look-up of a name, on a server that trickles its answer)
    it ends with the process: so it says nothing itself, `problem` does.
    """

    def __init__(self, name: str, do: Callable[[], None]) -> None:
        self.name = name
        self.problem: str | None = "no answer"
        self.began = time.monotonic()
        self._do = do
        self._ended = threading.Event()
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError as error:  # the machine has no more of them
            self.problem = str(error)
            self._ended.set()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def wait(self, until: float) -> None:
        """Not beyond `until`, of time.monotonic()."""
        self._ended.wait(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        try:
            self._do()
            self.problem = None
        except Exception as error:  # not even a bug in here may make a run look failed
            self.problem = str(error) if isinstance(error, Undelivered) else type(error).__name__
        self._ended.set()


def wait_for(errands: Sequence[BackgroundTask], until: float, is_over: Callable[[], bool]) -> None:
    """Until all have ended, `until` passes or `is_over`."""
    while not is_over() and time.monotonic() < until:
        going_on = [errand for errand in errands if not errand.has_ended]
        if not going_on:
            return
        going_on[0].wait(min(until, time.monotonic() + LOOK_EVERY_S))
