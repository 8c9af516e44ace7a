"""Supervised worker processes: chunks in, results out in any order, whatever happens to a worker.

One pipe per worker and no shared queue, so a worker that dies can't take another's messages or a lock with it.
Each worker has at most TASKS_AHEAD tasks: one in hand and one waiting, so that it never waits for the supervisor.

`WorkerPool.run` is the loop of one pool. Where one pool feeds another (loaders a device), `RingPool` has the loop: it
dispatches to both, waits for both and polls both.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection as mp_connection
from multiprocessing.context import ForkServerContext
from typing import Any, Generic, TypeVar

from infer_app.domain import Chunk, ChunkResult
from infer_app.errors import ModelError, WorkersKilled
from infer_app.workers.fork_server import SERVER_GONE, context, end_process, start_process
from infer_app.workers.heartbeat import CurrentStep, Heartbeat
from infer_app.workers.retry_policy import Decision, Task, WorkerExit, decide
from infer_app.workers.shared_ring import Ring
from infer_app.workers.worker_process import Copied, Done, Failed, Logged, OpenHandler, Ready, work

log = logging.getLogger(__name__)

R = TypeVar("R")

TASKS_AHEAD = 2
LOOK_EVERY_S = 0.5  # how late a hanging worker is noticed, beyond its time limit
START_LIMIT_S = 120.0  # a library that hangs while it is loaded must not hang the run
GRACE = 0.2  # of the limit of one image, for a worker that is late, before it is ended
MODEL_PATIENCE = 10  # the model has a whole chunk in hand: so many times the limit of one image
MAX_DEATHS_IN_A_ROW = 10  # without one result in between, and no sooner than
PATIENCE_S = 60  # seconds after the last result


class Worker(Generic[R]):
    """One process, its pipe, its heartbeat and the tasks it was given, oldest first."""

    def __init__(self, context: ForkServerContext, open_handler: OpenHandler[R]) -> None:
        self.heartbeat = Heartbeat.create(context)
        self.pipe, theirs = context.Pipe()
        self.process = start_process(
            work, theirs, self.heartbeat.memory, open_handler, log.getEffectiveLevel(), daemon=True
        )
        theirs.close()  # so that the worker's death ends the pipe
        self.tasks: deque[Task] = deque()
        self.started_at = self.given_at = time.monotonic()
        self.is_ready = False
        self.late: CurrentStep | None = None  # the step that has taken too long, and since when that is known
        self.late_since = 0.0
        self.overdue: CurrentStep | None = None  # the step that it was killed for

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self.given_at = time.monotonic()
        try:
            self.pipe.send((task.number, task.chunk))
        except (BrokenPipeError, ConnectionResetError):
            return  # it is dead: the supervisor is about to find that out, and the task with it

    def received(self) -> Iterator[Ready | Failed | Logged | Copied | Done[R]]:
        """The messages that have arrived; those of a dead worker too."""
        try:
            while self.pipe.poll():
                yield self.pipe.recv()
        except (EOFError, OSError):  # killed, perhaps in the middle of a message
            return

    def end(self) -> None:
        if self.overdue is None:  # else it was ended when that was seen
            end_process(self.process)
        self.pipe.close()
        with suppress(ValueError):  # one that could not be ended
            self.process.close()


class WorkerPool(Generic[R]):
    """`num_workers` processes that share one kind of handler. Started when there is work, kept between runs."""

    def __init__(
        self,
        open_handler: OpenHandler[R],
        num_workers: int,
        timeout_s: float,
        slots: Ring | None = None,
        filled_by: WorkerPool[Any] | None = None,
    ) -> None:
        """With `slots` each task has one: a free one, to be filled, which goes on with the result; or one that was
        `filled_by` others and is free as soon as it is copied. What dies here then goes back to them.
        """
        self._open_handler = open_handler
        self._num_workers = num_workers
        self._timeout_s = timeout_s
        self._context = context()
        self._workers: list[Worker[R]] = []
        self._slots = slots
        self._fills_slots = filled_by is None
        self.queue: deque[Task] = deque()  # tasks that come before new ones
        self._again = self.queue if filled_by is None else filled_by.queue
        self._next_number = 0
        self._deaths_in_a_row = 0
        self._last_result_at = time.monotonic()
        self._awake_since = time.monotonic()

    def run(self, chunks: Iterable[Chunk]) -> Iterator[R | ChunkResult]:
        """Results in any order; every ref of every chunk is in exactly one of them.

        Raises the InferError of a worker that could not open its handler, and one for workers that keep dying.
        """
        pending = iter(chunks)
        self.start_run()
        try:
            while self.dispatch(pending):
                for answers in wait([self]):
                    yield from (result for _, result in answers)
        finally:
            self.cancel()

    def start_run(self) -> None:
        """Before the first feeding of a run."""
        self._last_result_at = time.monotonic()

    def __enter__(self) -> WorkerPool[R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker; a later run starts others."""
        while self._workers:
            self._workers.pop().end()

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def start(self) -> Worker[R]:
        """One worker more, also before there is work for it."""
        self._workers.append(Worker(self._context, self._open_handler))
        return self._workers[-1]

    def dispatch(self, pending: Iterator[Chunk]) -> bool:
        """Gives every worker something to do, starting workers as needed; False once nothing is left.

        Nothing is given while no slot is free: that is True, since something may be left.
        """
        while not self._lacks_slots():
            worker = min(self._workers, key=lambda worker: len(worker.tasks), default=None)
            start_one = len(self._workers) < self._num_workers and (worker is None or len(worker.tasks) > 0)
            if not start_one and (worker is None or len(worker.tasks) >= TASKS_AHEAD):
                return True
            task = self._next_task(pending)
            if task is None:
                return any(worker.tasks for worker in self._workers)
            if start_one or worker is None:
                worker = self.start()
            worker.give(self._with_slot(task))
        return True

    def _lacks_slots(self) -> bool:
        return self._slots is not None and self._fills_slots and not self._slots.num_free

    def _with_slot(self, task: Task) -> Task:
        if self._slots is None or not self._fills_slots:
            return task
        return replace(task, chunk=replace(task.chunk, slot=self._slots.acquire()))

    def _free_slot(self, task: Task) -> Task:
        """The task without its slot, in which nobody reads or writes any more."""
        if self._slots is None or task.chunk.slot is None:
            return task
        self._slots.release(task.chunk.slot)
        return replace(task, chunk=replace(task.chunk, slot=None))

    def _next_task(self, pending: Iterator[Chunk]) -> Task | None:
        self._next_number += 1  # a retry gets a number of its own, so that an old heartbeat can't name it
        if self.queue:
            return replace(self.queue.popleft(), number=self._next_number)
        chunk = next(pending, None)
        return None if chunk is None else Task(self._next_number, chunk)

    def poll(self, ready: Container[object], was_stopped: bool) -> Iterator[tuple[Task, R | ChunkResult]]:
        """Hears those workers of whose pipes or sentinels one is ready, and those whose step takes too long.

        A result comes with the task it answers, and a dead worker's verdict with the task it had in hand.
        `was_stopped`: all of us were meanwhile (Ctrl-Z, docker pause), which is no worker's fault.
        """
        if was_stopped:
            self._awake_since = time.monotonic()
        for worker in list(self._workers):
            worker.overdue = self._overdue_step(worker)
            if worker.overdue or worker.pipe in ready or worker.process.sentinel in ready:
                yield from self._poll_worker(worker)

    def sources(self) -> list[Any]:
        """What becomes ready when a worker has something to say or ends."""
        return [source for worker in self._workers for source in (worker.pipe, worker.process.sentinel)]

    def _overdue_step(self, worker: Worker[R]) -> CurrentStep | None:
        """Return what the worker is to be ended for, or None.

        It is given some time more once it is known to be late: all of us may have been stopped (docker pause) while
        nobody looked, as during a long commit.
        """
        late, now = self._late_step(worker), time.monotonic()
        if late != worker.late:
            worker.late, worker.late_since = late, now
        return late if now - worker.late_since >= GRACE * self._timeout_s else None

    def _late_step(self, worker: Worker[R]) -> CurrentStep | None:
        """Return what the worker has been at for longer than it may, or None.

        A worker that has a task and is at rest is overdue too: what listens to its pipe hangs. What it said may not
        have been read yet, after minutes in which the database let nobody write.
        """
        in_hand = worker.heartbeat.read()
        if not worker.is_ready:
            since, limit = worker.started_at, START_LIMIT_S
        elif in_hand.stage:
            since, limit = in_hand.since, self._timeout_s * (MODEL_PATIENCE if in_hand.stage == "model" else 1)
        elif worker.tasks:
            since, limit = max(in_hand.since, worker.given_at), self._timeout_s
        else:
            return None
        if time.monotonic() - max(since, self._awake_since) <= limit:
            return None
        is_known_to_hang = worker.is_ready and in_hand.stage
        return in_hand if is_known_to_hang or not worker.pipe.poll() else None

    def _poll_worker(self, worker: Worker[R]) -> Iterator[tuple[Task, R | ChunkResult]]:
        if worker.overdue:
            end_process(worker.process)
        # Whether it lives is asked before its messages are read: one that dies after its last message is still heard.
        has_ended = worker.overdue is not None or not worker.process.is_alive()
        for message in worker.received():
            if isinstance(message, Failed):
                raise message.error
            if isinstance(message, Logged):
                where = {"worker": worker.process.pid} | ({} if message.chunk is None else {"chunk": message.chunk})
                logging.getLogger(message.logger).log(message.level, "%s", message.text, extra=where)
                continue
            worker.is_ready = True
            if isinstance(message, Copied):
                self._on_copied(message, worker.tasks)
            if isinstance(message, Done):
                self._deaths_in_a_row = 0
                self._last_result_at = time.monotonic()
                task = worker.tasks.popleft()
                assert task.number == message.task
                if not self._fills_slots:
                    self._free_slot(task)
                yield task, message.result
        if has_ended:
            yield from self._on_exit(worker)

    def _on_copied(self, taken: Copied, tasks: deque[Task]) -> None:
        """The slot of a task that is still to be done is free."""
        for place, task in enumerate(tasks):
            if task.number == taken.task:
                tasks[place] = self._free_slot(task)

    def _on_exit(self, worker: Worker[R]) -> Iterator[tuple[Task, R | ChunkResult]]:
        """Judges the task in hand, queues the others again. The next feeding starts a replacement."""
        in_hand = worker.heartbeat.read()
        # A step that ended just before the kill was slow and did not hang, and the next one had hardly begun.
        exitcode = -signal.SIGKILL if worker.process.exitcode is None else worker.process.exitcode
        death = WorkerExit(exitcode, in_hand == worker.overdue, in_hand)
        self._workers.remove(worker)
        worker.end()
        tasks = deque(map(self._free_slot, worker.tasks))
        chunk = {"chunk": tasks[0].chunk.number} if tasks else {}
        log.info(
            "a worker ended with exit code %s, in hand: %s", death.exitcode, in_hand.stage or "nothing", extra=chunk
        )
        self._check_deaths(worker, death)
        if not tasks:
            return
        task = tasks.popleft()
        verdict = decide(task, death) if worker.is_ready else Decision(retry=(task,))
        self._again.extendleft(reversed([*verdict.retry, *tasks]))
        if verdict.broken:
            yield task, ChunkResult(task.chunk.number, (), verdict.broken, task.chunk.models)

    def _check_deaths(self, worker: Worker[R], death: WorkerExit) -> None:
        self._deaths_in_a_row += 1
        if not worker.is_ready and death.exitcode not in (-signal.SIGKILL, SERVER_GONE):
            raise ModelError(
                f"a worker died while starting (exit code {death.exitcode})",
                "`infer doctor` checks the model and the libraries it needs",
            )
        waited_s = time.monotonic() - self._last_result_at
        if self._deaths_in_a_row >= MAX_DEATHS_IN_A_ROW and waited_s > PATIENCE_S:
            raise WorkersKilled(
                f"{self._deaths_in_a_row} workers ended one after another and {waited_s:.0f} s passed without a result",
                "is there memory enough, or does a step hang? try fewer --workers; the rest stays pending",
            )

    def cancel(self) -> None:
        """Ends the workers that still have something in hand: after an error or an early end nobody wants it."""
        nobody_wants = [*self.queue]
        self.queue.clear()
        for worker in [worker for worker in self._workers if worker.tasks]:
            self._workers.remove(worker)
            worker.end()
            nobody_wants += worker.tasks
        for task in nobody_wants:
            self._free_slot(task)


def wait(crews: Sequence[WorkerPool[Any]]) -> Iterator[Iterator[tuple[Task, Any]]]:
    """What each of them has to say, once any has something or after LOOK_EVERY_S."""
    asleep_at = time.monotonic()
    ready = mp_connection.wait([source for crew in crews for source in crew.sources()], LOOK_EVERY_S)
    was_stopped = time.monotonic() - asleep_at > 2 * LOOK_EVERY_S
    for crew in crews:
        yield crew.poll(ready, was_stopped)
