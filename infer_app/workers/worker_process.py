"""Worker processes: their messages, their main function `work`, and `Worker`, the supervisor's side of one of them."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from infer_app.domain import Chunk
from infer_app.errors import DeviceLost, InferError, as_known
from infer_app.workers.fork_server import context, die_with_parent, end_process, silence_output, start_process
from infer_app.workers.heartbeat import CurrentStep, Heartbeat
from infer_app.workers.retry_policy import DEVICE_LOST, Task, WorkerExit

log = logging.getLogger(__name__)

OPEN_LIMIT_S = 120.0  # for opening the handler: a library that hangs while it is loaded must not hang the run
GRACE = 0.2  # share of an image's time limit that a late worker gets before it is killed
MODEL_TIMEOUT_FACTOR = 10  # multiple of an image's time limit for the model, which processes a whole chunk

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ChunkHandler(Protocol[R_co]):
    """Turns chunks into results in a worker process; never raises for a bad image."""

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> R_co: ...

    def copy_slot(self, chunk: Chunk) -> bool:
        """Copy the pixels in the chunk's slot, and return whether that was done, so that the slot is free.

        Called from another thread before `process`. It is not called for chunks that arrive before the handler is open.
        """

    def prefetch(self, chunk: Chunk) -> None:
        """Start reading the chunk's files ahead. Called from another thread; `process` may already have begun."""


OpenHandler = Callable[[], ChunkHandler[R]]  # pickled into the worker


@dataclass(frozen=True, slots=True)
class Ready:
    """The message that the handler is open."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The message that the worker failed; the run ends with this error."""

    error: InferError


@dataclass(frozen=True, slots=True)
class Logged:
    """A log message that the supervisor writes, because it knows the run and the worker's output may be silenced."""

    logger: str
    level: int
    text: str
    chunk: int | None  # number of the chunk that was being processed

    def write(self, **where: object) -> None:
        """Write the message to the log of this process, with the worker or node it came from."""
        extra = where | ({} if self.chunk is None else {"chunk": self.chunk})
        logging.getLogger(self.logger).log(self.level, "%s", self.text, extra=extra)


@dataclass(frozen=True, slots=True)
class Copied:
    """The message that the slot of a task has been copied."""

    task: int


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The message with the result of a task."""

    task: int
    result: R


def work(pipe: Connection, memory: Any, open_handler: OpenHandler[R], log_level: int) -> None:
    """Run a worker process until its pipe ends; signals that a terminal or systemd send are ignored."""
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if log_level > logging.DEBUG:
        # Libraries print, such as libtiff for each unknown tag of a file. Errors are sent through the pipe.
        silence_output()
    else:
        os.dup2(2, 1)  # standard output holds the JSON of the run and nothing else
    tasks: SimpleQueue[tuple[int, Chunk]] = SimpleQueue()  # bounded by the supervisor: TASKS_AHEAD
    handlers: list[ChunkHandler[R]] = []  # the one handler, once it is open
    send = MessageSender(pipe)
    _send_log(send, log_level)
    threading.Thread(target=_receive_tasks, args=(pipe, tasks, handlers, send), daemon=True).start()
    try:
        handlers.append(open_handler())
        _process_tasks(send, tasks, Heartbeat(memory), handlers[0])
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the supervisor is gone
    except BaseException as error:
        _fail(send, error, is_open=bool(handlers))


class MessageSender:
    """Sends messages through the worker's pipe, from any thread."""

    def __init__(self, pipe: Connection) -> None:
        self.chunk: int | None = None  # number of the current chunk
        self._pipe = pipe
        self._lock = threading.Lock()

    def __call__(self, message: Ready | Failed | Logged | Copied | Done[R]) -> None:
        with self._lock:
            self._pipe.send(message)


class _PipeHandler(logging.Handler):
    """Sends log messages through the worker's pipe."""

    def __init__(self, send: MessageSender) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # the supervisor is gone
            self._send(Logged(record.name, record.levelno, self.format(record), self._send.chunk))


def _send_log(send: MessageSender, level: int) -> None:
    ours = logging.getLogger("infer_app")
    ours.setLevel(level)
    ours.addHandler(_PipeHandler(send))


def _process_tasks(
    send: MessageSender, tasks: SimpleQueue[tuple[int, Chunk]], heartbeat: Heartbeat, handler: ChunkHandler[R]
) -> None:
    send(Ready())
    while True:
        number, chunk = tasks.get()
        heartbeat.begin_task(number)
        send.chunk = chunk.number
        result = handler.process(chunk, heartbeat)
        send.chunk = None
        heartbeat.clear()
        send(Done(number, result))


def _receive_tasks(
    pipe: Connection, tasks: SimpleQueue[tuple[int, Chunk]], handlers: Sequence[ChunkHandler[R]], send: MessageSender
) -> None:
    """Receive tasks from the pipe at once, so that supervisor and worker never both block on sending.

    The pipe ends when the supervisor closes it or dies, even by SIGKILL. The worker then exits in the middle of its
    task, since the result is not needed, without the interpreter's shutdown, which takes time. An error in this thread
    ends the worker too, because it could receive no more tasks.
    """
    try:
        while (received := _receive(pipe)) is not None:
            number, chunk = received
            if any(handler.copy_slot(chunk) for handler in handlers):
                send(Copied(number))
            tasks.put((number, chunk))
            for handler in handlers:
                handler.prefetch(chunk)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the supervisor is gone
    except BaseException as error:
        _fail(send, error, is_open=bool(handlers))
        os._exit(1)
    os._exit(0)


def _receive(pipe: Connection) -> tuple[int, Chunk] | None:
    """Return the next task, or None if the pipe has ended."""
    try:
        received: tuple[int, Chunk] = pipe.recv()
    except (EOFError, OSError):
        return None
    return received


def _fail(send: MessageSender, error: BaseException, is_open: bool) -> None:
    """Report the error to the supervisor, whose run ends with it.

    If a GPU failed after the handler was open, only exit: another process may be able to use it.
    """
    with suppress(BrokenPipeError, ConnectionResetError):
        if isinstance(error, DeviceLost) and is_open:
            send(Logged(__name__, logging.ERROR, str(error), send.chunk))
            os._exit(DEVICE_LOST)
        bug = f"a worker failed: {type(error).__name__}: {error}"
        send(Failed(as_known(error) or InferError(bug, traceback.format_exc())))


class Worker:
    """A worker process with the tasks that it was given, oldest first."""

    def __init__(self, open_handler: OpenHandler[Any]) -> None:
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

    def received(self) -> Iterator[Ready | Failed | Logged | Copied | Done[Any]]:
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
            since, limit = self._started_at, OPEN_LIMIT_S
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
