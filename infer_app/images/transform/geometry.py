"""Which pixels of an image are resized to what, by the rounding of the recipe's original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from infer_app.domain import Reason, Recipe
from infer_app.images.read.bad_image import BadImage

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


MAX_RESIZED_PIXELS = 64 * 2**20  # also of the picture between the horizontal and the vertical pass

# How much smaller a JPEG can be decoded. There are steps between, but no fast code for them, and not in Pillow.
SCALES = (8, 4, 2)
MIN_SHRINK = 2  # what is left to the resize, which so hides how the decoder shrank
MAX_LEAD = 16  # pixels of the result
_DIGITS = 6  # of a pixel, after which floating point has its own opinion


class Box(NamedTuple):
    """A rectangle that begins at a whole pixel; of a shrunk picture it may end inside one."""

    left: int
    top: int
    width: float
    height: float


class Geometry(NamedTuple):
    """Take `source` out of the image, resize it to `resized`, leave out `lead`, crop or pad to the model's square."""

    source: Box
    resized: tuple[int, int]  # width, height
    lead: tuple[int, int] = (0, 0)  # columns on the left and rows at the top that were resized for alignment only


def geometry_of(width: int, height: int, recipe: Recipe, scale: int = 1) -> Geometry:
    """The geometry of a picture of this size, for pixels that are so many times fewer in each direction.

    BadImage where that would take absurd memory.
    """
    whole = _whole_geometry(width, height, recipe)
    _check_memory(whole)
    return whole if scale == 1 else _shrunk(whole, scale)


def scale_for(width: int, height: int, recipe: Recipe, is_turned: bool) -> int:
    """How many times smaller a JPEG may be decoded: 8, 4, 2 or 1, so that its resize still shrinks MIN_SHRINK times.

    A turned picture must divide evenly: the pixels that stand for fewer would else come first and shift all others.
    """
    if recipe.decode != "scaled" or recipe.kind == "custom":
        return 1
    source, resized, _ = _whole_geometry(width, height, recipe)
    shrink = min(source.width / resized[0], source.height / resized[1])
    for scale in SCALES:
        divides = width % scale == height % scale == 0
        if shrink >= MIN_SHRINK * scale and (divides or not is_turned):
            return scale
    return 1


def _whole_geometry(width: int, height: int, recipe: Recipe) -> Geometry:
    if recipe.kind == "resize-crop":
        return Geometry(Box(0, 0, width, height), _shorter_side_to(width, height, recipe.resize or recipe.size))
    if recipe.kind == "crop-resize":
        return Geometry(_centre_square(width, height, recipe.crop or 1.0), (recipe.size, recipe.size))
    if recipe.kind == "stretch":
        return Geometry(Box(0, 0, width, height), (recipe.size, recipe.size))
    raise ValueError(f"unknown recipe {recipe.kind!r}")


def _shorter_side_to(width: int, height: int, side: int) -> tuple[int, int]:
    """torchvision's and timm's: the longer side is cut to a whole number, not rounded."""
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side


def _centre_square(width: int, height: int, crop: float) -> Box:
    """EfficientNet's: of an odd remainder, the larger half lies left and above."""
    square = max(1, int(crop * min(width, height)))
    return Box((width - square + 1) // 2, (height - square + 1) // 2, square, square)


def _check_memory(geometry: Geometry) -> None:
    source, (width, height) = geometry.source, geometry.resized
    if max(width * height, width * source.height, source.width * height) > MAX_RESIZED_PIXELS:
        raise BadImage(
            Reason.TOO_MANY_PIXELS, f"{source.width}x{source.height} pixels would be resized to {width}x{height}"
        )


def _shrunk(whole: Geometry, scale: int) -> Geometry:
    """The same part of the picture, to a fraction of a pixel.

    Rounding it to whole pixels, or computing it anew from the shrunk size, moves the result by up to half a pixel.
    """
    source, (width, height), _ = whole
    step_x, step_y = source.width / scale / width, source.height / scale / height
    left, lead_x = _whole_start(source.left / scale, step_x)
    top, lead_y = _whole_start(source.top / scale, step_y)
    width, height = width + lead_x, height + lead_y
    box = Box(left, top, round(width * step_x, _DIGITS), round(height * step_y, _DIGITS))
    return Geometry(box, (width, height), (lead_x, lead_y))


def _whole_start(start: float, step: float) -> tuple[int, int]:
    """A whole pixel, and how many pixels of the result, `step` apart, lead from it to `start`, nearly.

    A resize begins at whole pixels. Of several beginnings further back there is mostly one from which a whole number of
    steps ends within some hundredths of `start`. Where the picture's edge is near there is no room for that.
    """
    if start < 1:
        return 0, 0
    begins = [(start - lead * step, lead) for lead in range(MAX_LEAD + 1) if lead * step <= start]
    begin, lead = min(begins, key=lambda found: round(abs(found[0] - round(found[0])), _DIGITS))
    return round(begin), lead
