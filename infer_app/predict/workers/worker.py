"""The supervisor's side of a worker process: its pipe, its heartbeat, its tasks and its time limits."""

import logging
import signal
import time
from collections import deque
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

from infer_app.base.errors import InferError
from infer_app.predict.workers.fork_server import context, end_process, start_process
from infer_app.predict.workers.heartbeat import CurrentStep, Heartbeat
from infer_app.predict.workers.retry_policy import Task, WorkerExit
from infer_app.predict.workers.worker_process import Copied, Done, Logged, OpenHandler, Ready, work

log = logging.getLogger(__name__)

OPEN_LIMIT_S = 120.0  # for loading what the handler needs: a library that hangs meanwhile must not hang the run
GRACE = 0.2  # share of an image's time limit that a late worker gets before it is killed
MODEL_TIMEOUT_FACTOR = 10  # multiple of an image's time limit for the model, which processes a whole chunk


class Worker:
    """A worker process with the tasks that it was given, oldest first."""

    def __init__(self, open_handler: OpenHandler[object]) -> None:
        self.open_handler = open_handler
        self.heartbeat = Heartbeat.create(context())
        self.pipe, theirs = context().Pipe()
        level = log.getEffectiveLevel()
        self.process = start_process(work, theirs, self.heartbeat.memory, open_handler, level, daemon=True)
        theirs.close()  # so that the worker's death ends the pipe
        self.tasks: deque[Task] = deque()
        self.is_ready = False
        self.overdue: CurrentStep | None = None  # the step that it is killed for
        self._started_at = self._given_at = time.monotonic()
        self._late: CurrentStep | None = None  # the step that has taken too long
        self._late_since = 0.0

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self._given_at = time.monotonic()
        try:
            self.pipe.send((task.number, task.chunk))
        except (BrokenPipeError, ConnectionResetError):
            return  # it is dead: the supervisor will notice that, and retry the task

    def received(self) -> Iterator[Ready | InferError | Logged | Copied | Done[Any]]:
        """Yield the messages that have arrived, including those of a dead worker."""
        try:
            while self.pipe.poll():
                yield self.pipe.recv()
        except (EOFError, OSError):  # killed, perhaps in the middle of a message
            return

    def needs_attention(self, ready: Container[object]) -> bool:
        """Return whether the worker has sent a message, has ended, or has to be killed."""
        return self.overdue is not None or self.pipe in ready or self.process.sentinel in ready

    def check_time(self, timeout_s: float, awake_since: float) -> None:
        """Set `overdue` if the current step has exceeded its time limit.

        A late worker gets some more time first. The supervisor and its workers may all have been suspended (docker
        pause) while the supervisor was busy, for example with a long commit.
        """
        late, now = self._late_step(timeout_s, awake_since), time.monotonic()
        if late != self._late:
            self._late, self._late_since = late, now
        self.overdue = late if now - self._late_since >= GRACE * timeout_s else None

    def exit_status(self) -> WorkerExit:
        """Return how a process ended by itself or was killed for an overdue step."""
        current = self.heartbeat.read()
        # If the step has changed just before the kill, it was slow and did not hang: the worker did not time out.
        exitcode = -signal.SIGKILL if self.process.exitcode is None else self.process.exitcode
        return WorkerExit(exitcode, current == self.overdue, current)

    def end(self) -> None:
        if self.overdue is None:  # else it was already killed
            end_process(self.process)
        self.pipe.close()
        with suppress(ValueError):  # it could not be killed
            self.process.close()

    def _late_step(self, timeout_s: float, awake_since: float) -> CurrentStep | None:
        """Return the step that has exceeded its time limit, or None.

        A worker that has a task and is idle is late too: the thread that receives tasks hangs. But if unread messages
        are in its pipe, the supervisor may only have been busy, for example while the database was locked.
        """
        current = self.heartbeat.read()
        if not self.is_ready:
            since, limit = self._started_at, OPEN_LIMIT_S + MODEL_TIMEOUT_FACTOR * timeout_s  # it predicts too
        elif current.stage:
            since, limit = current.since, timeout_s * (MODEL_TIMEOUT_FACTOR if current.stage == "model" else 1)
        elif self.tasks:
            since, limit = max(current.since, self._given_at), timeout_s
        else:
            return None
        if time.monotonic() - max(since, awake_since) <= limit:
            return None
        is_known_to_hang = self.is_ready and current.stage
        return current if is_known_to_hang or not self.pipe.poll() else None
