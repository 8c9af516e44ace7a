"""Run a model in batches of one constant size: it was compiled for it, and all images get the same sums."""

import logging
from collections.abc import Callable, Sequence

import numpy as np

from infer_app.base.errors import is_out_of_memory
from infer_app.base.size import Size

log = logging.getLogger(__name__)


class FixedBatch:
    """A model for (n, H, W, 3) uint8 with n up to `batch_size`, which always runs `batch_size`: (n, D) float32.

    It is not thread-safe: the buffer that pads a smaller batch is reused.
    """

    def __init__(
        self, run: Callable[[np.ndarray], np.ndarray | Sequence[np.ndarray]], size: Size, batch_size: int
    ) -> None:
        """Wrap `run`, which takes contiguous (batch_size, H, W, 3) uint8."""
        self._run = run
        self._padded = self._make_zeros((batch_size, *size.shape))

    @property
    def batch_size(self) -> int:
        return len(self._padded)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        num_images = len(pixels)
        if num_images > self.batch_size or pixels.shape[1:] != self._padded.shape[1:]:
            raise ValueError(f"pixels of {pixels.shape} for a model of {self._padded.shape}")
        if num_images < self.batch_size:
            self._padded[:num_images] = pixels
            self._padded[num_images:] = 0
            pixels = self._padded
        return self._as_rows(self._run(self._contiguous(pixels)))[:num_images]

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the rows of several calls as one array."""
        return np.concatenate(parts)

    def _make_zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, np.uint8)

    def _contiguous(self, pixels: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(pixels)

    def _as_rows(self, output: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        return as_rows(output)

    def warm_up(self, num_runs: int) -> None:
        for _ in range(num_runs):
            self(self._padded)


def as_rows(output: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """Convert an output whose first dimension is the batch, or several, one after the other, to (n, D) float32."""
    if isinstance(output, np.ndarray):
        with np.errstate(over="ignore"):  # float64 overflows to infinity
            return output.astype(np.float32, copy=False).reshape(len(output), -1)
    return np.concatenate([as_rows(one) for one in output], 1)


class AdaptiveBatch:
    """Predicts (n, H, W, 3) uint8 in batches, and halves the batch size for good when the device is out of memory."""

    def __init__(
        self,
        open_model: Callable[[int], FixedBatch],
        batch_size: int,
        model: FixedBatch | None = None,
        free_memory: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the model; it is opened at the first call unless `model`, opened for `batch_size`, is given.

        `free_memory` is called after a model was dropped because the device is out of memory.
        """
        self._open_model = open_model
        self._model = model
        self._free_memory = free_memory
        self.batch_size = batch_size

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Return (n, D) float32 where the model has it. Raises the model's error if not even one image fits."""
        while True:
            rows = self._try(pixels)
            if rows is not None:
                return rows
            # Not in the except block: the traceback keeps the arrays of the batch that didn't fit.
            self._model = None
            self._free_memory()
            self.batch_size //= 2
            log.warning("out of memory: reducing the batch size to %d", self.batch_size)

    def _try(self, pixels: np.ndarray) -> np.ndarray | None:
        try:
            self._model = self._model or self._open_model(self.batch_size)
            step = self.batch_size
            return self._model.join(
                [self._model(pixels[first : first + step]) for first in range(0, len(pixels), step)]
            )
        except (RuntimeError, MemoryError) as error:
            if self.batch_size == 1 or not is_out_of_memory(error):
                raise
            return None
