"""Functions of the user's that make the pixels."""

import numpy as np
import pytest
from PIL import Image

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.to_pixels import Preprocess, transform

CUSTOM = Recipe("custom", size=6)
PHOTO = np.arange(7 * 9 * 3, dtype=np.uint8).reshape(7, 9, 3)


@pytest.mark.parametrize(
    "preprocess",
    [
        lambda given: given[:6, -6:],  # a view, not contiguous
        lambda given: np.asarray(Image.fromarray(given[:6, -6:])),  # Pillow's arrays can't be written to
    ],
)
def test_a_users_preprocess_gets_the_whole_image_and_its_pixels_are_taken(preprocess: Preprocess):
    rgb = PHOTO
    pixels = transform(rgb, CUSTOM, preprocess)
    assert np.array_equal(pixels, rgb[:6, -6:])
    assert pixels.flags.c_contiguous
    assert transform(rgb, Recipe("custom", size="8x5"), lambda given: given[:5, :8]).shape == (5, 8, 3)


@pytest.mark.parametrize(("recipe", "message"), [(CUSTOM, "preprocess function"), (Recipe("zoom", 8), "zoom")])
def test_a_recipe_that_can_not_be_applied_is_the_programs_fault_and_not_the_images(recipe: Recipe, message: str):
    with pytest.raises((ValueError, KeyError), match=message):
        transform(PHOTO, recipe)


def raise_memory_error(rgb: np.ndarray) -> np.ndarray:
    raise MemoryError


@pytest.mark.parametrize(
    ("preprocess", "detail"),
    [
        (lambda rgb: rgb, "preprocess gave uint8 (7, 9, 3), not a uint8 array of (6, 6, 3)"),
        (lambda rgb: rgb[:6, :6] / 255, "preprocess gave float64 (6, 6, 3), not a uint8 array of (6, 6, 3)"),
        (lambda rgb: rgb[:6, :6].tolist(), "preprocess gave list, not a uint8 array of (6, 6, 3)"),
        (raise_memory_error, "no memory in the preprocess function"),
        (lambda rgb: rgb.nothing, "preprocess: AttributeError: 'numpy.ndarray' object has no attribute 'nothing'"),
    ],
)
def test_a_preprocess_that_fails_on_an_image_rejects_that_image(preprocess: Preprocess, detail: str):
    with pytest.raises(BadImage) as caught:
        transform(PHOTO, CUSTOM, preprocess)
    reason = Reason.OUT_OF_MEMORY if preprocess is raise_memory_error else Reason.MODEL_ERROR
    assert caught.value.args == (reason, detail, None)
