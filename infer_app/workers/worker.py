"""One worker process as its supervisor sees it: the pipe, the heartbeat, its tasks, and whether it is overdue."""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

from infer_app.workers.fork_server import context, end_process, start_process
from infer_app.workers.heartbeat import CurrentStep, Heartbeat
from infer_app.workers.retry_policy import Task, WorkerExit
from infer_app.workers.worker_process import Copied, Done, Failed, Logged, OpenHandler, Ready, work

log = logging.getLogger(__name__)

START_LIMIT_S = 120.0  # a library that hangs while it is loaded must not hang the run
GRACE = 0.2  # of the limit of one image, for a worker that is late, before it is ended
MODEL_PATIENCE = 10  # the model has a whole chunk in hand: so many times the limit of one image


class Worker:
    """A process with the tasks that it was given, oldest first."""

    def __init__(self, open_handler: OpenHandler[Any]) -> None:
        self.heartbeat = Heartbeat.create(context())
        self.pipe, theirs = context().Pipe()
        level = log.getEffectiveLevel()
        self.process = start_process(work, theirs, self.heartbeat.memory, open_handler, level, daemon=True)
        theirs.close()  # so that the worker's death ends the pipe
        self.tasks: deque[Task] = deque()
        self.is_ready = False
        self.overdue: CurrentStep | None = None  # the step that it is ended for
        self._started_at = self._given_at = time.monotonic()
        self._late: CurrentStep | None = None  # the step that has taken too long, and since when that is known
        self._late_since = 0.0

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self._given_at = time.monotonic()
        try:
            self.pipe.send((task.number, task.chunk))
        except (BrokenPipeError, ConnectionResetError):
            return  # it is dead: the supervisor is about to find that out, and the task with it

    def received(self) -> Iterator[Ready | Failed | Logged | Copied | Done[Any]]:
        """Yield the messages that have arrived; those of a dead worker too."""
        try:
            while self.pipe.poll():
                yield self.pipe.recv()
        except (EOFError, OSError):  # killed, perhaps in the middle of a message
            return

    def needs_attention(self, ready: Container[object]) -> bool:
        """Return whether it has something to say, has ended, or has to be ended."""
        return self.overdue is not None or self.pipe in ready or self.process.sentinel in ready

    def check_time(self, timeout_s: float, awake_since: float) -> None:
        """Set `overdue` if the current step has taken longer than it may.

        A worker gets some time more once it is known to be late: the supervisor and its workers may all have been
        stopped (docker pause) while nobody looked, as during a long commit.
        """
        late, now = self._late_step(timeout_s, awake_since), time.monotonic()
        if late != self._late:
            self._late, self._late_since = late, now
        self.overdue = late if now - self._late_since >= GRACE * timeout_s else None

    def how_it_ended(self) -> WorkerExit:
        """Return the exit of a process that has ended, or was ended for a step that is overdue."""
        current = self.heartbeat.read()
        # A step that ended just before the kill was slow and did not hang, and the next one had hardly begun.
        exitcode = -signal.SIGKILL if self.process.exitcode is None else self.process.exitcode
        return WorkerExit(exitcode, current == self.overdue, current)

    def end(self) -> None:
        if self.overdue is None:  # else it was ended when that was seen
            end_process(self.process)
        self.pipe.close()
        with suppress(ValueError):  # one that could not be ended
            self.process.close()

    def _late_step(self, timeout_s: float, awake_since: float) -> CurrentStep | None:
        """Return the step that has taken longer than it may, or None.

        A worker that has a task and is idle is late too: the thread that listens to its pipe hangs. Its messages may
        not have been read yet, after minutes in which the database was locked.
        """
        current = self.heartbeat.read()
        if not self.is_ready:
            since, limit = self._started_at, START_LIMIT_S
        elif current.stage:
            since, limit = current.since, timeout_s * (MODEL_PATIENCE if current.stage == "model" else 1)
        elif self.tasks:
            since, limit = max(current.since, self._given_at), timeout_s
        else:
            return None
        if time.monotonic() - max(since, awake_since) <= limit:
            return None
        is_known_to_hang = self.is_ready and current.stage
        return current if is_known_to_hang or not self.pipe.poll() else None
