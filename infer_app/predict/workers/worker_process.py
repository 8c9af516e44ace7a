"""What a worker process does: it receives tasks, gives them to its handler, and sends messages."""

import logging
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from infer_app.base.domain import Chunk
from infer_app.base.errors import DeviceLost, InferError, as_known
from infer_app.predict.workers.fork_server import die_with_parent, silence_output
from infer_app.predict.workers.heartbeat import Heartbeat
from infer_app.predict.workers.retry_policy import DEVICE_LOST

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


def work(pipe: Connection, memory: object, open_handler: OpenHandler[R], log_level: int) -> None:
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

    def __call__(self, message: Ready | InferError | Logged | Copied | Done[R]) -> None:
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
        send(as_known(error) or InferError(bug, traceback.format_exc()))
