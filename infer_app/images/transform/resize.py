"""Resize pixels as Pillow does, within 2 levels; no other module imports cykooz_resizer.

Where that is not installed, as on aarch64, for which it has no wheels, Pillow itself resizes, which takes longer.
"""

from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from infer_app.images.transform.geometry import Geometry, Pixels

try:
    import cykooz_resizer
except ModuleNotFoundError:
    cykooz_resizer = None

_MARGIN = 1e-4  # of a resized pixel, which torch needed where a source ends inside a pixel: so bytes stay as they were
_FILTERS = {"bicubic": "catmull_rom", "bilinear": "bilinear"}
_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


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
