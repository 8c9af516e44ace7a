"""The inside of a worker process: opens its handler, then answers one chunk after another until its pipe closes."""

from __future__ import annotations

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
from typing import Any, Generic, Protocol, TypeVar

from infer_app.domain import Chunk
from infer_app.errors import DeviceLost, InferError
from infer_app.workers.fork_server import die_with_parent, silence_output
from infer_app.workers.heartbeat import Heartbeat

DEVICE_LOST = 76  # exit code of a worker whose GPU failed: another process may be able to use it

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ChunkHandler(Protocol[R_co]):
    """Turns one chunk into its result; never raises for an image."""

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> R_co: ...

    def stage(self, chunk: Chunk) -> bool:
        """Called from another thread, and done with before the chunk is processed: copies what lies in its slot.

        Whether it did, so that the slot is free. Chunks that come before the handler is open are not taken.
        """

    def prefetch(self, chunk: Chunk) -> None:
        """Told from another thread that a chunk has arrived, which may be in hand by then."""


OpenHandler = Callable[[], ChunkHandler[R]]  # pickled into the worker


@dataclass(frozen=True, slots=True)
class Ready:
    """The handler is open."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker can't go on; the run ends with this error."""

    error: InferError


@dataclass(frozen=True, slots=True)
class Logged:
    """A line for the log, which the supervisor writes: it knows the run, and standard error may be shut in here."""

    logger: str
    level: int
    text: str
    chunk: int | None  # in hand meanwhile

    def write(self, **where: object) -> None:
        """Write the line to the log of this process, with the worker or node it came from."""
        extra = where | ({} if self.chunk is None else {"chunk": self.chunk})
        logging.getLogger(self.logger).log(self.level, "%s", self.text, extra=extra)


@dataclass(frozen=True, slots=True)
class Copied:
    """What lay in the slot of a task has been copied."""

    task: int


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    task: int
    result: R


def work(pipe: Connection, memory: Any, open_handler: OpenHandler[R], log_level: int) -> None:
    """The target of a worker process. It ends with its pipe, and is deaf to the signals a terminal or systemd send."""
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if log_level > logging.DEBUG:
        # Libraries print: libtiff a line for each odd tag of a broken file. Errors travel through the pipe.
        silence_output()
    else:
        os.dup2(2, 1)  # standard output holds the JSON of the run and nothing else
    tasks: SimpleQueue[tuple[int, Chunk]] = SimpleQueue()  # bounded by the supervisor: TASKS_AHEAD
    handlers: list[ChunkHandler[R]] = []  # the one handler, once it is open
    say = MessageSender(pipe)
    _log_through(say, log_level)
    threading.Thread(target=_listen, args=(pipe, tasks, handlers, say), daemon=True).start()
    try:
        handlers.append(open_handler())
        _answer(say, tasks, Heartbeat(memory), handlers[0])
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # nobody is there to hear the result
    except BaseException as error:
        _fail(say, error, is_open=bool(handlers))


class MessageSender:
    """Sends whole messages from any thread."""

    def __init__(self, pipe: Connection) -> None:
        self.chunk: int | None = None  # in hand
        self._pipe = pipe
        self._lock = threading.Lock()

    def __call__(self, message: Ready | Failed | Logged | Copied | Done[R]) -> None:
        with self._lock:
            self._pipe.send(message)


class _PipeHandler(logging.Handler):
    def __init__(self, say: MessageSender) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # nobody is there to hear it
            self._say(Logged(record.name, record.levelno, self.format(record), self._say.chunk))


def _log_through(say: MessageSender, level: int) -> None:
    ours = logging.getLogger("infer_app")
    ours.setLevel(level)
    ours.addHandler(_PipeHandler(say))


def _answer(
    say: MessageSender, tasks: SimpleQueue[tuple[int, Chunk]], heartbeat: Heartbeat, handler: ChunkHandler[R]
) -> None:
    say(Ready())
    while True:
        number, chunk = tasks.get()
        heartbeat.begin_task(number)
        say.chunk = chunk.number
        result = handler.process(chunk, heartbeat)
        say.chunk = None
        heartbeat.clear()
        say(Done(number, result))


def _listen(
    pipe: Connection, tasks: SimpleQueue[tuple[int, Chunk]], handlers: Sequence[ChunkHandler[R]], say: MessageSender
) -> None:
    """Take tasks off the pipe at once, so that supervisor and worker never both wait to send.

    The pipe ends when the supervisor closes it or dies, even by SIGKILL; the worker then ends too, whatever it has
    in hand: nobody would hear the result, and the interpreter's own shutdown would only take time. Whatever fails here
    ends the worker as well: no task would reach it any more.
    """
    try:
        while (received := _receive(pipe)) is not None:
            number, chunk = received
            if any(handler.stage(chunk) for handler in handlers):
                say(Copied(number))
            tasks.put((number, chunk))
            for handler in handlers:
                handler.prefetch(chunk)
    except (BrokenPipeError, ConnectionResetError):
        pass  # of `say`: the supervisor is gone
    except BaseException as error:
        _fail(say, error, is_open=bool(handlers))
        os._exit(1)
    os._exit(0)


def _receive(pipe: Connection) -> tuple[int, Chunk] | None:
    """Return the next task, None where the pipe has ended."""
    try:
        received: tuple[int, Chunk] = pipe.recv()
    except (EOFError, OSError):
        return None
    return received


def _fail(say: MessageSender, error: BaseException, is_open: bool) -> None:
    """Tell the supervisor, whose run ends with the error; a device that worked before is left to another process."""
    with suppress(BrokenPipeError, ConnectionResetError):
        if isinstance(error, DeviceLost) and is_open:
            say(Logged(__name__, logging.ERROR, str(error), say.chunk))
            os._exit(DEVICE_LOST)
        if not isinstance(error, InferError):  # a bug: with the traceback of where it happened
            error = InferError(f"a worker failed: {type(error).__name__}: {error}", traceback.format_exc())
        say(Failed(error))
