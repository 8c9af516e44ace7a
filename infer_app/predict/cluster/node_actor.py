"""What runs on a node of a cluster: the actor of the `ray` executor, and the check of a node.

The actor is a worker pool, called for one chunk at a time by several threads. Worker processes, their supervisor and
the retry policy are those of one machine. So an image that crashes or hangs ends a worker process and not the actor.
This module does not use Ray.
"""

import itertools
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace

from infer_app import __version__
from infer_app.base.domain import NOT_READ, Chunk, ChunkResult
from infer_app.base.errors import InferError
from infer_app.base.locations import shown
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.workers.bundle import ModelBundle, unpack
from infer_app.predict.workers.pool import WorkerPool
from infer_app.predict.workers.worker_process import Logged

MAX_LINES = 1000  # of the log, kept until the next reply


@dataclass(frozen=True, slots=True)
class ActorSpec:
    """The configuration of an actor; its models are sent separately, as bundles."""

    handler: HandlerSpec
    num_workers: int
    open_pool: Callable[[HandlerSpec, int], WorkerPool]  # pickled by its name
    log_level: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The reply of an actor whose handler was verified on the golden images."""

    host: str
    node_id: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The results of a chunk, with every ref in exactly one of them, and lines for the log."""

    results: tuple[ChunkResult, ...]
    lines: tuple[Logged, ...]  # of the log, since the previous reply


class ExecutorActor:
    """Runs a worker pool in a thread of its own; callers put chunks into its inbox and wait for their results."""

    def __init__(self, spec: ActorSpec, bundles: Sequence[ModelBundle]) -> None:
        """Start the pool and wait until its first worker is ready or has failed, which `opened` reports."""
        self._limits = spec.handler.read
        self._inbox = Inbox()
        self._numbers = itertools.count()  # calls may have chunks of the same number, after a chunk was split
        self._waiting: dict[int, Waiting] = {}
        self._failure: InferError | None = None
        self._lock = threading.Lock()
        self._log = _Lines(MAX_LINES)
        ours = logging.getLogger("infer_app")
        ours.setLevel(spec.log_level)
        ours.addHandler(self._log)
        # The fork server ends with the thread that started it, so a thread of the actor itself starts it.
        threading.Thread(target=self._work, args=(spec, bundles), daemon=True).start()
        with suppress(InferError):
            self.process(Chunk(0, ()))

    def opened(self) -> Opened:
        """Return the node's name and id. Raises ModelError if a model can't run here."""
        if self._failure is not None:
            raise self._failure
        return Opened(socket.gethostname(), self.node_id())

    def process(self, chunk: Chunk) -> Reply:
        """Process a chunk and return its results.

        Raises StorageUnavailable if a root folder of the chunk's images is missing on this node.
        """
        waiting = Waiting(len({ref.image_id for ref in chunk.refs}))
        with self._lock:
            if self._failure is not None:
                raise self._failure
            number = next(self._numbers)
            self._waiting[number] = waiting
        self._inbox.put(replace(chunk, number=number))
        results = tuple(replace(result, number=chunk.number) for result in waiting.answer.result())
        return Reply(results, self._log.take())

    def worker_pids(self) -> list[int]:
        return self._pool.pids()

    def node_id(self) -> str:
        """Return the id of the node, since two nodes may have the same host name; overridden where Ray is used."""
        return ""

    def _work(self, spec: ActorSpec, bundles: Sequence[ModelBundle]) -> None:
        try:
            self._pool = _open_pool(spec, bundles)
            while self._inbox.wait():
                for result in self._pool.run(self._inbox):
                    self._deliver(result)
        except BaseException as error:
            self._fail(error)

    def _deliver(self, result: ChunkResult) -> None:
        waiting = self._waiting[result.number]
        waiting.results.append(result)
        waiting.num_left -= result.num_images
        if waiting.num_left <= 0:
            del self._waiting[result.number]
            waiting.answer.set_result(waiting.results)

    def _fail(self, error: BaseException) -> None:
        """Fail all calls, present and future, with the error that ended the pool."""
        known = (
            error if isinstance(error, InferError) else InferError(f"an actor failed: {type(error).__name__}: {error}")
        )
        with self._lock:
            self._failure = known
            waiting = list(self._waiting.values())
        for call in waiting:
            call.answer.set_exception(known)


def _open_pool(spec: ActorSpec, bundles: Sequence[ModelBundle]) -> WorkerPool:
    pairs = zip(spec.handler.models, bundles, strict=True)
    handler = replace(spec.handler, models=tuple(replace(model, artifact=unpack(bundle)) for model, bundle in pairs))
    return spec.open_pool(handler, spec.num_workers)


@dataclass(slots=True)
class Waiting:
    """A call that waits, with its results so far."""

    num_left: int  # images
    results: list[ChunkResult] = field(default_factory=list)
    answer: Future[list[ChunkResult]] = field(default_factory=Future)


class Inbox:
    """A queue of chunks that ends iteration when empty; a pool iterates again after each result."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._changed = threading.Condition()

    def put(self, chunk: Chunk) -> None:
        with self._changed:
            self._chunks.append(chunk)
            self._changed.notify()

    def wait(self) -> bool:
        """Wait until there is a chunk, and return True."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._chunks))

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        try:
            return self._chunks.popleft()
        except IndexError:
            raise StopIteration from None


class _Lines(logging.Handler):
    """Keeps log messages until the driver takes them, which knows the run."""

    def __init__(self, max_lines: int) -> None:
        super().__init__()
        self._lines: deque[Logged] = deque(maxlen=max_lines)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(Logged(record.name, record.levelno, self.format(record), record.__dict__.get("chunk")))

    def take(self) -> tuple[Logged, ...]:
        lines = []
        while self._lines:
            lines.append(self._lines.popleft())
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The result of the check of one node."""

    host: str
    infer_app: str  # its version
    num_tried: int
    unreachable: tuple[str, ...]  # locations, each with its reason


def check_node(locations: Sequence[str], limits: ReadLimits) -> NodeCheck:
    """Try to read the locations on this node."""
    failures = [failure for location in locations if (failure := _why_unreachable(location, limits))]
    return NodeCheck(socket.gethostname(), __version__, len(locations), tuple(failures))


def _why_unreachable(location: str, limits: ReadLimits) -> str | None:
    try:
        read_image(location, limits)
    except BadImage as bad:
        return f"{shown(location)}: {bad.reason}" if bad.reason in NOT_READ else None
    return None
