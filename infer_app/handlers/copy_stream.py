"""Copies between the ring and the device: on a separate CUDA stream, or synchronously if the device is the CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

log = logging.getLogger(__name__)


class CopyStream(Protocol):
    """The copies that a device handler needs."""

    device: torch.device

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        """Page-lock memory that will be copied from, so that the device can read it without the CPU."""

    def send(self, pixels: Tensor, target: Tensor) -> None:
        """Copy to the device while the model runs, and return when `pixels` is no longer needed."""

    def predict(self, model: Callable[[Any], Any], pixels: Tensor) -> np.ndarray:
        """Run the model on pixels that were sent, and return its output on the CPU, which the next call overwrites."""

    def free_memory(self) -> None:
        """Give back what torch keeps of the device's memory for later."""


class NullStream:
    """Plain copies on the CPU, without CUDA."""

    device = torch.device("cpu")

    def page_lock(self, memory: npt.NDArray[np.uint8]) -> None:
        return

    def send(self, pixels: Tensor, target: Tensor) -> None:
        target.copy_(pixels)

    def predict(self, model: Callable[[Any], Any], pixels: Tensor) -> np.ndarray:
        rows: np.ndarray = model(pixels.numpy())
        return rows

    def free_memory(self) -> None:
        return


class CudaStream:
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
        """Page-lock the memory. Where a limit on locked memory forbids it, the CPU stages copies, which is slower."""
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


def open_stream(device: str) -> CopyStream:
    """Open the copies for a device, given by torch's name: cpu, cuda, cuda:1."""
    return NullStream() if device == "cpu" else CudaStream(torch.device(device))
