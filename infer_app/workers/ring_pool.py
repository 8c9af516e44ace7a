"""Loaders and a device around a ring: chunks in, results out in any order, whatever happens to a process.

    chunks ─► loaders ─ Loaded ─► here ─ a task with a slot ─► device ─ ChunkResult ─► the caller

Only refs and results travel through pipes. Everything that waits waits here, in one place and for all of them. What
the device's process had in hand when it died begins again with a loader, since its slots may be in use by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from infer_app.domain import Chunk, ChunkResult, Loaded
from infer_app.workers.pool import TASKS_AHEAD, WorkerPool, wait
from infer_app.workers.retry_policy import Task
from infer_app.workers.shared_ring import Ring
from infer_app.workers.worker_process import OpenHandler


def slots_for(num_loaders: int) -> int:
    """One for each task that a loader can have, those the device has not yet copied, and one that waits for it."""
    return TASKS_AHEAD * num_loaders + TASKS_AHEAD + 1


class RingPool:
    """`num_loaders` processes that fill slots, and one that predicts. Kept between runs."""

    def __init__(
        self,
        ring: Ring,
        open_loader: OpenHandler[Loaded],
        num_loaders: int,
        open_device: OpenHandler[ChunkResult],
        timeout_s: float,
    ) -> None:
        self._ring = ring
        self._loaders = WorkerPool(open_loader, num_loaders, timeout_s, ring)
        self._device = WorkerPool(open_device, 1, timeout_s, ring, filled_by=self._loaders)

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Every ref of every chunk is in exactly one result; the broken ones of a chunk come before the others.

        A chunk has at most as many refs as a slot has rows. Raises as `WorkerPool.run` does.
        """
        pending = iter(chunks)
        self._loaders.start_run()
        self._device.start_run()
        try:
            while self._feed(pending):
                for answers in wait((self._loaders, self._device)):
                    yield from (self._pass_on(task, answer) for task, answer in answers)
        finally:
            self._loaders.cancel()
            self._device.cancel()

    def pids(self) -> list[int]:
        return [*self._loaders.pids(), *self._device.pids()]

    def close(self) -> None:
        """Ends the processes; the next run starts others."""
        self._loaders.close()
        self._device.close()

    def _feed(self, pending: Iterator[Chunk]) -> bool:
        """Whether anything is left to do."""
        is_loading = self._loaders.dispatch(pending)
        if is_loading and not self._device.pids():
            self._device.start()  # it takes seconds to open, and nothing is loaded for it yet
        return self._device.dispatch(iter(())) or is_loading

    def _pass_on(self, task: Task, answer: Loaded | ChunkResult) -> ChunkResult:
        """What the caller may know; loaded images wait for the device, in the order in which they came."""
        if not isinstance(answer, Loaded):
            return answer
        if answer.chunk.refs:
            self._device.queue.append(replace(task, chunk=answer.chunk))
        elif answer.chunk.slot is not None:
            self._ring.release(answer.chunk.slot)
        return answer.result
