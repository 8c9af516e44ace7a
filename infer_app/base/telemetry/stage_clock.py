"""CPU, wall and waiting time of each stage, measured in the process that runs it, and a count of dim images."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from infer_app.base.domain import ChunkResult

STAGES = (
    "select",
    "read",
    "decode",
    "transform",
    "collate",
    "copy",
    "model",
    "outputs",
    "write",
)
WAITING_STAGES = ("select", "read", "write")  # for database or storage; the others only for a core


class StageClock:
    """Seconds by stage: CPU time, wall time, and the part of the wall time that the stage waited.

    Waiting for a core does not count as waiting: the kernel gave that time to other processes. `cpu_clock` is the
    process's clock, since a model may run several threads; pass time.thread_time if the process does other work too.
    """

    def __init__(self, cpu_clock: Callable[[], float] = time.process_time) -> None:
        self.cpu_seconds: dict[str, float] = defaultdict(float)
        self.wall_seconds: dict[str, float] = defaultdict(float)
        self.wait_seconds: dict[str, float] = defaultdict(float)
        self.num_dim = 0  # images of 16 bits that use at most 12
        self._cpu_clock = cpu_clock

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        runnable = _runnable_seconds() if stage in WAITING_STAGES else 0.0
        start, cpu = time.monotonic(), self._cpu_clock()
        try:
            yield
        finally:
            cpu, wall = self._cpu_clock() - cpu, time.monotonic() - start
            self.cpu_seconds[stage] += cpu
            self.wall_seconds[stage] += wall
            if stage in WAITING_STAGES:
                self.wait_seconds[stage] += max(0.0, wall - (_runnable_seconds() - runnable))

    def stamp(self, result: ChunkResult) -> ChunkResult:
        """Return the result with what was measured in this process."""
        return replace(
            result,
            cpu_seconds=dict(self.cpu_seconds),
            wall_seconds=dict(self.wall_seconds),
            wait_seconds=dict(self.wait_seconds),
            worker=os.getpid(),
            num_dim=self.num_dim,
        )


def queued_seconds() -> float:
    """Return how long this thread has waited for a core since it started: other programs had them."""
    statistics = _scheduler_statistics(threading.get_native_id())
    return 0.0 if statistics is None else int(os.pread(statistics, 64, 0).split()[1]) / 1e9


def _runnable_seconds() -> float:
    """Return how long this thread has run or waited for a core since it started."""
    return time.thread_time() + queued_seconds()


@cache  # kept open: 2 µs per read. The key is the thread, since a forked process has different threads
def _scheduler_statistics(thread: int) -> int | None:
    try:
        return os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
