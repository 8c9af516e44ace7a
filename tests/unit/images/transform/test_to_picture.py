import numpy as np
import pytest

from infer_app.images.transform.to_picture import boxes_in_picture
from infer_app.recipe import Recipe, Size

WHOLE = [[0, 0, 1, 1]]


def in_picture(recipe, picture, *box):
    return boxes_in_picture(np.array([box], np.float32), Size(*picture), recipe).tolist()


def test_a_stretched_picture_fills_the_input():
    recipe = Recipe("stretch", Size(100, 50))
    assert in_picture(recipe, (640, 480), 0, 0, 100, 50) == WHOLE
    assert in_picture(recipe, (640, 480), 25, 10, 50, 40) == [[0.25, 0.2, 0.5, 0.8]]


def test_a_letterboxed_picture_lies_in_the_middle():
    recipe = Recipe("letterbox", 100, pad=114)
    assert in_picture(recipe, (200, 100), 0, 25, 100, 75) == WHOLE  # 100x50, 25 rows above and below
    assert in_picture(recipe, (200, 100), 50, 50, 100, 75) == [[0.5, 0.5, 1, 1]]
    assert in_picture(recipe, (100, 400), 37, 0, 62, 100) == [[0, 0, 1, 1]]  # 25x100, of 75 columns 37 on the left


def test_a_box_is_clipped_to_the_picture():
    recipe = Recipe("letterbox", 100)
    assert in_picture(recipe, (200, 100), -10, 0, 50, 110) == [[0, 0, 0.5, 1]]
    assert in_picture(recipe, (200, 100), 0, 0, 100, 20) == [[0, 0, 1, 0]]  # in the pixels above it


def test_what_was_cropped_away_is_outside_of_the_input():
    crop = Recipe("resize-crop", 100, resize=200)  # 400x200 pixels become 400x200, and columns 150 to 250 the input
    assert in_picture(crop, (800, 400), 0, 0, 100, 100) == [[150 / 400, 50 / 200, 250 / 400, 150 / 200]]
    square = Recipe("crop-resize", 50, crop=0.5)  # of 400x200 the square of 100 at 150, 50
    assert in_picture(square, (400, 200), 0, 0, 50, 50) == [[150 / 400, 50 / 200, 250 / 400, 150 / 200]]


def test_a_function_of_the_users_has_no_inverse():
    with pytest.raises(ValueError, match="custom"):
        in_picture(Recipe("custom", 100), (200, 100), 0, 0, 1, 1)


def test_no_boxes_give_none():
    assert boxes_in_picture(np.empty((0, 4)), Size(8, 8), Recipe("stretch", 8)).shape == (0, 4)
