"""Supervised worker processes: chunks in, results out in any order, whatever happens to a worker.

One pipe per worker and no shared queue, so a worker that dies can't take another's messages or a lock with it.
Each worker has at most TASKS_AHEAD tasks: one in hand and one waiting, so that it never waits for the supervisor.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing import connection as mp_connection
from multiprocessing.context import ForkServerContext
from typing import Any

from infer_app.errors import ModelError, WorkersKilled
from infer_app.loading.blame import Death, Task, Verdict, judge
from infer_app.loading.mark import Mark
from infer_app.loading.nursery import context, signals_blocked
from infer_app.loading.worker import Done, Failed, OpenLane, Ready, work
from infer_app.records import Chunk, ChunkResult

log = logging.getLogger(__name__)

TASKS_AHEAD = 2
LOOK_EVERY_S = 0.5  # how late a hanging worker is noticed, beyond its time limit
START_LIMIT_S = 120.0  # a library that hangs while it is loaded must not hang the run
MODEL_PATIENCE = 10  # the model has a whole chunk in hand: so many times the limit of one image
MAX_DEATHS_IN_A_ROW = 10  # without one result in between, and no sooner than
PATIENCE_S = 60  # seconds after the last result


class Worker:
    """One process, its pipe, its mark and the tasks it was given, oldest first."""

    def __init__(self, context: ForkServerContext, open_lane: OpenLane) -> None:
        self.mark = Mark.create(context)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=work, args=(theirs, self.mark.memory, open_lane, log.isEnabledFor(logging.DEBUG)), daemon=True
        )
        with signals_blocked():
            self.process.start()
        theirs.close()  # so that the worker's death ends the pipe
        self.tasks: deque[Task] = deque()
        self.started_at = time.monotonic()
        self.is_ready = False
        self.timed_out = False

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        try:
            self.pipe.send((task.number, task.chunk))
        except (BrokenPipeError, ConnectionResetError):
            return  # it is dead: the supervisor is about to find that out, and the task with it

    def received(self) -> Iterator[Ready | Failed | Done]:
        """The messages that have arrived; those of a dead worker too."""
        try:
            while self.pipe.poll():
                yield self.pipe.recv()
        except (EOFError, OSError):  # killed, perhaps in the middle of a message
            return

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.process.close()


class Workers:
    """`num_workers` processes that share one kind of lane. Started when there is work, kept between runs."""

    def __init__(self, open_lane: OpenLane, num_workers: int, timeout_s: float) -> None:
        self._open_lane = open_lane
        self._num_workers = num_workers
        self._timeout_s = timeout_s
        self._context = context()
        self._workers: list[Worker] = []
        self._retries: deque[Task] = deque()
        self._next_number = 0
        self._deaths_in_a_row = 0
        self._last_result_at = time.monotonic()
        self._awake_since = time.monotonic()

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Results in any order; every ref of every chunk is in exactly one of them.

        Raises the InferError of a worker that could not open its lane, and one for workers that keep dying.
        """
        pending = iter(chunks)
        self._last_result_at = time.monotonic()
        try:
            while self._feed(pending):
                for worker in self._wait():
                    yield from self._attend(worker)
        finally:
            self._abandon()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker; a later run starts others."""
        while self._workers:
            self._workers.pop().end()

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def _feed(self, pending: Iterator[Chunk]) -> bool:
        """Gives every worker something to do, starting workers as needed; False once nothing is left."""
        while True:
            worker = min(self._workers, key=lambda worker: len(worker.tasks), default=None)
            start_one = len(self._workers) < self._num_workers and (worker is None or len(worker.tasks) > 0)
            if not start_one and (worker is None or len(worker.tasks) >= TASKS_AHEAD):
                return True
            task = self._next_task(pending)
            if task is None:
                return any(worker.tasks for worker in self._workers)
            if start_one or worker is None:
                worker = Worker(self._context, self._open_lane)
                self._workers.append(worker)
            worker.give(task)

    def _next_task(self, pending: Iterator[Chunk]) -> Task | None:
        self._next_number += 1  # a retry gets a number of its own, so that an old mark can't name it
        if self._retries:
            return replace(self._retries.popleft(), number=self._next_number)
        chunk = next(pending, None)
        return None if chunk is None else Task(self._next_number, chunk)

    def _wait(self) -> list[Worker]:
        """Workers with something to attend to: a message, an end, or a step that takes too long."""
        asleep_at = time.monotonic()
        sources: dict[Any, Worker] = {}
        for worker in self._workers:
            sources[worker.pipe] = sources[worker.process.sentinel] = worker
        ready = [sources[source] for source in mp_connection.wait(list(sources), LOOK_EVERY_S)]
        if time.monotonic() - asleep_at > 2 * LOOK_EVERY_S:
            self._awake_since = time.monotonic()  # all of us were stopped (Ctrl-Z, docker pause): no worker's fault
        return list(dict.fromkeys([*ready, *filter(self._is_overdue, self._workers)]))

    def _is_overdue(self, worker: Worker) -> bool:
        in_hand = worker.mark.look()
        if not worker.is_ready:
            since, limit = worker.started_at, START_LIMIT_S
        else:
            since = in_hand.since if in_hand.stage else time.monotonic()
            limit = self._timeout_s * (MODEL_PATIENCE if in_hand.stage == "model" else 1)
        worker.timed_out = time.monotonic() - max(since, self._awake_since) > limit
        return worker.timed_out

    def _attend(self, worker: Worker) -> Iterator[ChunkResult]:
        if worker.timed_out:
            worker.process.kill()
            worker.process.join()
        # Whether it lives is asked before its messages are read: one that dies after its last message is still heard.
        has_ended = not worker.process.is_alive()
        for message in worker.received():
            if isinstance(message, Failed):
                raise message.error
            worker.is_ready = True
            if isinstance(message, Done):
                self._deaths_in_a_row = 0
                self._last_result_at = time.monotonic()
                assert worker.tasks.popleft().number == message.task
                yield message.result
        if has_ended:
            yield from self._bury(worker)

    def _bury(self, worker: Worker) -> Iterator[ChunkResult]:
        """Judges the task in hand, queues the others again. The next feeding starts a replacement."""
        death = Death(worker.process.exitcode or 0, worker.timed_out, worker.mark.look())
        self._workers.remove(worker)
        worker.end()
        log.info("a worker ended with exit code %s, in hand: %s", death.exitcode, death.in_hand.stage or "nothing")
        self._check_deaths(worker, death)
        if not worker.tasks:
            return
        in_hand = worker.tasks.popleft()
        verdict = judge(in_hand, death) if worker.is_ready else Verdict(retry=(in_hand,))
        self._retries.extendleft(reversed([*verdict.retry, *worker.tasks]))
        if verdict.broken:
            yield ChunkResult(in_hand.chunk.number, (), verdict.broken, in_hand.chunk.models)

    def _check_deaths(self, worker: Worker, death: Death) -> None:
        self._deaths_in_a_row += 1
        if not worker.is_ready and death.exitcode != -signal.SIGKILL:
            raise ModelError(
                f"a worker died while starting (exit code {death.exitcode})",
                "`infer doctor` checks the model and the libraries it needs",
            )
        waited_s = time.monotonic() - self._last_result_at
        if self._deaths_in_a_row >= MAX_DEATHS_IN_A_ROW and waited_s > PATIENCE_S:
            raise WorkersKilled(
                f"{self._deaths_in_a_row} workers ended one after another and {waited_s:.0f} s passed without a result",
                "is there memory enough? try fewer with --workers; what was committed stays, the rest is pending",
            )

    def _abandon(self) -> None:
        """Ends the workers that still have something in hand: after an error or an early end nobody wants it."""
        self._retries.clear()
        for worker in [worker for worker in self._workers if worker.tasks]:
            self._workers.remove(worker)
            worker.end()
