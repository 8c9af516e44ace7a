import numpy as np
import pytest

from infer_app.images.transform.to_picture import boxes_in_picture
from infer_app.recipe import Recipe, Size

WHOLE = [[0, 0, 1, 1]]


def in_picture(recipe, picture, *box):
    return boxes_in_picture(np.array([box], np.float32), Size(*picture), recipe).tolist()


LETTERBOX, CROP = Recipe("letterbox", 100, pad=114), [[150 / 400, 50 / 200, 250 / 400, 150 / 200]]


@pytest.mark.parametrize(
    ("recipe", "picture", "box", "expected"),
    [
        (Recipe("stretch", Size(100, 50)), (640, 480), (0, 0, 100, 50), WHOLE),
        (Recipe("stretch", Size(100, 50)), (640, 480), (25, 10, 50, 40), [[0.25, 0.2, 0.5, 0.8]]),
        (LETTERBOX, (200, 100), (0, 25, 100, 75), WHOLE),  # 100x50, 25 rows above and below
        (LETTERBOX, (200, 100), (50, 50, 100, 75), [[0.5, 0.5, 1, 1]]),
        (LETTERBOX, (100, 400), (37, 0, 62, 100), WHOLE),  # 25x100, of 75 columns 37 on the left
        (LETTERBOX, (200, 100), (-10, 0, 50, 110), [[0, 0, 0.5, 1]]),  # clipped to the picture
        (LETTERBOX, (200, 100), (0, 0, 100, 20), [[0, 0, 1, 0]]),  # in the pixels above it
        # 400x200 pixels become 400x200, and columns 150 to 250 the input
        (Recipe("resize-crop", 100, resize=200), (800, 400), (0, 0, 100, 100), CROP),
        (Recipe("crop-resize", 50, crop=0.5), (400, 200), (0, 0, 50, 50), CROP),  # the square of 100 at 150, 50
    ],
)
def test_a_box_is_where_its_pixels_come_from(recipe, picture, box, expected):
    assert in_picture(recipe, picture, *box) == expected


def test_a_function_of_the_users_has_no_inverse():
    with pytest.raises(ValueError, match="custom"):
        in_picture(Recipe("custom", 100), (200, 100), 0, 0, 1, 1)


def test_no_boxes_give_none():
    assert boxes_in_picture(np.empty((0, 4)), Size(8, 8), Recipe("stretch", 8)).shape == (0, 4)
