"""Loaders and a device around a ring: chunks in, results out in any order, whatever happens to a process.

    chunks ─► loaders ─ Loaded ─► here ─ a task with a slot ─► device ─ ChunkResult ─► the caller

Only refs and results travel through pipes. Everything that waits waits here, in one place and for all of them. What
the device's process had in hand when it died begins again with a loader, since its slots may be in use by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from infer_app.domain import Chunk, ChunkResult, Loaded
from infer_app.workers.pool import TASKS_AHEAD, Workers, wait
from infer_app.workers.retry_policy import Task
from infer_app.workers.shared_ring import Ring
from infer_app.workers.worker_process import OpenLane


def slots_for(num_loaders: int) -> int:
    """One for each task that a loader can have, those the device has not yet copied, and one that waits for it."""
    return TASKS_AHEAD * num_loaders + TASKS_AHEAD + 1


class RingWorkers:
    """`num_loaders` processes that fill slots, and one that predicts. Kept between runs."""

    def __init__(
        self,
        ring: Ring,
        open_loader: OpenLane[Loaded],
        num_loaders: int,
        open_device: OpenLane[ChunkResult],
        timeout_s: float,
    ) -> None:
        self._ring = ring
        self._loaders = Workers(open_loader, num_loaders, timeout_s, ring)
        self._device = Workers(open_device, 1, timeout_s, ring, filled_by=self._loaders)

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Every ref of every chunk is in exactly one result; the broken ones of a chunk come before the others.

        A chunk has at most as many refs as a slot has rows. Raises as `Workers.run` does.
        """
        pending = iter(chunks)
        self._loaders.begin()
        self._device.begin()
        try:
            while self._feed(pending):
                for answers in wait((self._loaders, self._device)):
                    yield from (self._pass_on(task, answer) for task, answer in answers)
        finally:
            self._loaders.abandon()
            self._device.abandon()

    def pids(self) -> list[int]:
        return [*self._loaders.pids(), *self._device.pids()]

    def close(self) -> None:
        """Ends the processes; the next run starts others."""
        self._loaders.close()
        self._device.close()

    def _feed(self, pending: Iterator[Chunk]) -> bool:
        """Whether anything is left to do."""
        is_loading = self._loaders.feed(pending)
        if is_loading and not self._device.pids():
            self._device.start()  # it takes seconds to open, and nothing is loaded for it yet
        return self._device.feed(iter(())) or is_loading

    def _pass_on(self, task: Task, answer: Loaded | ChunkResult) -> ChunkResult:
        """What the caller may know; loaded images wait for the device, in the order in which they came."""
        if not isinstance(answer, Loaded):
            return answer
        if answer.chunk.refs:
            self._device.queue.append(replace(task, chunk=answer.chunk))
        elif answer.chunk.slot is not None:
            self._ring.give_back(answer.chunk.slot)
        return answer.result
