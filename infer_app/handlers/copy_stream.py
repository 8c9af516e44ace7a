"""Copies between the ring and the device: on a CUDA stream of their own, or at once where the device is the CPU."""

from __future__ import annotations

import logging
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

log = logging.getLogger(__name__)


class CopyStream(Protocol):
    """What a device handler asks of its device."""

    device: torch.device

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        """Tells the device of memory that it will copy from, once: it may then read it without the CPU."""

    def send(self, pixels: Tensor, target: Tensor) -> None:
        """Copies to the device, beside what the model does there. Returns when `pixels` is no longer needed."""

    def fetch(self, rows: Tensor) -> Tensor:
        """The model's output on the CPU, valid until the next call: the one place that waits for the model."""


class NullStream:
    """Without CUDA: the same steps, by plain copies."""

    device = torch.device("cpu")

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        return

    def send(self, pixels: Tensor, target: Tensor) -> None:
        target.copy_(pixels)

    def fetch(self, rows: Tensor) -> Tensor:
        return rows


class CudaStream:
    """One copy stream for the life of a handler. The model runs on the current stream of the handler's main thread.

    Waiting sleeps (blocking=True) instead of spinning: the core is a loader's.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        self._fetched = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        self._rows: Tensor | None = None  # page-locked

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        """Without it (a limit on locked memory) copies still work, but each waits for the CPU to stage it."""
        torch.cuda.init()  # type: ignore[no-untyped-call]
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        error = runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
        if int(error) != 0:
            log.warning("the ring can't be page-locked (CUDA error %s): copies will be slower", int(error))

    def send(self, pixels: Tensor, target: Tensor) -> None:
        # The target is free: it was the batch before last, and fetch has waited for the model on it. So the copy need
        # not wait for the model's stream, and the model sees the copy because this thread has waited for it.
        with torch.cuda.stream(self._copies):
            target.copy_(pixels, non_blocking=True)
            self._copied.record(self._copies)
        self._copied.synchronize()

    def fetch(self, rows: Tensor) -> Tensor:
        if self._rows is None or self._rows.shape[1:] != rows.shape[1:] or len(self._rows) < len(rows):
            self._rows = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        here = self._rows[: len(rows)]
        here.copy_(rows, non_blocking=True)
        self._fetched.record(torch.cuda.current_stream(self.device))
        self._fetched.synchronize()
        return here


def open_stream(device: str) -> CopyStream:
    """Of a device by torch's name for it: cpu, cuda, cuda:1."""
    return NullStream() if device == "cpu" else CudaStream(torch.device(device))
