"""Compute which pixels of an image are resized to which size, rounded as in the library that a recipe follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3) RGB


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright picture as decoded: whole, or shrunk.

    A pixel of a shrunk picture stands for scale x scale pixels of the whole one; in the last column and row it may
    stand for fewer.
    """

    rgb: Pixels  # C-contiguous; or a read-only view of a larger picture
    width: int  # of the whole picture: all geometry is computed from it
    height: int
    scale: int = 1
    is_dim: bool = False  # of 16 bits at most 12 are used, and the upper 8 were taken: nearly black

    @classmethod
    def whole(cls, rgb: Pixels, is_dim: bool = False) -> Picture:
        """Return a picture that was not shrunk."""
        return cls(rgb, rgb.shape[1], rgb.shape[0], is_dim=is_dim)


MAX_RESIZED_PIXELS = 64 * 2**20  # also for the picture between the horizontal and the vertical pass

# How many times smaller a JPEG can be decoded. Sizes between these have no fast code, and Pillow does not offer them.
SCALES = (8, 4, 2)
MIN_SHRINK = 2  # what the resize must still shrink, so that the decoder's way of shrinking does not show
MAX_LEAD = 16  # pixels of the resized picture
_DIGITS = 6  # decimals of a pixel; further ones are rounding errors of floating point


class Box(NamedTuple):
    """A rectangle that begins at a whole pixel; in a shrunk picture it may end inside one."""

    left: int
    top: int
    width: float
    height: float


class Geometry(NamedTuple):
    """The steps of a transform: cut out `source`, resize it, drop `lead`, crop or pad to the model's input."""

    source: Box
    resized: tuple[int, int]  # width, height
    lead: tuple[int, int] = (0, 0)  # columns on the left and rows at the top that are resized only for alignment


def geometry_of(width: int, height: int, recipe: Recipe, scale: int = 1) -> Geometry:
    """Return the geometry for a picture of this whole size, which was decoded `scale` times smaller in each direction.

    Raises BadImage if resizing would take too much memory.
    """
    whole = _GEOMETRIES[recipe.kind](width, height, recipe)
    _check_memory(whole, recipe)
    return whole if scale == 1 else _shrunk(whole, scale)


def scale_for(width: int, height: int, recipe: Recipe, is_turned: bool) -> int:
    """Return how many times smaller a JPEG may be decoded: 8, 4, 2 or 1, so that its resize shrinks MIN_SHRINK times.

    The size of a rotated picture must be divisible: the pixels that stand for fewer than others would otherwise come
    first and shift the rest. So must that of one that is padded first: they would shift the pixels around it.
    """
    if recipe.decode != "scaled" or recipe.is_own:
        return 1
    source, resized, _ = _GEOMETRIES[recipe.kind](width, height, recipe)
    must_divide = is_turned or recipe.place == "pad-first"
    shrink = min(source.width / resized[0], source.height / resized[1])
    for scale in SCALES:
        divides = width % scale == height % scale == 0
        if shrink >= MIN_SHRINK * scale and (divides or not must_divide):
            return scale
    return 1


def _cover(width: int, height: int, recipe: Recipe) -> Geometry:
    """Resize to the smallest size of the picture's shape that covers the one before the crop.

    For a square, whose side the shorter side becomes, torchvision and timm truncate the longer side to a whole number;
    for a rectangle timm's ResizeKeepRatio rounds it.
    """
    least = recipe.resize or recipe.size
    ratio, side = min(width / least.width, height / least.height), least.width
    if not least.is_square:
        resized = round(width / ratio), round(height / ratio)
    elif width <= height:
        resized = side, int(side * height / width)
    else:
        resized = int(side * width / height), side
    return Geometry(Box(0, 0, width, height), resized)


def _crop_centre(width: int, height: int, recipe: Recipe) -> Geometry:
    """Cut out the square that EfficientNet crops: of an odd remainder, the larger half lies left and above."""
    square = max(1, int((recipe.crop or 1.0) * min(width, height)))
    return Geometry(Box((width - square + 1) // 2, (height - square + 1) // 2, square, square), recipe.size)


def _stretch(width: int, height: int, recipe: Recipe) -> Geometry:
    return Geometry(Box(0, 0, width, height), recipe.resize or recipe.size)


def _fit(width: int, height: int, recipe: Recipe) -> Geometry:
    """Resize to the largest size of the picture's shape that fits, rounded; no side is less than a pixel.

    By the place `pad-first` the source is larger than the picture, whose sides don't become whole pixels.
    """
    ratio = min(recipe.size.width / width, recipe.size.height / height)
    if recipe.place == "pad-first":
        return Geometry(Box(0, 0, round(recipe.size.width / ratio), round(recipe.size.height / ratio)), recipe.size)
    whole = int if recipe.rounding == "down" else round  # also of a product that is nearly whole, as YOLOX has it
    return Geometry(Box(0, 0, width, height), (max(1, whole(width * ratio)), max(1, whole(height * ratio))))


# By the kind of a recipe; the geometry of `custom` is the user's.
_GEOMETRIES = {"resize-crop": _cover, "crop-resize": _crop_centre, "stretch": _stretch, "letterbox": _fit}


def _check_memory(geometry: Geometry, recipe: Recipe) -> None:
    source, (width, height) = geometry.source, geometry.resized
    padded = source.width * source.height if recipe.place == "pad-first" else 0
    if max(width * height, width * source.height, source.width * height, padded) > MAX_RESIZED_PIXELS:
        raise BadImage(
            Reason.TOO_MANY_PIXELS, f"{source.width}x{source.height} pixels would be resized to {width}x{height}"
        )


def _shrunk(whole: Geometry, scale: int) -> Geometry:
    """Return the geometry that takes the same part from a shrunk picture, to a fraction of a pixel.

    Rounding it to whole pixels, or computing it from the shrunk size, would move the result by up to half a pixel.
    """
    source, (width, height), _ = whole
    step_x, step_y = source.width / scale / width, source.height / scale / height
    left, lead_x = _whole_start(source.left / scale, step_x)
    top, lead_y = _whole_start(source.top / scale, step_y)
    width, height = width + lead_x, height + lead_y
    box = Box(left, top, round(width * step_x, _DIGITS), round(height * step_y, _DIGITS))
    return Geometry(box, (width, height), (lead_x, lead_y))


def _whole_start(start: float, step: float) -> tuple[int, int]:
    """Return a whole pixel, and the number of resized pixels, `step` apart, between it and (nearly) `start`.

    A resize begins at a whole pixel. Among those further back there is usually one from which a whole number of steps
    ends within a few hundredths of `start`; close to the picture's edge there may be none.
    """
    if start < 1:
        return 0, 0
    candidates = [(start - lead * step, lead) for lead in range(MAX_LEAD + 1) if lead * step <= start]
    begin, lead = min(candidates, key=lambda pair: round(abs(pair[0] - round(pair[0])), _DIGITS))
    return round(begin), lead
