"""Make four images in code, for models that are built without golden photos.

Together they have smooth colour, edges and noise; they are JPEG and PNG, grey, EXIF-rotated; wide, tall and small.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
from PIL import Image

_ORIENTATION = 274  # EXIF tag
_ROTATED = 6  # shown a quarter turn clockwise
_Pixels = np.ndarray


@cache
def synthetic_images() -> Mapping[str, bytes]:
    """Return encoded images by file name; the pixels are the same at each call."""
    images = {
        "gradient.jpg": _jpeg(Image.fromarray(_gradient(500, 375))),
        "grey-rotated.jpg": _jpeg(Image.fromarray(_shapes(320, 480)).convert("L"), orientation=_ROTATED),
        "shapes.png": _png(Image.fromarray(_shapes(640, 427))),
        "noise.jpg": _jpeg(Image.fromarray(_noise(301, 260))),
    }
    return MappingProxyType(images)


@cache
def large_image(shorter_side: int) -> bytes:
    """Return a JPEG of about 4:3 whose odd longer side is not divisible by any scale."""
    shapes = Image.fromarray(_shapes(400, 300))
    return _jpeg(shapes.resize((shorter_side * 4 // 3 | 1, shorter_side), Image.Resampling.BICUBIC))


def _gradient(width: int, height: int) -> _Pixels:
    """Make colours that change slowly, with a few waves in them."""
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    channels = (x, y, 0.5 + 0.5 * np.sin(12 * x + 7 * y))
    return _to_bytes(np.stack(channels, axis=-1))


def _shapes(width: int, height: int) -> _Pixels:
    """Make discs of flat colour on a chequered ground, which have hard edges."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.where(((x // 40 + y // 40) % 2 == 0)[..., None], (0.9, 0.85, 0.7), (0.25, 0.3, 0.45))
    random = np.random.default_rng(7)
    for _ in range(6):
        centre_x, centre_y, radius = random.integers((0, 0, 30), (width, height, 110))
        pixels[(x - centre_x) ** 2 + (y - centre_y) ** 2 < radius**2] = random.random(3)
    return _to_bytes(pixels)


def _noise(width: int, height: int) -> _Pixels:
    """Make a gradient with noise in every pixel, which a resize without antialiasing gets wrong."""
    noise = np.random.default_rng(11).normal(0, 0.15, (height, width, 3))
    return _to_bytes(_gradient(width, height) / 255 + noise)


def _to_bytes(pixels: _Pixels) -> _Pixels:
    """Convert 0-1 to uint8."""
    levels: _Pixels = np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)
    return levels


def _jpeg(image: Image.Image, orientation: int | None = None) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[_ORIENTATION] = orientation
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=92, exif=exif)
    return buffer.getvalue()


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
