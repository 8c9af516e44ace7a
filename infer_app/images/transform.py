"""From decoded pixels to the model's input, by the rounding of the recipe's original."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from infer_app.images.bad_image import BadImage
from infer_app.records import Reason, Recipe

Pixels = np.ndarray  # (height, width, 3) uint8 RGB
Preprocess = Callable[[Pixels], Pixels]

MAX_RESIZED_PIXELS = 64 * 2**20  # also of the picture between the horizontal and the vertical pass

_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


class Box(NamedTuple):
    """A rectangle of whole pixels."""

    left: int
    top: int
    width: int
    height: int


class Geometry(NamedTuple):
    """Take `source` out of the image, resize it to `resized`, then crop or pad to the model's square."""

    source: Box
    resized: tuple[int, int]  # width, height


def transform(rgb: Pixels, recipe: Recipe, preprocess: Preprocess | None = None) -> Tensor:
    """The model's input, (size, size, 3) uint8 RGB, contiguous; within 2 levels of `reference_transform`.

    `preprocess` is the user's own function and stands for all of this in a recipe of kind custom. BadImage: an image
    so long and thin that resizing it would take absurd memory, or one that the user's function fails on.
    """
    if recipe.kind == "custom":
        return _custom(rgb, recipe, preprocess)
    geometry = geometry_of(rgb.shape[1], rgb.shape[0], recipe)
    resized = _resize(_cut(rgb, geometry.source), geometry.resized, recipe.interpolation)
    return torch.from_numpy(_centre(resized, recipe.size))


def reference_transform(rgb: Pixels, recipe: Recipe) -> Pixels:
    """The same geometry with Pillow's resize: what golden pixels are made with."""
    geometry = geometry_of(rgb.shape[1], rgb.shape[0], recipe)
    resized = _pillow_resize(_cut(rgb, geometry.source), geometry.resized, recipe.interpolation)
    return _centre(resized, recipe.size)


def geometry_of(width: int, height: int, recipe: Recipe) -> Geometry:
    """Which pixels of the image are resized to what; BadImage where that would take absurd memory."""
    if recipe.kind == "resize-crop":
        geometry = Geometry(Box(0, 0, width, height), _shorter_side_to(width, height, recipe.resize or recipe.size))
    elif recipe.kind == "crop-resize":
        geometry = Geometry(_centre_square(width, height, recipe.crop or 1.0), (recipe.size, recipe.size))
    elif recipe.kind == "stretch":
        geometry = Geometry(Box(0, 0, width, height), (recipe.size, recipe.size))
    else:
        raise ValueError(f"unknown recipe {recipe.kind!r}")
    _check_memory(geometry)
    return geometry


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


def _cut(rgb: Pixels, box: Box) -> Pixels:
    return rgb[box.top : box.top + box.height, box.left : box.left + box.width]


def _resize(rgb: Pixels, size: tuple[int, int], interpolation: str) -> Pixels:
    width, height = size
    if rgb.shape[:2] == (height, width):
        return rgb
    if interpolation == "bicubic" and not _starts_horizontally(rgb.shape[1], rgb.shape[0], size):
        return _pillow_resize(rgb, size, interpolation)
    channels_last = torch.from_numpy(rgb).permute(2, 0, 1).unsqueeze(0)  # (1, 3, height, width), no copy
    resized = torch.nn.functional.interpolate(
        channels_last, size=(height, width), mode=interpolation, align_corners=False, antialias=True
    )
    pixels: Pixels = resized.squeeze(0).permute(1, 2, 0).numpy()
    return pixels


def _starts_horizontally(width: int, height: int, size: tuple[int, int]) -> bool:
    """Whether Pillow is sure to do the horizontal pass first, as torch always does.

    Bicubic overshoots and each pass clips to 0-255, so that the order shows: by up to 30 levels at hard edges. Pillow
    13 begins with the vertical pass when it thinks that cheaper; measured over many sizes, it never does where the
    height grows, where the image is not taller than wide, or up to 2:1 when both sides shrink alike.
    """
    if height <= max(width, size[1]):
        return True
    is_alike = abs(size[0] * height - size[1] * width) <= height  # as far as whole pixels allow
    return is_alike and height <= 2 * width


def _pillow_resize(rgb: Pixels, size: tuple[int, int], interpolation: str) -> Pixels:
    image = Image.fromarray(np.ascontiguousarray(rgb))
    return np.array(image.resize(size, _RESAMPLING[interpolation]))


def _centre(rgb: Pixels, size: int) -> Pixels:
    """torchvision's centre crop to a contiguous (size, size, 3): zeros around a side that is too short."""
    height, width = rgb.shape[:2]
    top, left = max(0, size - height) // 2, max(0, size - width) // 2
    if height < size or width < size:
        padded = np.zeros((max(height, size), max(width, size), 3), np.uint8)
        padded[top : top + height, left : left + width] = rgb
        rgb = padded
        height, width = rgb.shape[:2]
    top, left = round((height - size) / 2), round((width - size) / 2)  # Python's round: halves go to the even side
    return np.ascontiguousarray(rgb[top : top + size, left : left + size])


def _custom(rgb: Pixels, recipe: Recipe, preprocess: Preprocess | None) -> Tensor:
    if preprocess is None:
        raise ValueError("a custom recipe needs its preprocess function")
    try:
        pixels = preprocess(rgb)
    except MemoryError as error:
        raise BadImage(Reason.OUT_OF_MEMORY, "no memory in the preprocess function") from error
    except (Exception, SystemExit) as error:
        raise BadImage(Reason.MODEL_ERROR, f"preprocess: {type(error).__name__}: {error}") from error
    wanted = (recipe.size, recipe.size, 3)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != wanted:
        raise BadImage(Reason.MODEL_ERROR, f"preprocess gave {_described(pixels)}, not a uint8 array of {wanted}")
    return torch.from_numpy(np.require(pixels, requirements=["C", "W"]))


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return type(value).__name__
