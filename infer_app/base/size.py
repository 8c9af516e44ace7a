"""A width and a height in pixels."""

from __future__ import annotations

import re
from typing import NamedTuple

LARGE_PIXELS = 1 << 20  # a network takes seconds an image of more
BATCH_PIXELS = 1 << 21  # larger batches only take more memory: such an input keeps a core busy by itself


class Size(NamedTuple):
    """A width and a height in pixels, written as `640x480`, and those of a square as one number."""

    width: int
    height: int

    @classmethod
    def square(cls, side: int) -> Size:
        return cls(side, side)

    @classmethod
    def of(cls, value: Size | int | str) -> Size:
        """Return a size by any of its forms: `to_json` gives a number or a text. Raises ValueError."""
        if isinstance(value, Size):
            return value
        lengths = re.fullmatch(r"([1-9][0-9]*)(?:x([1-9][0-9]*))?", str(value))
        if lengths is None:
            raise ValueError(f"{value!r} is not a size such as 224 or 640x480")
        return cls(int(lengths[1]), int(lengths[2] or lengths[1]))

    @property
    def is_large(self) -> bool:
        return self.width * self.height > LARGE_PIXELS

    @property
    def is_square(self) -> bool:
        return self.width == self.height

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the shape of the pixels of an image: (height, width, 3)."""
        return self.height, self.width, 3

    def largest_batch(self, num_images: int) -> int:
        """Return how many images a batch of at most `num_images` should have: a power of two, as chunks take."""
        most = max(1, min(num_images, BATCH_PIXELS // (self.width * self.height)))
        return 1 << (most.bit_length() - 1)

    @property
    def num_bytes(self) -> int:
        """Return the number of bytes of an image, uint8."""
        return self.height * self.width * 3

    def to_json(self) -> int | str:
        return self.width if self.is_square else str(self)

    def __str__(self) -> str:
        return f"{self.width}" if self.is_square else f"{self.width}x{self.height}"
