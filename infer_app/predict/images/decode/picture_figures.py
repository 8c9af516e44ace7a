"""Figures of a decoded picture, by which a camera's days are compared: some thousand points of it, in microseconds."""

import math

import numpy as np

from infer_app.base.domain import PictureFigures
from infer_app.predict.images.transform.geometry import Pixels

ROWS, COLUMNS = 40, 45  # points
EACH = 5  # of the rows and columns of points, one is part of the look
GREEN = 1
MIN_SIDE = 50  # pixels


def measure_picture(rgb: Pixels) -> PictureFigures | None:
    """Return the figures of an upright picture, (height, width, 3) uint8; None for one that is too small.

    A point is the mean of two pixels, so that the sensor's noise counts for less, and a picture that was decoded at an
    eighth of its size has about the same figures as the whole one, but for the look.
    """
    height, width, _ = rgb.shape
    if min(height, width) < MIN_SIDE:
        return None
    apart, near = max(1, width // 200), max(1, width // 1000)
    steps = (height - near) // ROWS, (width - apart - near) // COLUMNS
    top, left = (height - near - steps[0] * ROWS) // 2, (width - apart - near - steps[1] * COLUMNS) // 2
    points, others = (_points(rgb[top:, start:, GREEN], steps, near) for start in (left, left + apart))
    look = points[EACH // 2 :: EACH, EACH // 2 :: EACH]  # 8 x 9
    bits = np.packbits(look[:, 1:] > look[:, :-1]).tobytes()
    flat, size = points.ravel(), 2.0 * points.size
    mean = float(flat.sum()) / size
    variance = float(flat @ flat) / (2 * size) - mean * mean
    sharpness = float(np.abs(points - others).sum()) / size
    return PictureFigures(mean, math.sqrt(max(0.0, variance)), sharpness, int.from_bytes(bits, "big", signed=True))


def _points(green: Pixels, steps: tuple[int, int], near: int) -> np.ndarray:
    """Return sums of two pixels, (ROWS, COLUMNS) float64."""
    rows, columns = ROWS * steps[0], COLUMNS * steps[1]
    one, other = (green[by : by + rows : steps[0], by : by + columns : steps[1]] for by in (0, near))
    return np.add(one, other, dtype=np.int16).astype(np.float64)
