"""Transform pixels that were decoded on a GPU to the model's input, on that GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from infer_app.domain import Recipe
from infer_app.images.transform.geometry import geometry_of
from infer_app.images.transform.to_pixels import centre_of


def transform_on_device(rgb: Tensor, recipe: Recipe) -> Tensor:
    """Return the model's input, (size, size, 3) uint8, for a whole picture, (H, W, 3) uint8 RGB, on its device.

    It is within 2 levels of `reference_transform` for pictures that `suits_gpu` accepts. The resize is in floating
    point, because CUDA has none for bytes: one direction after the other, rounded and clipped in between, as in Pillow.
    """
    source, (width, height), _ = geometry_of(rgb.shape[1], rgb.shape[0], recipe)
    cut = rgb[source.top : source.top + int(source.height), source.left : source.left + int(source.width)]
    planes = cut.permute(2, 0, 1).unsqueeze(0).float()
    for size in ((cut.shape[0], width), (height, width)):
        planes = torch.nn.functional.interpolate(
            planes, size, mode=recipe.interpolation, align_corners=False, antialias=True
        )
        planes = planes.round_().clamp_(0, 255)
    return _centre(planes.squeeze(0).permute(1, 2, 0).byte(), recipe.size)


def _centre(rgb: Tensor, size: int) -> Tensor:
    (top, rows), (left, columns) = (centre_of(length, size) for length in rgb.shape[:2])
    centre = rgb[rows, columns]
    padded = rgb.new_zeros((size, size, 3))
    padded[top : top + centre.shape[0], left : left + centre.shape[1]] = centre
    return padded
