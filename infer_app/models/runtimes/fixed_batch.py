"""Run a model in batches of one constant size: it was compiled for it, and all images get the same sums."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from infer_app.models.runtimes.device_errors import is_out_of_memory
from infer_app.recipe import Size

log = logging.getLogger(__name__)


class FixedBatch:
    """A model for (n, H, W, 3) uint8 with n up to `batch_size`, which always runs `batch_size`: (n, D) float32.

    It is not thread-safe: the buffer that pads a smaller batch is reused.
    """

    def __init__(
        self,
        run: Callable[[Tensor], Tensor | Sequence[Tensor]],
        size: Size,
        batch_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        """Wrap `run`, which takes contiguous (batch_size, H, W, 3) uint8 on `device` and returns rows there."""
        self._run = run
        self._padded = torch.zeros(batch_size, *size.shape, dtype=torch.uint8, device=device)

    @property
    def device(self) -> torch.device:
        return self._padded.device

    @property
    def batch_size(self) -> int:
        return len(self._padded)

    def __call__(self, pixels: Tensor) -> Tensor:
        num_images = pixels.shape[0]
        if num_images > self.batch_size or pixels.shape[1:] != self._padded.shape[1:]:
            raise ValueError(f"pixels of {tuple(pixels.shape)} for a model of {tuple(self._padded.shape)}")
        if num_images < self.batch_size:
            self._padded[:num_images] = pixels
            self._padded[num_images:] = 0
            pixels = self._padded
        return as_rows(self._run(pixels.to(self.device).contiguous()))[:num_images]

    def warm_up(self, num_runs: int = 1) -> None:
        for _ in range(num_runs):
            self(self._padded)


def as_rows(output: Tensor | Sequence[Tensor]) -> Tensor:
    """Convert an output whose first dimension is the batch, or several, one after the other, to (n, D) float32."""
    if isinstance(output, Tensor):
        return output.float().reshape(output.shape[0], -1)
    return torch.cat([as_rows(one) for one in output], 1)


class AdaptiveBatch:
    """Predicts (n, H, W, 3) uint8 in batches, and halves the batch size for good when the device is out of memory."""

    def __init__(
        self, open_model: Callable[[int], FixedBatch], batch_size: int, model: FixedBatch | None = None
    ) -> None:
        """Prepare the model; it is opened at the first call unless `model`, opened for `batch_size`, is given."""
        self._open_model = open_model
        self._model = model
        self.batch_size = batch_size

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return (n, D) float32 on the device. Raises the model's error if not even one image fits."""
        while True:
            rows = self._try(pixels)
            if rows is not None:
                return rows
            # Not in the except block: the traceback keeps the tensors of the batch that didn't fit.
            self._model = None
            if pixels.is_cuda:
                torch.cuda.empty_cache()
            self.batch_size //= 2
            log.warning("out of memory: reducing the batch size to %d", self.batch_size)

    def _try(self, pixels: Tensor) -> Tensor | None:
        try:
            self._model = self._model or self._open_model(self.batch_size)
            step = self.batch_size
            return torch.cat([self._model(pixels[first : first + step]) for first in range(0, len(pixels), step)])
        except (RuntimeError, MemoryError) as error:
            if self.batch_size == 1 or not is_out_of_memory(error):
                raise
            return None
