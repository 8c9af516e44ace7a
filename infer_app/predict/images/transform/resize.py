"""Resize pixels as Pillow does, within 2 levels, or without antialiasing; no other module imports cykooz_resizer.

Where that is not installed, as on aarch64, for which it has no wheels, Pillow itself resizes, which takes longer.
Without antialiasing each pixel is interpolated between the nearest ones of the picture, and no others, as OpenCV's
`resize` does (INTER_LINEAR, INTER_CUBIC), and torch's `interpolate(antialias=False)`. The centre of a pixel lies at its
half, and beyond an edge its pixels are repeated. OpenCV's INTER_AREA averages what a pixel covers; where a side
grows it interpolates both sides, between two pixels each.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np
from PIL import Image

from infer_app.predict.images.transform.geometry import Geometry, Pixels

try:
    import cykooz_resizer
except ModuleNotFoundError:
    cykooz_resizer = None

_MARGIN = 1e-4  # of a resized pixel, which torch needed where a source ends inside a pixel: so bytes stay as they were
_FILTERS = {"bicubic": "catmull_rom", "bilinear": "bilinear"}
_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
BLOCK = 64  # rows that are computed at a time, so that they stay in a processor's cache
CUBIC = -0.75  # the parameter of Keys' kernel in OpenCV and torch; Pillow's is -0.5
Neighbours = tuple[np.ndarray, np.ndarray]  # pixels of each resized one, or the first of them, and their weights
_OFFSETS = {"bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}  # of the pixels that one is interpolated from


def resize(rgb: Pixels, geometry: Geometry, interpolation: str) -> Pixels:
    """Resize the geometry's source, of which `rgb` are the pixels, to (height, width, 3).

    Raises MemoryError.
    """
    (width, height), (rows, columns) = geometry.resized, rgb.shape[:2]
    if (rows, columns) == (height, width):
        return rgb
    is_other_order = interpolation == "bicubic" and not starts_horizontally(columns, rows, (width, height))
    if is_other_order or cykooz_resizer is None:
        return pillow_resize(rgb, geometry, interpolation)
    _check_memory(2 * rgb.nbytes, width * rows, width * height)  # the source as bytes, and the library's copy of them
    image = cykooz_resizer.ImageData(columns, rows, cykooz_resizer.PixelType.U8x3, rgb.tobytes())
    # Two calls, because in one call the library begins with the rows.
    box_width, box_height = _box(rgb, geometry)
    if (box_height, box_width) != (rows, columns):
        box_width, box_height = box_width * width / (width + _MARGIN), box_height * height / (height + _MARGIN)
    if (box_width, columns) != (width, width):
        image = _resized(image, (width, rows), (box_width, rows), interpolation)
    if (box_height, rows) != (height, height):
        image = _resized(image, (width, height), (width, box_height), interpolation)
    return np.frombuffer(image.get_buffer(), np.uint8).reshape(height, width, 3)


def pillow_resize(rgb: Pixels, geometry: Geometry, interpolation: str) -> Pixels:
    """Resize by Pillow itself."""
    image = Image.fromarray(np.ascontiguousarray(rgb))
    return np.array(image.resize(geometry.resized, _RESAMPLING[interpolation], (0, 0, *_box(rgb, geometry))))


def starts_horizontally(width: int, height: int, size: tuple[int, int]) -> bool:
    """Return whether Pillow does the horizontal pass first, as `resize` always does.

    Bicubic overshoots and each pass clips to 0-255, so the order matters: up to 30 levels at hard edges. The condition
    is that of Pillow 13 (ImagingResampleInner in Resample.c); older versions always begin horizontally.
    """
    fewer_rows = height - size[1]
    return fewer_rows <= 0 or fewer_rows <= 2 * (width - size[0])


def _box(rgb: Pixels, geometry: Geometry) -> tuple[float, float]:
    """Return the width and the height of what is resized: the source may end inside the last pixels."""
    return min(geometry.source.width, rgb.shape[1]), min(geometry.source.height, rgb.shape[0])


def _resized(image: object, size: tuple[int, int], box: tuple[float, float], interpolation: str) -> Any:
    """Return an ImageData of this size, resized from the box at the origin of another one."""
    options = cykooz_resizer.ResizeOptions(
        _algorithm(interpolation), crop_box=cykooz_resizer.CropBox(0, 0, *box), use_alpha=False
    )
    resized = cykooz_resizer.ImageData(*size, cykooz_resizer.PixelType.U8x3)
    cykooz_resizer.Resizer().resize(image, resized, options)  # threads would wait for a shared one
    return resized


@cache
def _algorithm(interpolation: str) -> object:
    return cykooz_resizer.ResizeAlg.convolution(getattr(cykooz_resizer.FilterType, _FILTERS[interpolation]))


def _check_memory(num_bytes: int, *num_pixels: int) -> None:
    """Raise MemoryError if there is no memory for these buffers: the library would end the process instead."""
    np.empty(num_bytes + sum(3 * count for count in num_pixels), np.uint8)


def interpolate(rgb: Pixels, geometry: Geometry, interpolation: str, dtype: type = np.float32) -> Pixels:
    """Resize the geometry's source, of which `rgb` are the pixels, to (height, width, 3), by weights of this type.

    Raises MemoryError.
    """
    (width, height), interpolation = geometry.resized, _by_side(rgb, geometry, interpolation)
    if rgb.shape[:2] == (height, width):
        return rgb
    rows, row_weights = _neighbours(rgb.shape[0], height, interpolation, dtype)
    columns, column_weights = _neighbours(rgb.shape[1], width, interpolation, dtype)
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


def _sum(pictures: Iterable[np.ndarray], weights: np.ndarray) -> np.ndarray:
    total: np.ndarray = sum(picture * weight for picture, weight in zip(pictures, weights, strict=True))
    return total


def _by_side(rgb: Pixels, geometry: Geometry, interpolation: str) -> str:
    """Return how each side is interpolated: by area none is averaged where the other one grows."""
    (width, height), (rows, columns) = geometry.resized, rgb.shape[:2]
    return "grown-area" if interpolation == "area" and (height > rows or width > columns) else interpolation


def _neighbours(length: int, resized: int, interpolation: str, dtype: type) -> Neighbours:
    """Return which pixels each resized one is interpolated from, and their weights: both (neighbours, resized)."""
    first, weights = _NEIGHBOURS[interpolation](length, resized)
    return (first + np.arange(len(weights))[:, None]).clip(0, length - 1), weights.astype(dtype)


def _of_kernel(interpolation: str, length: int, resized: int) -> Neighbours:
    centres = (np.arange(resized) + 0.5) * (length / resized) - 0.5  # in pixels from the centre of the first
    first, offsets = np.floor(centres).astype(np.intp), np.array(_OFFSETS[interpolation])[:, None]
    return first + offsets[0], _kernel(centres - first - offsets, interpolation)


def _of_area(length: int, resized: int) -> Neighbours:
    """Return the first pixel that each resized one covers, and what share of it each covered one is."""
    starts, step = np.arange(resized) * (length / resized), length / resized
    first = np.floor(starts).astype(np.intp)
    covered = first + np.arange(int(step) + 2)[:, None]
    return first, (np.minimum(covered + 1, starts + step) - np.maximum(covered, starts)).clip(0) / step


def _of_grown_area(length: int, resized: int) -> Neighbours:
    """Return the same of two pixels each; rounding decides which, so it is computed in OpenCV's order."""
    numbers, growth = np.arange(resized), resized / length
    first = np.floor(numbers * (1 / growth)).astype(np.intp)
    second = (numbers + 1 - (first + 1) * growth).astype(np.float32)
    second = np.where(second <= 0, 0, second - np.floor(second))
    return first, np.stack([1 - second, second])


_NEIGHBOURS: dict[str, Callable[[int, int], Neighbours]] = {
    **{name: partial(_of_kernel, name) for name in _OFFSETS},
    "area": _of_area,
    "grown-area": _of_grown_area,
}


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
