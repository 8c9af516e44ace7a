import numpy as np
import pytest
import torch

from infer_app.images.decode.gpu_decoder import transform_on_device
from infer_app.images.transform.to_pixels import reference_transform
from infer_app.recipe import Recipe
from tests.support.jpegs import picture

RECIPES = [
    Recipe("crop-resize", 224, crop=0.875),
    Recipe("resize-crop", 224, resize=256),
    Recipe("resize-crop", 224, resize=200, interpolation="bilinear"),  # padded
    Recipe("stretch", 96, interpolation="bilinear"),
    Recipe("resize-crop", "160x96", resize="182x109", interpolation="bilinear"),
    Recipe("stretch", "160x96", channels="bgr"),
    Recipe("letterbox", "160x96", interpolation="bilinear", pad=114),
    Recipe("stretch", "161x96", resize="184x109", crop_rounding="down"),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("size", [(500, 375), (301, 301), (120, 90), (640, 481), (225, 256)])
def test_pixels_are_within_two_levels_of_pillows(recipe: Recipe, size: tuple[int, int]):
    rgb = np.asarray(picture(*size)).copy()
    pixels = transform_on_device(torch.from_numpy(rgb), recipe)
    assert (pixels.shape, pixels.dtype) == (recipe.size.shape, torch.uint8)
    difference = pixels.short() - torch.from_numpy(reference_transform(rgb, recipe)).short()
    assert difference.abs().max() <= 2


def test_hard_edges_overshoot_as_pillows_do():
    """Bicubic clips after each direction; in one go it would be 30 levels off."""
    recipe, rgb = RECIPES[0], np.zeros((375, 500, 3), np.uint8)
    rgb[::7], rgb[:, ::5] = 255, 255
    difference = transform_on_device(torch.from_numpy(rgb), recipe).short() - torch.from_numpy(
        reference_transform(rgb, recipe)
    )
    assert difference.abs().max() <= 2
