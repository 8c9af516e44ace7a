"""Decoded pixels, and the picture they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3) RGB


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright picture as its decoder made it: whole, or shrunk.

    A pixel of a shrunk one stands for scale x scale pixels of the whole, in the last column and row perhaps for fewer.
    """

    rgb: Pixels  # C-contiguous
    width: int  # of the whole picture, from which all geometry is computed
    height: int
    scale: int = 1

    @classmethod
    def whole(cls, rgb: Pixels) -> Picture:
        return cls(rgb, rgb.shape[1], rgb.shape[0])
