"""A model that reduces its batch size when the device runs out of memory."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from infer_app.handlers.device_errors import is_out_of_memory
from infer_app.models.runtimes.fixed_batch import FixedBatch

log = logging.getLogger(__name__)


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
