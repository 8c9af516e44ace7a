"""A pool of supervised worker processes, which turns chunks into results, in any order, and survives their crashes.

    chunks ─► load ─ Loaded ─► pool ─ the task with its slot ─► predict ─ ChunkResult ─► the caller

A pool has one stage, whose workers run a chunk to completion, or two stages that share a ring of slots. Each worker
has its own pipe and there is no shared queue, so a crash can't lose another worker's messages or leave a lock held.
Only refs and results are sent through pipes. Each worker has at most TASKS_AHEAD tasks, the current one and the next,
so that it never waits for the supervisor. The supervisor waits for all workers at once.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import connection as mp_connection
from typing import TYPE_CHECKING

from infer_app.base.domain import Chunk, ChunkResult, Loaded
from infer_app.base.errors import InferError, ModelError
from infer_app.predict.workers.fork_server import SERVER_GONE, end_process
from infer_app.predict.workers.retry_policy import Decision, ExitLimit, Task, WorkerExit, decide
from infer_app.predict.workers.worker import Worker
from infer_app.predict.workers.worker_process import Copied, Done, Logged, OpenHandler

if TYPE_CHECKING:
    from infer_app.predict.workers.shared_ring import Ring

log = logging.getLogger(__name__)

TASKS_AHEAD = 2
POLL_INTERVAL_S = 0.5  # maximum delay after its time limit until a hanging worker is noticed


def slots_for(num_loaders: int, num_devices: int = 1) -> int:
    """Return the number of slots that a ring needs.

    That is one for each task of a loader, those that a device has not yet copied, and one that waits for a device.
    """
    return TASKS_AHEAD * (num_loaders + num_devices) + 1


# What opens the handler of each worker of a stage; they differ by the device where there are several.
Openers = Sequence[OpenHandler[object]]


class _Stage:
    """The workers of one kind, and their queued tasks, which have priority over new chunks."""

    def __init__(self, openers: Openers) -> None:
        self.openers = openers
        self.workers: list[Worker] = []
        self.queue: deque[Task] = deque()
        self.is_verified = False  # the first worker, which may predict golden images for all, was ready once
        self.held: list[ChunkResult] = []  # until then
        self.exits = ExitLimit(
            "workers", "is there enough memory, or does a step hang? try fewer --workers; the rest stays pending"
        )

    def start_worker(self) -> Worker:
        free = list(self.openers)
        for worker in self.workers:
            free.remove(worker.open_handler)
        self.workers.append(Worker(free[0]))
        return self.workers[-1]

    @property
    def has_room(self) -> bool:
        """Return whether a worker can take another task, or can be started for it."""
        may_start = len(self.workers) < len(self.openers)
        return may_start or any(len(worker.tasks) < TASKS_AHEAD for worker in self.workers)

    def choose_worker(self) -> Worker:
        """Return the worker with the fewest tasks, or a new one if none is idle and another may be started.

        The first one is started again if it died before it was ready, since all results wait for it.
        """
        worker = min(self.workers, key=lambda worker: len(worker.tasks), default=None)
        is_idle = worker is not None and not worker.tasks
        lacks_first = not self.is_verified and all(one.open_handler is not self.openers[0] for one in self.workers)
        if worker is None or lacks_first or (not is_idle and len(self.workers) < len(self.openers)):
            return self.start_worker()
        return worker

    def on_ready(self, worker: Worker) -> None:
        worker.is_ready = True
        self.is_verified |= worker.open_handler is self.openers[0]

    def released(self) -> list[ChunkResult]:
        """Return the results that need wait for nothing any more."""
        if not self.is_verified:
            return []
        results, self.held = self.held, []
        return results

    def next_task(self, pending: Iterator[Chunk]) -> Task | None:
        if self.queue:
            return self.queue.popleft()
        chunk = next(pending, None)
        return None if chunk is None else Task(0, chunk)

    @property
    def is_busy(self) -> bool:
        return any(worker.tasks for worker in self.workers)


class WorkerPool:
    """Supervises worker processes, which are started when there is work and kept between runs."""

    def __init__(self, stages: Sequence[Openers], timeout_s: float, ring: Ring | None = None) -> None:
        """Make a pool; processes start with the first chunk.

        With a `ring` the first stage fills slots, which are passed on with its results, and the next stage copies them.
        A worker is killed if a step takes longer than `timeout_s` for an image.
        """
        self._stages = [_Stage(openers) for openers in stages]
        self._timeout_s = timeout_s
        self._ring = ring
        self._next_number = 0
        self._awake_since = time.monotonic()

    def run(self, chunks: Iterable[Chunk]) -> Generator[ChunkResult, None, None]:
        """Yield results in any order, with every ref of every chunk in exactly one of them.

        A chunk may have several results. Raises the InferError of a worker that could not open its handler, and
        WorkersKilled if workers keep dying.
        """
        pending = iter(chunks)
        for stage in self._stages:
            stage.exits.start_run()
        try:
            while self._dispatch(pending):
                yield from self._poll()
        finally:
            self._cancel()

    @property
    def _workers(self) -> list[Worker]:
        return [worker for stage in self._stages for worker in stage.workers]

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def close(self) -> None:
        """End every worker; a later run starts others."""
        for worker in self._workers:
            worker.process.kill()  # all at once: the kernel takes a while to free the memory of each
        for stage in self._stages:
            while stage.workers:
                stage.workers.pop().end()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self._ring is not None:
            self._ring.close()

    def _dispatch(self, pending: Iterator[Chunk]) -> bool:
        """Give tasks to every worker that has room, and return whether anything is left to do."""
        first, *later = self._stages
        is_left = self._dispatch_to(first, pending)
        for stage in later:
            if is_left and not stage.workers:
                stage.start_worker()  # it takes seconds to open, so start it before anything is loaded
            is_left = self._dispatch_to(stage, iter(())) or is_left
        return is_left

    def _dispatch_to(self, stage: _Stage, pending: Iterator[Chunk]) -> bool:
        """Give tasks to the stage's workers, starting them as needed, and return whether anything may be left.

        No task is given while no slot is free.
        """
        while not self._lacks_slots(stage):
            if not stage.has_room:
                return True
            task = stage.next_task(pending)
            if task is None:
                return stage.is_busy
            self._next_number += 1  # a retry gets a new number, so that an old heartbeat can't refer to it
            stage.choose_worker().give(self._with_slot(replace(task, number=self._next_number)))
        return True

    def _poll(self) -> Iterator[ChunkResult]:
        """Wait for a message or exit of any worker, up to POLL_INTERVAL_S, and yield the results that have arrived."""
        began_at = time.monotonic()
        awaited = [item for worker in self._workers for item in (worker.pipe, worker.process.sentinel)]
        ready = mp_connection.wait(awaited, POLL_INTERVAL_S)
        if time.monotonic() - began_at > 2 * POLL_INTERVAL_S:  # all processes were stopped: Ctrl-Z, docker pause
            self._awake_since = time.monotonic()
        for stage in self._stages:
            for worker in list(stage.workers):
                worker.check_time(self._timeout_s, self._awake_since)
                if worker.needs_attention(ready):
                    stage.held += self._poll_worker(stage, worker)
            yield from stage.released()

    def _poll_worker(self, stage: _Stage, worker: Worker) -> Iterator[ChunkResult]:
        if worker.overdue:
            end_process(worker.process)
        # Checked before its messages are read, so that the last message of a worker that just died is not lost.
        has_ended = worker.overdue is not None or not worker.process.is_alive()
        for message in worker.received():
            if isinstance(message, InferError):
                raise message
            if isinstance(message, Logged):
                message.write(worker=worker.process.pid)
                continue
            stage.on_ready(worker)
            if isinstance(message, Copied):
                copied = message.task
                worker.tasks = deque(self._freed(one) if one.number == copied else one for one in worker.tasks)
            if isinstance(message, Done):
                task = worker.tasks.popleft()
                assert task.number == message.task
                if stage.is_verified:
                    stage.exits.on_result()
                yield self._on_result(stage, task, message.result)
        if has_ended:
            yield from self._on_exit(stage, worker)

    def _on_result(self, stage: _Stage, task: Task, result: Loaded | ChunkResult) -> ChunkResult:
        """Return the result for the caller; queue what was loaded for the next stage."""
        if not isinstance(result, Loaded):
            self._freed(task)
            return task.finish(result)
        loaded = replace(task, chunk=result.chunk)
        if result.chunk.refs:
            self._stages[self._stages.index(stage) + 1].queue.append(loaded)
            return result.result
        self._freed(loaded)
        return task.finish(result.result)

    def _on_exit(self, stage: _Stage, worker: Worker) -> Iterator[ChunkResult]:
        """Decide whether to retry or reject the current task, and queue the others again.

        They restart at the first stage, because their slots are released. The next dispatch starts a replacement.
        """
        ended = worker.exit_status()
        stage.workers.remove(worker)
        worker.end()
        tasks = deque(map(self._freed, worker.tasks))
        chunk = {"chunk": tasks[0].chunk.number} if tasks else {}
        step = ended.current_step.stage or "none"
        log.info("a worker ended with exit code %s, current step: %s", ended.exitcode, step, extra=chunk)
        _check_start(worker, ended)
        if stage.is_verified or not worker.is_ready:  # while results are held, a start that fails ends the run
            stage.exits.on_exit()
        if not tasks:
            return
        task = tasks.popleft()
        decision = decide(task, ended) if worker.is_ready else Decision(retry=(task,))
        self._stages[0].queue.extendleft(reversed([*decision.retry, *tasks]))
        if decision.broken:
            yield ChunkResult(task.chunk.number, (), decision.broken, task.model_indices)

    def _cancel(self) -> None:
        """End the workers that still have a task; after an error or an early end their results are not needed."""
        for stage in self._stages:
            cancelled = [*stage.queue]
            stage.queue.clear()
            stage.held.clear()
            for worker in [worker for worker in stage.workers if worker.tasks]:
                stage.workers.remove(worker)
                worker.end()
                cancelled += worker.tasks
            for task in cancelled:
                self._freed(task)

    def _lacks_slots(self, stage: _Stage) -> bool:
        return self._ring is not None and stage is self._stages[0] and not self._ring.num_free

    def _with_slot(self, task: Task) -> Task:
        """Return the task with a slot: the one that holds its pixels, or a free one to be filled."""
        if self._ring is None or task.chunk.slot is not None:
            return task
        return replace(task, chunk=replace(task.chunk, slot=self._ring.acquire()))

    def _freed(self, task: Task) -> Task:
        """Release the slot of the task, which is no longer read or written, and return the task without it."""
        if self._ring is None or task.chunk.slot is None:
            return task
        self._ring.release(task.chunk.slot)
        return replace(task, chunk=replace(task.chunk, slot=None))


def _check_start(worker: Worker, ended: WorkerExit) -> None:
    if not worker.is_ready and ended.exitcode not in (-signal.SIGKILL, SERVER_GONE):
        raise ModelError(
            f"a worker died while starting (exit code {ended.exitcode})",
            "`infer doctor` checks the model and the libraries it needs",
        )
