"""Transform decoded pixels to the model's input, within 2 levels of Pillow, or without antialiasing 1 of OpenCV."""

from collections.abc import Callable
from functools import partial
from math import ceil

import numpy as np

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from infer_app.base.errors import is_out_of_memory
from infer_app.base.size import Size
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.geometry import Box, Geometry, Picture, Pixels, geometry_of
from infer_app.predict.images.transform.resize import interpolate, pillow_resize, resize

Preprocess = Callable[[Pixels], Pixels]


def transform(picture: Picture | Pixels, recipe: Recipe, preprocess: Preprocess | None = None) -> Pixels:
    """Return the model's input, (height, width, 3) uint8, contiguous; within 2 levels of `reference_transform`.

    An array is a whole picture. In a recipe of kind custom, `preprocess`, the user's own function, does all of this.
    Raises BadImage for an image so long and thin that resizing it would take too much memory, or if the user's
    function fails on it.
    """
    picture = _as_picture(picture)
    if recipe.is_own:
        return _custom(picture.rgb, recipe, preprocess)
    return _made(picture, recipe, resize if recipe.antialias else interpolate)


def reference_transform(picture: Picture | Pixels, recipe: Recipe) -> Pixels:
    """Return the model's input by the same geometry and Pillow's resize; golden pixels are made this way.

    Pillow always antialiases: without it, the interpolation is computed in float64.
    """
    exactly = pillow_resize if recipe.antialias else partial(interpolate, dtype=np.float64)
    return _made(_as_picture(picture), recipe, exactly)


def _made(picture: Picture, recipe: Recipe, resize_to: Callable[[Pixels, Geometry, str], Pixels]) -> Pixels:
    geometry = geometry_of(picture.width, picture.height, recipe, picture.scale)
    resized = resize_to(_cut(picture.rgb, geometry.source, recipe), geometry, recipe.interpolation)
    return _ordered(_centre(resized, geometry.lead, recipe), recipe.channels)


def _as_picture(picture: Picture | Pixels) -> Picture:
    return picture if isinstance(picture, Picture) else Picture.whole(picture)


def _cut(rgb: Pixels, box: Box, recipe: Recipe) -> Pixels:
    cut = rgb[box.top : ceil(box.top + box.height), box.left : ceil(box.left + box.width)]
    return cut if recipe.place != "pad-first" else padded_to(cut, (ceil(box.height), ceil(box.width), 3), recipe.pad)


def padded_to(rgb: Pixels, shape: tuple[int, ...], pad: int, top: int = 0, left: int = 0) -> Pixels:
    """Return an array of this shape with a picture in it, and the level `pad` around that."""
    padded = np.full(shape, pad, np.uint8)
    padded[top : top + rgb.shape[0], left : left + rgb.shape[1]] = rgb
    return padded


def _centre(rgb: Pixels, lead: tuple[int, int], recipe: Recipe) -> Pixels:
    """Crop the centre to a contiguous array of the recipe's size, with its pad around too short a side."""
    rgb = rgb[lead[1] :, lead[0] :]
    (top, rows), (left, columns) = centre_of(rgb.shape[0], rgb.shape[1], recipe)
    centre = rgb[rows, columns]
    if centre.shape == recipe.size.shape:
        return np.require(centre, requirements=["C", "W"])
    return padded_to(centre, recipe.size.shape, recipe.pad, top, left)


def centre_of(height: int, width: int, recipe: Recipe) -> tuple[tuple[int, slice], tuple[int, slice]]:
    """Return for rows and columns where in the input the centre begins, and the slice of the picture that is it.

    The crop begins where it does in torchvision and timm, and by the rounding `down` where it does in transformers. A
    letterbox of the place `corner` has its picture at the top left.
    """
    return _centre_of_side(height, recipe.size.height, recipe), _centre_of_side(width, recipe.size.width, recipe)


def _centre_of_side(length: int, wanted: int, recipe: Recipe) -> tuple[int, slice]:
    if length <= wanted:
        return 0 if recipe.place == "corner" else (wanted - length) // 2, slice(0, length)
    left_over = length - wanted
    first = left_over // 2 if recipe.crop_rounding == "down" else round(left_over / 2)  # Python rounds halves to even
    return 0, slice(first, first + wanted)


def _ordered(rgb: Pixels, channels: str) -> Pixels:
    if channels == "rgb":
        return rgb
    reordered = np.empty_like(rgb)
    for place, channel in enumerate(channels):  # a quarter of the time of a copy of rgb[..., ::-1]
        reordered[..., place] = rgb[..., "rgb".index(channel)]
    return reordered


def _custom(rgb: Pixels, recipe: Recipe, preprocess: Preprocess | None) -> Pixels:
    if preprocess is None:
        raise ValueError("a custom recipe needs its preprocess function")
    # A crop is a view of a picture that other objects share, and the function may write into what it gets.
    pixels = call_own("preprocess", preprocess, np.require(rgb, requirements=["C", "W"]))
    shape = recipe.size.shape
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != shape:
        raise BadImage(Reason.MODEL_ERROR, f"preprocess gave {describe_array(pixels)}, not a uint8 array of {shape}")
    return np.require(pixels, requirements=["C", "W"])


def call_own(name: str, function: Callable[..., object], *given: object) -> object:
    """Return what a function of the user's gives for an image. Raises BadImage, which names it, if it fails."""
    try:
        return function(*given)
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise BadImage(Reason.OUT_OF_MEMORY, f"no memory in the {name} function") from error
        raise BadImage(Reason.MODEL_ERROR, f"{name}: {type(error).__name__}: {error}") from error


def describe_array(value: object) -> str:
    """Return what a function gave instead of what it should."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return type(value).__name__


def boxes_in_picture(boxes: np.ndarray, picture: Size, recipe: Recipe) -> np.ndarray:
    """Return where boxes lie in the upright picture, clipped to it: (n, 4) x1 y1 x2 y2 as shares, 0-1, float64.

    `boxes` are (n, 4) x1 y1 x2 y2 in pixels of the model's input, whose left edge is 0. A custom recipe is none of
    those whose geometry is known.
    """
    source, resized, _ = geometry_of(picture.width, picture.height, recipe)
    (top, rows), (left, columns) = centre_of(resized[1], resized[0], recipe)
    steps = np.array([source.width / resized[0], source.height / resized[1]] * 2)  # picture's pixels per input pixel
    shift = np.array([columns.start - left, rows.start - top] * 2)
    first = np.array([source.left, source.top] * 2)
    shares: np.ndarray = ((boxes.astype(np.float64) + shift) * steps + first) / np.array([*picture, *picture])
    return shares.clip(0, 1)
