"""Handlers of a pool with one stage, and of the two stages around a ring.

Images say by their location what happens to the process that has them in hand. `read:log` logs; `decode:SIGSEGV` raises
that signal on itself while the heartbeat says decode; `read:hang` never ends; `take:` and `expect:` do it in the thread
that listens to the pipe; `model:lost` loses the GPU. `once:FILE:…` does so only the first time, when FILE is not there
yet. An image whose location is `broken` is rejected. Every other becomes a prediction, labelled with its own code.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import resource
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from infer_app.base.domain import Broken, Chunk, ChunkResult, FileFacts, ImageRef, Loaded, Output, Prediction, Reason
from infer_app.base.errors import DeviceLost
from infer_app.predict.workers.heartbeat import Heartbeat
from infer_app.predict.workers.pool import TASKS_AHEAD
from infer_app.predict.workers.shared_ring import Ring
from tests.support.waiting import wait_until

FACTS = FileFacts(1234, 1.5, "ab" * 32)


def code(image_id: str) -> bytes:
    return zlib.crc32(image_id.encode()).to_bytes(4, "big")


def happen(location: str, stage: str) -> None:
    if location.startswith("once:"):
        _, file, location = location.split(":", 2)
        if location.startswith(stage) and Path(file).exists():
            return
        Path(file).touch() if location.startswith(stage) else None
    wanted, _, what = location.partition(":")
    if wanted != stage:
        return
    if what == "hang":
        time.sleep(600)
    if what == "log":
        logging.getLogger("infer_app.toy").warning("a line of %s", "a worker")
        logging.getLogger("infer_app.toy").info("less")
        logging.getLogger("library").warning("nobody asked")
        return
    if what == "raise":
        raise ValueError("a bug in the handler")
    if what == "OSError":
        raise OSError("not of the pipe")
    if what == "EMFILE":
        raise OSError(errno.EMFILE, "Too many open files")
    if what == "lost":
        raise DeviceLost("the GPU failed: CUDA error: unspecified launch failure", "look at it")
    os.kill(os.getpid(), signal.Signals[what])


@dataclass
class ToyHandler:
    """What all have in common: each image takes up to `delay_s`."""

    delay_s: float = 0.0

    def __call__(self) -> ToyHandler:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        return self

    def copy_slot(self, chunk: Chunk) -> bool:
        for ref in chunk.refs:
            happen(ref.location, "take")
        return False

    def prefetch(self, chunk: Chunk) -> None:
        for ref in chunk.refs:
            happen(ref.location, "expect")

    def delay(self) -> None:
        time.sleep(random.uniform(0, self.delay_s))

    def read(self, chunk: Chunk, heartbeat: Heartbeat) -> Iterator[ImageRef]:
        """Yield the images that are not broken."""
        for position, ref in enumerate(chunk.refs):
            heartbeat.record(position, "read")
            happen(ref.location, "read")
            heartbeat.record(position, "decode", FACTS)
            self.delay()
            happen(ref.location, "decode")
            if ref.location != "broken":
                yield ref

    def predict(self, refs: tuple[ImageRef, ...], heartbeat: Heartbeat) -> None:
        heartbeat.record(0, "model")
        self.delay()
        for ref in refs:
            happen(ref.location, "model")


def rejected(chunk: Chunk) -> tuple[Broken, ...]:
    return tuple(Broken(ref, Reason.CORRUPT, "", "decode", FACTS) for ref in chunk.refs if ref.location == "broken")


class ToyLane(ToyHandler):
    """Of one stage. A prediction's score is the pid of the worker that made it."""

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        good = tuple(self.read(chunk, heartbeat))
        self.predict(good, heartbeat)
        predictions = (Prediction(ref, Output(code(ref.image_id).hex(), float(os.getpid()))) for ref in good)
        return ChunkResult(chunk.number, tuple(predictions), rejected(chunk))


@dataclass
class ToyLoader(ToyHandler):
    """Fills a row with its image's code, over and over; a broken image takes no row."""

    ring: Ring | None = None

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> Loaded:
        rows = self.ring.pixels[chunk.slot].reshape(self.ring.batch_size, -1, 4)
        good = []
        for ref in self.read(chunk, heartbeat):
            rows[len(good)] = np.frombuffer(code(ref.image_id), np.uint8)
            good.append(ref)
        result = ChunkResult(chunk.number, (), rejected(chunk), num_loaded=len(good))
        return Loaded(replace(chunk, refs=tuple(good), files=(FACTS,) * len(good)), result)


@dataclass
class ToyDevice(ToyHandler):
    """A prediction's label is what its row says; a slot that is taken is copied first, as a device does."""

    ring: Ring | None = None

    def __call__(self) -> ToyHandler:
        self.copies: dict[int, np.ndarray] = {}
        return super().__call__()

    def copy_slot(self, chunk: Chunk) -> bool:
        self.copies[id(chunk)] = self.copy(chunk)
        return True

    def copy(self, chunk: Chunk) -> np.ndarray:
        self.delay()
        return self.ring.pixels[chunk.slot][: len(chunk.refs)].copy()

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        rows = self.copies.pop(id(chunk)) if id(chunk) in self.copies else self.copy(chunk)
        self.predict(chunk.refs, heartbeat)
        labels = [bytes(row.ravel()[:4]).hex() for row in rows]
        assert all((row.reshape(-1, 4) == row.ravel()[:4]).all() for row in rows)  # no row of two images
        each = zip(chunk.refs, labels, chunk.files, strict=True)
        return ChunkResult(chunk.number, tuple(Prediction(ref, Output(label), file) for ref, label, file in each), ())


class SteppingLane(ToyLane):
    """Records the steps of every image and costs nothing else."""

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            for position in range(len(chunk.refs)):
                heartbeat.record(position, "read")
                heartbeat.record(position, "decode", FACTS)
            heartbeat.record(0, "model")
        return ChunkResult(chunk.number, tuple(Prediction(ref, Output("a")) for ref in chunk.refs), ())


@dataclass
class SwollenLane(ToyLane):
    """Answers with as many bytes as it is told."""

    num_bytes: int = 0

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        vector = bytes(self.num_bytes)
        return ChunkResult(chunk.number, tuple(Prediction(ref, Output(vector=vector)) for ref in chunk.refs), ())


@dataclass
class CountingLane(ToyLane):
    """Writes a byte for each chunk."""

    file: Path = Path("/dev/null")

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        with self.file.open("ab") as file:
            file.write(b".")
        return super().process(chunk, heartbeat)


@dataclass(frozen=True)
class OpenLate:
    """Opens a lane after others have processed more chunks than they are given before a result of theirs arrives.

    It is killed the first time, and then does what it is told.
    """

    counted: Path
    then: Callable[[], object]

    def __call__(self) -> ToyHandler:
        wait_until(lambda: self.counted.exists() and self.counted.stat().st_size > TASKS_AHEAD)
        killed = self.counted.with_suffix(".killed")
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.then()
        return ToyLane()()


@dataclass(frozen=True)
class OpenNever:
    """Is killed at each start, after others have processed more chunks than they are given before a result arrives."""

    counted: Path

    def __call__(self) -> ToyHandler:
        before = self._num_chunks()
        wait_until(lambda: self._num_chunks() > before + TASKS_AHEAD)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def _num_chunks(self) -> int:
        return self.counted.stat().st_size if self.counted.exists() else 0


@dataclass(frozen=True)
class OpenOnly:
    """Opens a lane the first time, or each time but the first; otherwise does what it is told."""

    file: Path
    otherwise: Callable[[], None]
    is_first: bool

    def __call__(self) -> ToyHandler:
        was_there = self.file.exists()
        self.file.touch()
        if was_there == self.is_first:
            self.otherwise()
        return ToyLane()()
