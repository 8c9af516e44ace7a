"""The handler of a device in the `cuda` executor: it copies the slots of the ring and predicts them.

It has two buffers on the device. While the model runs on one of them, the thread that receives tasks
copies the next slot into the other. A worker has at most two tasks (TASKS_AHEAD), so one buffer is always free.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import thread_time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from infer_app.base.domain import Batch, Chunk, ChunkResult, Sample
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.loader import Loader
from infer_app.predict.handlers.predictor import LoadedModel, Networks, device_loss_raised, result_of
from infer_app.predict.runtimes.fixed_batch import AdaptiveBatch
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.outputs import open_decoder
from infer_app.predict.workers.heartbeat import Heartbeat
from infer_app.predict.workers.pool import TASKS_AHEAD
from infer_app.predict.workers.shared_ring import Ring

log = logging.getLogger(__name__)


class CopyStream:
    """The copies that a device handler needs: plain ones on the CPU, without CUDA."""

    device = torch.device("cpu")

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        """Page-lock memory that will be copied from, so that the device can read it without the CPU."""

    def send(self, pixels: Tensor, target: Tensor) -> None:
        """Copy to the device while the model runs, and return when `pixels` is no longer needed."""
        target.copy_(pixels)

    def predict(self, model: Callable[[Any], Any], pixels: Tensor) -> np.ndarray:
        """Run the model on pixels that were sent, and return its output on the CPU, which the next call overwrites."""
        rows: np.ndarray = model(pixels.numpy())
        return rows

    def free_memory(self) -> None:
        """Give back what torch keeps of the device's memory for later."""


class CudaStream(CopyStream):
    """Copies on one CUDA stream of their own. The model runs on the current stream of the handler's main thread.

    Waiting blocks (blocking=True) instead of spinning, because loaders need the core.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        self._fetched = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        self._rows: Tensor | None = None  # page-locked

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        """Page-lock memory that stays mapped until the process ends: CUDA would go on taking its addresses for locked.

        Where a limit on locked memory forbids it, the CPU stages copies, which is slower.
        """
        torch.cuda.init()  # type: ignore[no-untyped-call]
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        error = runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
        if int(error) != 0:
            log.warning("the ring can't be page-locked (CUDA error %s): copies will be slower", int(error))

    def send(self, pixels: Tensor, target: Tensor) -> None:
        # The target is free: it held the batch before the last one, and `predict` has waited for the model on it. So
        # the copy need not wait for the model's stream. The model sees the copy because this thread waits for it.
        with torch.cuda.stream(self._copies):
            target.copy_(pixels, non_blocking=True)
            self._copied.record(self._copies)
        self._copied.synchronize()

    def predict(self, model: Callable[[Any], Any], pixels: Tensor) -> np.ndarray:
        rows: Tensor = model(pixels)
        if self._rows is None or self._rows.shape[1:] != rows.shape[1:] or len(self._rows) < len(rows):
            self._rows = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        fetched = self._rows[: len(rows)]
        fetched.copy_(rows, non_blocking=True)
        self._fetched.record(torch.cuda.current_stream(self.device))
        self._fetched.synchronize()
        on_cpu: np.ndarray = fetched.numpy()
        return on_cpu

    def free_memory(self) -> None:
        torch.cuda.empty_cache()


@dataclass(frozen=True, slots=True)
class Staged:
    """The pixels of a chunk in a buffer on the device."""

    chunk: Chunk
    buffer: Tensor
    pixels: Tensor  # (n, H, W, 3) uint8, the buffer's first rows
    clock: StageClock  # of the copy


class PredictHandler:
    """Predicts the images in a slot of the ring."""

    def __init__(self, ring: Ring, models: Sequence[LoadedModel], stream: CopyStream) -> None:
        self._slots = torch.from_numpy(ring.pixels)
        self._networks = Networks(models)
        self._stream = stream
        self._buffers: SimpleQueue[Tensor] = SimpleQueue()
        for _ in range(TASKS_AHEAD):
            self._buffers.put(torch.zeros(self._slots.shape[1:], dtype=torch.uint8, device=stream.device))
        self._staged: deque[Staged] = deque()  # in the order in which the chunks are processed
        self._sending = threading.Lock()

    @classmethod
    @device_loss_raised()
    def open(cls, spec: HandlerSpec, ring: Ring, device: str) -> PredictHandler:
        """Open a handler and verify it on the golden images. Raises ModelError."""
        torch.set_num_threads(spec.num_threads)
        stream = open_stream(device)
        stream.page_lock(ring.pixels)
        models = [
            _open_model(number, model, spec.num_threads, ring.batch_size, stream)
            for number, model in enumerate(spec.models)
        ]
        loader = Loader(spec, models[0].artifact)
        for model in models:
            model.verify_golden(loader.pixels, partial(_predict_cpu_pixels, model, stream))
        return cls(ring, models, stream)

    def copy_slot(self, chunk: Chunk) -> bool:
        self._staged.append(self._stage(chunk))
        return True

    def prefetch(self, chunk: Chunk) -> None:
        pass

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        heartbeat.record(0, "model")
        is_staged = bool(self._staged) and self._staged[0].chunk is chunk  # else it came before the handler was open
        staged = self._staged.popleft() if is_staged else self._stage(chunk)
        pixels: Any = staged.pixels
        batch = Batch(pixels, tuple(map(Sample, chunk.refs, pixels, chunk.files)), ())
        results = list(self._networks.predict(batch, chunk, 0, heartbeat, staged.clock))
        self._buffers.put(staged.buffer)
        return result_of(chunk, results, staged.clock)

    def _stage(self, chunk: Chunk) -> Staged:
        assert chunk.slot is not None
        clock = StageClock(thread_time)
        buffer = self._buffers.get()
        pixels = buffer[: len(chunk.refs)]
        with clock.time("copy"), self._sending, device_loss_raised():
            self._stream.send(self._slots[chunk.slot][: len(chunk.refs)], pixels)
        return Staged(chunk, buffer, pixels, clock)


def _predict_cpu_pixels(model: LoadedModel, stream: CopyStream, pixels: np.ndarray) -> np.ndarray:
    """Predict pixels that are on the CPU, and copy the result: the model reuses its output buffer."""
    on_device: Any = torch.from_numpy(pixels).to(stream.device)
    return model.predict(on_device).copy()


def _open_model(number: int, spec: ModelSpec, num_threads: int, batch_size: int, stream: CopyStream) -> LoadedModel:
    artifact = spec.open()
    open_batch = partial(open_variant, artifact, spec.variant, num_threads=num_threads, device=stream.device)
    model = AdaptiveBatch(open_batch, spec.batch_size or batch_size, free_memory=stream.free_memory)
    predict: Any = partial(stream.predict, model)
    return LoadedModel(number, artifact, spec.variant, batch_size, predict, open_decoder(artifact))


def open_stream(device: str) -> CopyStream:
    """Open the copies for a device, given by torch's name: cpu, cuda, cuda:1."""
    return CopyStream() if device == "cpu" else CudaStream(torch.device(device))
