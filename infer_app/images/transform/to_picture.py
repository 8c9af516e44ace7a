"""Map boxes from the model's input back to the picture: the inverse of every recipe's geometry."""

from __future__ import annotations

import numpy as np

from infer_app.images.transform.geometry import geometry_of
from infer_app.images.transform.to_pixels import centre_of
from infer_app.recipe import Recipe, Size


def boxes_in_picture(boxes: np.ndarray, picture: Size, recipe: Recipe) -> np.ndarray:
    """Return where boxes lie in the upright picture, clipped to it: (n, 4) x1 y1 x2 y2 as shares, 0-1, float64.

    `boxes` are (n, 4) x1 y1 x2 y2 in pixels of the model's input, whose left edge is 0. Raises ValueError for a custom
    recipe, whose geometry is not known.
    """
    source, resized, _ = geometry_of(picture.width, picture.height, recipe)
    (top, rows), (left, columns) = centre_of(resized[1], resized[0], recipe)
    steps = np.array([source.width / resized[0], source.height / resized[1]] * 2)  # picture's pixels per input pixel
    shift = np.array([columns.start - left, rows.start - top] * 2)
    first = np.array([source.left, source.top] * 2)
    shares: np.ndarray = ((boxes.astype(np.float64) + shift) * steps + first) / np.array([*picture, *picture])
    return shares.clip(0, 1)
