"""Resize without antialiasing: each pixel is interpolated between the nearest ones of the picture, and no others.

OpenCV's `resize` does this (INTER_LINEAR, INTER_CUBIC), and torch's `interpolate(antialias=False)`. The centre of a
pixel lies at its half, and beyond an edge its pixels are repeated.
"""

from collections.abc import Iterable

import numpy as np

from infer_app.images.transform.geometry import Geometry, Pixels

BLOCK = 64  # rows that are computed at a time, so that they stay in a processor's cache
CUBIC = -0.75  # the parameter of Keys' kernel in OpenCV and torch; Pillow's is -0.5
_OFFSETS = {"bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}  # of the pixels that one is interpolated from


def interpolate(rgb: Pixels, geometry: Geometry, interpolation: str) -> Pixels:
    """Resize the geometry's source, of which `rgb` are the pixels, to (height, width, 3).

    Raises MemoryError.
    """
    width, height = geometry.resized
    if rgb.shape[:2] == (height, width):
        return rgb
    rows, row_weights = _neighbours(rgb.shape[0], height, interpolation)
    columns, column_weights = _neighbours(rgb.shape[1], width, interpolation)
    resized = np.empty((height, width, 3), np.uint8)
    for first in range(0, height, BLOCK):
        block = slice(first, first + BLOCK)
        needed, places = np.unique(rows[:, block], return_inverse=True)
        part = rgb[needed]
        across = _sum((part.take(column, axis=1) for column in columns), column_weights[..., None])
        places = places.reshape(len(rows), -1)
        down = _sum((across[place] for place in places), row_weights[:, block, None, None])
        resized[block] = np.rint(down).clip(0, 255)
    return resized


def interpolate_by_matrices(rgb: Pixels, geometry: Geometry, interpolation: str) -> Pixels:
    """Resize by the kernels' definition, in float64: every pixel of the source has its weight, though most have 0."""
    width, height = geometry.resized
    down, across = (_matrix(*lengths, interpolation) for lengths in ((rgb.shape[0], height), (rgb.shape[1], width)))
    channels = [down @ rgb[..., channel] @ across.T for channel in range(3)]
    pixels: Pixels = np.rint(np.stack(channels, axis=-1)).clip(0, 255).astype(np.uint8)
    return pixels


def _sum(pictures: Iterable[np.ndarray], weights: np.ndarray) -> np.ndarray:
    total: np.ndarray = sum(picture * weight for picture, weight in zip(pictures, weights, strict=True))
    return total


def _neighbours(length: int, resized: int, interpolation: str) -> tuple[np.ndarray, np.ndarray]:
    """Return which pixels each resized one is interpolated from, and their weights: both (neighbours, resized)."""
    centres = _centres(length, resized)
    first, offsets = np.floor(centres).astype(np.intp), np.array(_OFFSETS[interpolation])[:, None]
    weights = _kernel(centres - first - offsets, interpolation)
    return (first + offsets).clip(0, length - 1), weights.astype(np.float32)


def _matrix(length: int, resized: int, interpolation: str) -> np.ndarray:
    """Return the weights of all pixels, (resized, length) float64; those of repeated ones are the edge's."""
    margin = len(_OFFSETS[interpolation]) // 2
    positions = np.arange(-margin, length + margin)
    weights = _kernel(_centres(length, resized)[:, None] - positions, interpolation)
    matrix = weights[:, margin:-margin].copy()
    matrix[:, 0] += weights[:, :margin].sum(1)
    matrix[:, -1] += weights[:, -margin:].sum(1)
    return matrix


def _centres(length: int, resized: int) -> np.ndarray:
    """Return where the centres of the resized pixels lie, in pixels from the centre of the first."""
    centres: np.ndarray = (np.arange(resized) + 0.5) * (length / resized) - 0.5
    return centres


def _kernel(distance: np.ndarray, interpolation: str) -> np.ndarray:
    """Return a pixel's weight by its distance; bicubic is Keys' (1981), Cubic convolution interpolation."""
    x: np.ndarray = np.abs(distance)
    if interpolation == "bilinear":
        weights: np.ndarray = np.maximum(1 - x, 0)
    else:
        near = ((CUBIC + 2) * x - (CUBIC + 3)) * x**2 + 1
        far = CUBIC * (((x - 5) * x + 8) * x - 4)
        weights = np.where(x <= 1, near, far) * (x < 2)
    return weights
