"""Run a model with one constant batch size, for which it was compiled and with which all images get the same sums."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class FixedBatch:
    """A model for (n, H, W, 3) uint8 with n up to `batch_size`, which always runs `batch_size`: (n, D) float32.

    It is not thread-safe: the buffer that pads a smaller batch is reused.
    """

    def __init__(
        self, run: Callable[[Tensor], Tensor], size: int, batch_size: int, device: torch.device | str = "cpu"
    ) -> None:
        """Wrap `run`, which takes contiguous (batch_size, size, size, 3) uint8 on `device` and returns rows there."""
        self._run = run
        self._padded = torch.zeros(batch_size, size, size, 3, dtype=torch.uint8, device=device)

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


def as_rows(output: Tensor) -> Tensor:
    """Convert an output whose first dimension is the batch to (n, D) float32."""
    return output.float().reshape(output.shape[0], -1)
