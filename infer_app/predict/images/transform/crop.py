"""Cut an object out of a picture, to the pixel as the programs do that second networks were trained with."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from infer_app.artifact.recipe import CropRule
from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.geometry import MAX_RESIZED_PIXELS, Picture, Pixels
from infer_app.predict.images.transform.to_pixels import call_own, describe_array, padded_to

Shares = tuple[float, float, float, float]  # x, y, width and height of a box, 0-1 of the upright picture
CropFunction = Callable[[Pixels, Shares], Pixels]  # RGB uint8 (H, W, 3) of the whole picture, and the box
_NOISE = 1e-6  # of a pixel: a share times a side may lie this much below the whole number that it stands for


class Place(NamedTuple):
    """What is cut out, in pixels of the picture; that of a square-pad may reach past its right and bottom edge."""

    left: int
    top: int
    width: int
    height: int
    side: int  # of a square-pad: of the square that it becomes


def cut_out(picture: Picture, box: Shares, rule: CropRule, function: CropFunction | None = None) -> Picture:
    """Return what is cut out of a picture that was not shrunk, as a picture; a read-only view where possible.

    `function` belongs to a rule of the user's own. Raises BadImage if it fails, or for a square with black around it
    that would take too much memory.
    """
    if picture.scale != 1:
        raise ValueError("crops are cut out of whole pictures")
    whole = picture.rgb.view()
    whole.flags.writeable = False  # it is that of all its objects
    if rule.is_own:
        return Picture.whole(_own(whole, box, function), picture.is_dim)
    place = place_of(picture.width, picture.height, box, rule)
    crop = whole[place.top : place.top + place.height, place.left : place.left + place.width]
    return Picture.whole(_padded(crop, place) if rule.kind == "square-pad" else crop, picture.is_dim)


def place_of(width: int, height: int, box: Shares, rule: CropRule) -> Place:
    """Return where a rule cuts a box out of a picture of this size; nothing becomes less than a pixel."""
    left, right = _edges(box[0], box[2], width, rule.rounding)
    top, bottom = _edges(box[1], box[3], height, rule.rounding)
    wide, high = right - left, bottom - top
    if rule.kind == "box":
        left, right = _grown(left, right, _length(wide, rule), width)
        top, bottom = _grown(top, bottom, _length(high, rule), height)
        return Place(left, top, right - left, bottom - top, 0)
    side = _length(max(wide, high), rule)
    # MegaDetector's square is shifted by the box's own length, so that it may leave the picture.
    taken = (wide, high) if rule.kind == "square-pad" else (side, side)
    left = max(0, min(left - (side - wide) // 2, width - taken[0]))
    top = max(0, min(top - (side - high) // 2, height - taken[1]))
    return Place(left, top, min(side, width), min(side, height), side)


def _edges(start: float, length: float, side: int, rounding: str) -> tuple[int, int]:
    """Return the first pixel of a box along one axis, and the one after its last."""
    if rounding == "nearest":
        first, end = round(start * side), round((start + length) * side)
    else:
        first = _truncated(start * side)
        end = first + _truncated(length * side)
    first = max(0, min(first, side - 1))
    return first, max(first + 1, min(end, side))


def _length(length: int, rule: CropRule) -> int:
    """Return a side with its margin."""
    margin = rule.margin * length
    return max(
        length + (round(margin) if rule.rounding == "nearest" else _truncated(margin)) + rule.margin_px, rule.least_px
    )


def _grown(first: int, end: int, length: int, side: int) -> tuple[int, int]:
    """Return the edges of a box that was grown to `length` about its centre, as far as it lies in the picture."""
    first -= (length - (end - first)) // 2
    return max(0, first), min(first + length, side)


def _truncated(value: float) -> int:
    return int(value + _NOISE)


def _padded(crop: Pixels, place: Place) -> Pixels:
    """Return a square: black where the place leaves the picture, and around a picture that is smaller than it.

    A picture whose both sides are smaller is enlarged.
    """
    side = place.side
    if crop.shape[:2] == (side, side):
        return crop
    if side * side > MAX_RESIZED_PIXELS:
        raise BadImage(Reason.TOO_MANY_PIXELS, f"crop: a square of {side}x{side} pixels")
    inside = padded_to(crop, (place.height, place.width, 3), 0)
    if inside.shape[:2] == (side, side):
        return inside
    return np.asarray(ImageOps.pad(Image.fromarray(inside), (side, side)))


def _own(rgb: Pixels, box: Shares, function: CropFunction | None) -> Pixels:
    if function is None:
        raise ValueError("a crop rule of the user's own needs its function")
    crop = call_own("crop", function, rgb, box)
    if not isinstance(crop, np.ndarray) or crop.dtype != np.uint8 or crop.ndim != 3 or crop.shape[2] != 3:
        raise BadImage(Reason.MODEL_ERROR, f"crop gave {describe_array(crop)}, not a uint8 array of (height, width, 3)")
    if not crop.size:
        raise BadImage(Reason.MODEL_ERROR, f"crop gave {describe_array(crop)}, which has no pixels")
    return crop
