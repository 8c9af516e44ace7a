"""Lanes whose images say by their location what happens to the worker that has them in hand.

`read:log` logs; `decode:SIGSEGV` raises that signal on itself while the heartbeat says decode; `read:hang` never ends;
`take:` and `expect:` do it in the thread that listens to the pipe; `model:lost` loses the GPU. `once:FILE:…` does so
only the first time, when FILE is not there yet. Everything else becomes a prediction.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from infer_app.domain import Chunk, ChunkResult, FileFacts, Output, Prediction
from infer_app.errors import DeviceLost, ModelError
from infer_app.workers.heartbeat import Heartbeat

FACTS = FileFacts(1234, 1.5, "ab" * 32)


class ToyLane:
    """A prediction's label is the location, its score the pid of the worker that made it."""

    def copy_slot(self, chunk: Chunk) -> bool:
        for ref in chunk.refs:
            happen(ref.location, "take")
        return False

    def prefetch(self, chunk: Chunk) -> None:
        for ref in chunk.refs:
            happen(ref.location, "expect")

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        for position, ref in enumerate(chunk.refs):
            heartbeat.record(position, "read")
            happen(ref.location, "read")
            heartbeat.record(position, "decode", FACTS)
            happen(ref.location, "decode")
        heartbeat.record(0, "model")
        for ref in chunk.refs:
            happen(ref.location, "model")
        predictions = tuple(Prediction(ref, Output(ref.location, float(os.getpid()))) for ref in chunk.refs)
        return ChunkResult(chunk.number, predictions, ())


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


def open_toy() -> ToyLane:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return ToyLane()


def open_refused() -> ToyLane:
    raise ModelError("models/pets: changed since it was built", "restore it")


def open_dying() -> ToyLane:
    os._exit(7)


@dataclass(frozen=True)
class OpenOnce:
    """Dies by SIGKILL on the first opening, as under the kernel's out-of-memory killer."""

    file: Path

    def __call__(self) -> ToyLane:
        if not self.file.exists():
            self.file.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return open_toy()


@dataclass(frozen=True)
class OpenUntilLost:
    """Opens until the GPU has failed once, and then finds none."""

    file: Path

    def __call__(self) -> ToyLane:
        if self.file.exists():
            raise DeviceLost("the GPU failed: CUDA error: no CUDA-capable device is detected", "look at it")
        self.file.touch()
        return open_toy()


@dataclass(frozen=True)
class Swollen:
    """Answers with as many bytes as it is told."""

    num_bytes: int

    def __call__(self) -> Swollen:
        return self

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        pass

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        vector = bytes(self.num_bytes)
        return ChunkResult(chunk.number, tuple(Prediction(ref, Output(vector=vector)) for ref in chunk.refs), ())
