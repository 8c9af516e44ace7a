"""A pool of supervised worker processes: chunks in, results out in any order, whatever happens to a process.

    chunks ─► load ─ Loaded ─► pool ─ the task with its slot ─► predict ─ ChunkResult ─► the caller

A pool has one stage, whose workers run a chunk to completion, or two around a ring of slots. One pipe per worker and no
shared queue, so a worker that dies can't take another's messages or a lock with it; only refs and results travel
through pipes. Each worker has at most TASKS_AHEAD tasks: one in hand and one waiting, so that it never waits for the
supervisor. All waiting is done here, for all workers at once.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection as mp_connection
from typing import Any

from infer_app.domain import Chunk, ChunkResult, Loaded
from infer_app.errors import ModelError
from infer_app.workers.fork_server import SERVER_GONE, end_process
from infer_app.workers.retry_policy import Decision, ExitLimit, Task, WorkerExit, decide
from infer_app.workers.shared_ring import Ring
from infer_app.workers.worker import Worker
from infer_app.workers.worker_process import Copied, Done, Failed, Logged, OpenHandler

log = logging.getLogger(__name__)

TASKS_AHEAD = 2
LOOK_EVERY_S = 0.5  # how late a hanging worker is noticed, beyond its time limit


def slots_for(num_loaders: int) -> int:
    """Return the slots that a ring needs.

    One for each task that a loader can have, those the device has not yet copied, and one that waits for it.
    """
    return TASKS_AHEAD * num_loaders + TASKS_AHEAD + 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of worker process of a pool."""

    name: str  # for the log: load, predict
    open_handler: OpenHandler[Any]
    num_workers: int


class _StageWorkers:
    """The workers of a stage, and the tasks that come before new chunks."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.workers: list[Worker] = []
        self.queue: deque[Task] = deque()
        self.exits = ExitLimit(
            "workers", "is there memory enough, or does a step hang? try fewer --workers; the rest stays pending"
        )

    def start_worker(self) -> Worker:
        self.workers.append(Worker(self.stage.open_handler))
        return self.workers[-1]

    @property
    def has_room(self) -> bool:
        """Whether a worker could take one task more, or be started for it."""
        may_start = len(self.workers) < self.stage.num_workers
        return may_start or any(len(worker.tasks) < TASKS_AHEAD for worker in self.workers)

    def choose_worker(self) -> Worker:
        """Return the worker with the fewest tasks, or a new one where all have some and one may be started."""
        worker = min(self.workers, key=lambda worker: len(worker.tasks), default=None)
        is_idle = worker is not None and not worker.tasks
        if worker is None or (not is_idle and len(self.workers) < self.stage.num_workers):
            return self.start_worker()
        return worker

    def next_task(self, pending: Iterator[Chunk]) -> Task | None:
        if self.queue:
            return self.queue.popleft()
        chunk = next(pending, None)
        return None if chunk is None else Task(0, chunk)

    @property
    def is_busy(self) -> bool:
        return any(worker.tasks for worker in self.workers)


class WorkerPool:
    """Processes that are started when there is work and kept between runs."""

    def __init__(self, stages: Sequence[Stage], timeout_s: float, ring: Ring | None = None) -> None:
        """With a `ring` the first stage fills slots, which go on with its results; the next copies out of them.

        A worker is ended whose step takes an image longer than `timeout_s`.
        """
        self._stages = [_StageWorkers(stage) for stage in stages]
        self._timeout_s = timeout_s
        self._ring = ring
        self._next_number = 0
        self._awake_since = time.monotonic()

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Yield results in any order, every ref of every chunk in exactly one; broken ones of a chunk may come first.

        Raises the InferError of a worker that could not open its handler, and WorkersKilled where workers keep dying.
        """
        pending = iter(chunks)
        for stage in self._stages:
            stage.exits.start_run()
        try:
            while self._dispatch(pending):
                yield from self._poll()
        finally:
            self._cancel()

    def pids(self) -> list[int]:
        workers = (worker for stage in self._stages for worker in stage.workers)
        return [worker.process.pid for worker in workers if worker.process.pid is not None]

    def close(self) -> None:
        """End every worker; a later run starts others."""
        for stage in self._stages:
            while stage.workers:
                stage.workers.pop().end()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _dispatch(self, pending: Iterator[Chunk]) -> bool:
        """Give every worker something to do, and return whether anything is left to be done."""
        first, *later = self._stages
        is_left = self._dispatch_to(first, pending)
        for stage in later:
            if is_left and not stage.workers:
                stage.start_worker()  # it takes seconds to open, and nothing is loaded for it yet
            is_left = self._dispatch_to(stage, iter(())) or is_left
        return is_left

    def _dispatch_to(self, stage: _StageWorkers, pending: Iterator[Chunk]) -> bool:
        """Start workers as needed. Nothing is given while no slot is free, though something may be left."""
        while not self._lacks_slots(stage):
            if not stage.has_room:
                return True
            task = stage.next_task(pending)
            if task is None:
                return stage.is_busy
            self._next_number += 1  # a retry gets a number of its own, so that an old heartbeat can't name it
            stage.choose_worker().give(self._with_slot(replace(task, number=self._next_number)))
        return True

    def _poll(self) -> Iterator[ChunkResult]:
        """Wait until any worker has something to say, or LOOK_EVERY_S, and yield the results there are."""
        asleep_at = time.monotonic()
        workers = [worker for stage in self._stages for worker in stage.workers]
        ready = mp_connection.wait([each for one in workers for each in (one.pipe, one.process.sentinel)], LOOK_EVERY_S)
        if time.monotonic() - asleep_at > 2 * LOOK_EVERY_S:  # all processes were stopped: Ctrl-Z, docker pause
            self._awake_since = time.monotonic()
        for stage in self._stages:
            for worker in list(stage.workers):
                worker.check_time(self._timeout_s, self._awake_since)
                if worker.needs_attention(ready):
                    yield from self._poll_worker(stage, worker)

    def _poll_worker(self, stage: _StageWorkers, worker: Worker) -> Iterator[ChunkResult]:
        if worker.overdue:
            end_process(worker.process)
        # Whether it lives is asked before its messages are read: one that dies after its last message is still heard.
        has_ended = worker.overdue is not None or not worker.process.is_alive()
        for message in worker.received():
            if isinstance(message, Failed):
                raise message.error
            if isinstance(message, Logged):
                message.write(worker=worker.process.pid)
                continue
            worker.is_ready = True
            if isinstance(message, Copied):
                worker.tasks = deque(
                    self._freed(task) if task.number == message.task else task for task in worker.tasks
                )
            if isinstance(message, Done):
                task = worker.tasks.popleft()
                assert task.number == message.task
                stage.exits.on_result()
                yield self._on_result(stage, task, message.result)
        if has_ended:
            yield from self._on_exit(stage, worker)

    def _on_result(self, stage: _StageWorkers, task: Task, result: Loaded | ChunkResult) -> ChunkResult:
        """Return what the caller may know; what is loaded goes on to the next stage, in the order in which it came."""
        if not isinstance(result, Loaded):
            self._freed(task)
            return result
        loaded = replace(task, chunk=result.chunk)
        if result.chunk.refs:
            self._stages[self._stages.index(stage) + 1].queue.append(loaded)
        else:
            self._freed(loaded)
        return result.result

    def _on_exit(self, stage: _StageWorkers, worker: Worker) -> Iterator[ChunkResult]:
        """Decide about the current task and queue the others again; the next dispatch starts a replacement.

        They begin again with the first stage: their slots may be in use by then.
        """
        how = worker.how_it_ended()
        stage.workers.remove(worker)
        worker.end()
        tasks = deque(map(self._freed, worker.tasks))
        chunk = {"chunk": tasks[0].chunk.number} if tasks else {}
        current = how.in_hand.stage or "nothing"
        log.info("a worker ended with exit code %s, in hand: %s", how.exitcode, current, extra=chunk)
        _check_start(worker, how)
        stage.exits.on_exit()
        if not tasks:
            return
        task = tasks.popleft()
        decision = decide(task, how) if worker.is_ready else Decision(retry=(task,))
        self._stages[0].queue.extendleft(reversed([*decision.retry, *tasks]))
        if decision.broken:
            yield ChunkResult(task.chunk.number, (), decision.broken, task.chunk.models)

    def _cancel(self) -> None:
        """End the workers that still have a task: after an error or an early end nobody wants the result."""
        for stage in self._stages:
            unwanted = [*stage.queue]
            stage.queue.clear()
            for worker in [worker for worker in stage.workers if worker.tasks]:
                stage.workers.remove(worker)
                worker.end()
                unwanted += worker.tasks
            for task in unwanted:
                self._freed(task)

    def _lacks_slots(self, stage: _StageWorkers) -> bool:
        return self._ring is not None and stage is self._stages[0] and not self._ring.num_free

    def _with_slot(self, task: Task) -> Task:
        """Return the task with a slot: its own, which holds pixels, or a free one to be filled."""
        if self._ring is None or task.chunk.slot is not None:
            return task
        return replace(task, chunk=replace(task.chunk, slot=self._ring.acquire()))

    def _freed(self, task: Task) -> Task:
        """Return the task without its slot, which nobody reads or writes any more."""
        if self._ring is None or task.chunk.slot is None:
            return task
        self._ring.release(task.chunk.slot)
        return replace(task, chunk=replace(task.chunk, slot=None))


def _check_start(worker: Worker, how: WorkerExit) -> None:
    if not worker.is_ready and how.exitcode not in (-signal.SIGKILL, SERVER_GONE):
        raise ModelError(
            f"a worker died while starting (exit code {how.exitcode})",
            "`infer doctor` checks the model and the libraries it needs",
        )
