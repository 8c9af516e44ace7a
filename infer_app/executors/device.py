"""The two lanes of a machine with a device: one fills slots of the ring, the other copies them out and predicts.

The device lane has two buffers on the device. While the model runs on one, the thread that listens to the pipe copies
the next slot into the other; at most two chunks are under way (TASKS_AHEAD), so one buffer is always free for it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from time import thread_time

import torch
from torch import Tensor

from infer_app.executors.halving import Halving
from infer_app.executors.loader import Loader
from infer_app.executors.predictor import LaneModel
from infer_app.executors.spec import DeviceSpec, LoaderSpec, ModelSpec
from infer_app.executors.stream import CopyStream, open_stream
from infer_app.loading.mark import Mark
from infer_app.loading.ring import Ring
from infer_app.loading.workers import TASKS_AHEAD
from infer_app.models.artifact import open_artifact
from infer_app.models.variants import open_variant
from infer_app.observe.stages import StageClock
from infer_app.records import Batch, Broken, Chunk, ChunkResult, Loaded, Prediction, Sample


class LoaderLane:
    """Decodes a chunk into its slot."""

    def __init__(self, loader: Loader, ring: Ring, is_traced: bool = False) -> None:
        self._loader = loader
        self._ring = ring
        self._slots = torch.from_numpy(ring.pixels)
        self._is_traced = is_traced

    @classmethod
    def open(cls, spec: LoaderSpec) -> LoaderLane:
        torch.set_num_threads(1)
        return cls(Loader(spec.lane, open_artifact(spec.lane.models[0].artifact)), spec.ring, spec.lane.trace)

    def process(self, chunk: Chunk, mark: Mark) -> Loaded:
        assert chunk.slot is not None
        clock = StageClock(self._is_traced)
        self._loader.begin(chunk)
        batch = self._loader.load(chunk.refs, 0, self._slots[chunk.slot], mark, clock)
        self._loader.learn(clock)
        result = ChunkResult(chunk.number, (), batch.broken, chunk.models, num_loaded=len(batch.samples))
        good = replace(
            chunk,
            refs=tuple(sample.ref for sample in batch.samples),
            files=tuple(sample.file for sample in batch.samples),
        )
        return Loaded(good, clock.stamp(result))

    def take(self, chunk: Chunk) -> bool:
        return False

    def expect(self, chunk: Chunk) -> None:
        self._loader.expect(chunk)


@dataclass(frozen=True, slots=True)
class Staged:
    """A chunk's pixels in one of the buffers on the device."""

    buffer: Tensor
    pixels: Tensor  # (n, H, W, 3) uint8, the buffer's first rows
    clock: StageClock  # of the copy


class DeviceLane:
    """Predicts what lies in a slot."""

    def __init__(self, ring: Ring, models: Sequence[LaneModel], stream: CopyStream, is_traced: bool = False) -> None:
        self._slots = torch.from_numpy(ring.pixels)
        self._models = tuple(models)
        self._stream = stream
        self._is_traced = is_traced
        self._buffers: SimpleQueue[Tensor] = SimpleQueue()
        for _ in range(TASKS_AHEAD):
            self._buffers.put(torch.zeros(self._slots.shape[1:], dtype=torch.uint8, device=stream.device))
        self._staged: dict[int, Staged] = {}  # by the identity of the chunk, which its task keeps alive
        self._sending = threading.Lock()

    @classmethod
    def open(cls, spec: DeviceSpec) -> DeviceLane:
        """A lane that has proved itself on the golden images, by the way of the CPU's decoder. Raises ModelError."""
        torch.set_num_threads(spec.lane.num_threads)
        stream = open_stream(spec.device)
        stream.page_lock(spec.ring.pixels)
        models = [_open_model(number, model, spec, stream) for number, model in enumerate(spec.lane.models)]
        loader = Loader(replace(spec.lane, cache=None), models[0].artifact)
        for model in models:
            model.prove(loader.pixels, partial(_predict_here, model, stream))
        return cls(spec.ring, models, stream, spec.lane.trace)

    def take(self, chunk: Chunk) -> bool:
        self._staged[id(chunk)] = self._stage(chunk)
        return True

    def expect(self, chunk: Chunk) -> None:
        pass

    def process(self, chunk: Chunk, mark: Mark) -> ChunkResult:
        mark.hold(0, "model")
        staged = self._staged.pop(id(chunk), None) or self._stage(chunk)  # one that came before the lane was open
        clock = staged.clock
        samples = tuple(map(Sample, chunk.refs, staged.pixels, chunk.files))
        batch = Batch(staged.pixels, samples, ())
        results = [one for number in chunk.models for one in self._models[number].infer(batch, clock)]
        self._buffers.put(staged.buffer)
        predictions = tuple(one for one in results if isinstance(one, Prediction))
        broken = tuple(one for one in results if isinstance(one, Broken))
        return clock.stamp(ChunkResult(chunk.number, predictions, broken, chunk.models))

    def _stage(self, chunk: Chunk) -> Staged:
        assert chunk.slot is not None
        clock = StageClock(self._is_traced, thread_time)
        clock.refs = chunk.refs
        buffer = self._buffers.get()
        pixels = buffer[: len(chunk.refs)]
        with clock.time("copy"), self._sending:
            self._stream.send(self._slots[chunk.slot][: len(chunk.refs)], pixels)
        return Staged(buffer, pixels, clock)


def _predict_here(model: LaneModel, stream: CopyStream, pixels: Tensor) -> Tensor:
    """Of pixels on the CPU, and its own: what a model gives is valid until its next call."""
    return model.predict(pixels.to(stream.device)).clone()


def _open_model(number: int, spec: ModelSpec, device: DeviceSpec, stream: CopyStream) -> LaneModel:
    artifact = open_artifact(spec.artifact)
    open_batch = partial(
        open_variant, artifact, spec.variant, num_threads=device.lane.num_threads, device=stream.device
    )
    model = Halving(open_batch, spec.batch_size or device.ring.batch_size)
    return LaneModel(number, artifact, spec.variant, device.ring.batch_size, lambda pixels: stream.fetch(model(pixels)))
