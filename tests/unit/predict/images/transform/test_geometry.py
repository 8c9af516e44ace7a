"""A shrunk picture is resized as the whole one would be: the same part of it, to a fraction of a pixel."""

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_app.artifact.recipe import Recipe
from infer_app.predict.images.transform.geometry import MAX_LEAD, SCALES, Box, Geometry, geometry_of, scale_for

RESIZE_CROP = Recipe("resize-crop", size=224, resize=256, decode="scaled")
CROP_RESIZE = Recipe("crop-resize", size=224, crop=0.875, decode="scaled")
STRETCH = Recipe("stretch", size=224, decode="scaled")
WIDE_RESIZE_CROP = Recipe("resize-crop", size="320x200", resize="365x228", decode="scaled")
WIDE_STRETCH = Recipe("stretch", size="320x200", decode="scaled")
SQUASH = Recipe("stretch", size="320x200", resize="365x228", decode="scaled")
sides = st.integers(900, 9000)
PHOTO_RECIPES = [RESIZE_CROP, CROP_RESIZE]
OF_SHORTER_SIDE = [(1023, 1), (1024, 2), (2047, 2), (2048, 4), (4095, 4), (4096, 8), (60_000, 8)]


@pytest.mark.parametrize(
    ("recipe", "size", "scale"),
    [
        # the target of crop-resize is size/crop = 256: its square must still be shrunk twice
        *((recipe, (side, side * 4 // 3), scale) for recipe in PHOTO_RECIPES for side, scale in OF_SHORTER_SIDE),
        *((recipe, (side * 4 // 3, side), scale) for recipe in PHOTO_RECIPES for side, scale in OF_SHORTER_SIDE),
        *((recipe, (1600, 1000), 2) for recipe in (WIDE_RESIZE_CROP, WIDE_STRETCH, SQUASH)),
        *((recipe, (6400, 4000), 8) for recipe in (WIDE_RESIZE_CROP, WIDE_STRETCH, SQUASH)),
        (STRETCH, (9000, 896), 2),  # both sides count
        (STRETCH, (9000, 895), 1),
        (STRETCH, (895, 9000), 1),
        *((recipe, (9000, 9000), 1) for recipe in (Recipe("stretch", 8), Recipe("custom", 8))),  # not asked for
        (Recipe("custom", 8, decode="scaled"), (9000, 9000), 1),
    ],
)
def test_a_picture_is_shrunk_while_twice_the_target_is_left_if_it_was_asked_for(recipe, size, scale):
    assert scale_for(*size, recipe, is_turned=False) == scale


def test_a_picture_that_is_turned_or_padded_first_is_shrunk_as_far_as_it_divides():
    sizes = [(4032, 4096), (4096, 4100), (4098, 4096), (4097, 4096)]
    padded = Recipe("letterbox", size=224, decode="scaled", place="pad-first")
    assert [scale_for(*size, STRETCH, is_turned=True) for size in sizes] == [8, 4, 2, 1]
    assert [scale_for(*size, padded, is_turned=False) for size in sizes] == [8, 4, 2, 1]
    assert [scale_for(*size, STRETCH, is_turned=False) for size in sizes] == [8, 8, 8, 8]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("recipe", [RESIZE_CROP, STRETCH, WIDE_RESIZE_CROP, WIDE_STRETCH, SQUASH], ids=str)
def test_all_of_a_shrunk_picture_is_resized_to_the_size_of_the_whole(recipe: Recipe, scale: int):
    whole = geometry_of(4001, 3003, recipe)
    assert geometry_of(4001, 3003, recipe, scale) == Geometry(Box(0, 0, 4001 / scale, 3003 / scale), whole.resized)


@settings(max_examples=300)
@given(sides, sides, st.sampled_from(SCALES), st.sampled_from([0.5, 0.875, 1.0]))
def test_a_shrunk_square_is_the_whole_ones(width: int, height: int, scale: int, crop: float):
    recipe = Recipe("crop-resize", size=224, crop=crop)
    whole, (source, resized, lead) = geometry_of(width, height, recipe), geometry_of(width, height, recipe, scale)
    assert resized == (224 + lead[0], 224 + lead[1])
    assert max(lead) <= MAX_LEAD
    for axis in (0, 1):
        step = source[axis + 2] / resized[axis]
        assert step == pytest.approx(whole.source[axis + 2] / scale / 224, abs=1e-6)
        short_of = whole.source[axis] / scale - (source[axis] + lead[axis] * step)
        assert -0.51 < short_of < 1
        assert source[axis] + source[axis + 2] <= ceil((width, height)[axis] / scale) + 1e-5


def test_a_square_with_some_room_around_it_is_met_within_hundredths_of_a_pixel():
    misses = []
    for height in range(2048, 2348, 3):
        width = height * 3 // 2
        whole, (source, resized, lead) = (geometry_of(width, height, CROP_RESIZE, scale) for scale in (1, 4))
        for axis in (0, 1):
            step = source[axis + 2] / resized[axis]
            misses.append(abs(whole.source[axis] / 4 - source[axis] - lead[axis] * step))
    assert max(misses) <= 0.5
    assert sum(misses) / len(misses) < 0.05
