"""A shrunk picture is resized as the whole one would be: the same part of it, to a fraction of a pixel."""

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_app.images.transform.geometry import MAX_LEAD, MIN_SHRINK, SCALES, Box, Geometry, geometry_of, scale_for
from infer_app.recipe import Recipe

RESIZE_CROP = Recipe("resize-crop", size=224, resize=256, decode="scaled")
CROP_RESIZE = Recipe("crop-resize", size=224, crop=0.875, decode="scaled")
STRETCH = Recipe("stretch", size=224, decode="scaled")
WIDE_RESIZE_CROP = Recipe("resize-crop", size="320x200", resize="365x228", decode="scaled")
WIDE_STRETCH = Recipe("stretch", size="320x200", decode="scaled")
SQUASH = Recipe("stretch", size="320x200", resize="365x228", decode="scaled")
LETTERBOX = Recipe("letterbox", size="320x200", decode="scaled", pad=114)
sides = st.integers(900, 9000)


def scale_of(width: int, height: int, recipe: Recipe) -> int:
    return scale_for(width, height, recipe, is_turned=False)


@pytest.mark.parametrize("recipe", [RESIZE_CROP, CROP_RESIZE], ids=lambda recipe: recipe.kind)
def test_a_picture_is_shrunk_while_twice_the_target_is_left(recipe: Recipe):
    """The target of crop-resize is size/crop = 256: its square must still be shrunk twice."""
    shorter = {1: 1023, 2: 2047, 4: 4095, 8: 60_000}
    for scale, side in shorter.items():
        assert scale_of(side * 4 // 3, side, recipe) == scale
        assert scale_of(side, side * 4 // 3, recipe) == scale
    assert [scale_of(side, side, recipe) for side in (1024, 2048, 4096)] == [2, 4, 8]


@pytest.mark.parametrize(
    ("recipe", "size", "scale"),
    [
        (STRETCH, (9000, 896), 2),  # both sides count
        (STRETCH, (9000, 895), 1),
        (STRETCH, (895, 9000), 1),
        *((recipe, (9000, 9000), 1) for recipe in (Recipe("stretch", 8), Recipe("custom", 8))),  # not asked for
        (Recipe("custom", 8, decode="scaled"), (9000, 9000), 1),
    ],
)
def test_a_picture_is_shrunk_where_both_sides_allow_it_and_it_was_asked_for(recipe, size, scale):
    assert scale_of(*size, recipe) == scale


def test_a_turned_picture_is_shrunk_as_far_as_it_divides():
    sizes = [(4032, 4096), (4096, 4100), (4098, 4096), (4097, 4096)]
    assert [scale_for(*size, STRETCH, is_turned=True) for size in sizes] == [8, 4, 2, 1]
    assert [scale_for(*size, STRETCH, is_turned=False) for size in sizes] == [8, 8, 8, 8]


def test_a_whole_picture_has_a_geometry_of_whole_pixels():
    assert geometry_of(501, 375, CROP_RESIZE) == Geometry(Box(87, 24, 328, 328), (224, 224))
    assert geometry_of(501, 375, RESIZE_CROP) == Geometry(Box(0, 0, 501, 375), (342, 256))
    assert geometry_of(501, 375, LETTERBOX) == Geometry(Box(0, 0, 501, 375), (267, 200))
    assert geometry_of(1000, 1, LETTERBOX) == Geometry(Box(0, 0, 1000, 1), (320, 1))


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


def test_a_rectangle_is_covered_as_by_timm():
    assert geometry_of(4000, 3000, WIDE_RESIZE_CROP).resized == (365, 274)
    assert geometry_of(3000, 4000, WIDE_RESIZE_CROP).resized == (365, 487)  # 486.67 is rounded
    assert geometry_of(4000, 1000, WIDE_RESIZE_CROP).resized == (912, 228)


@pytest.mark.parametrize("recipe", [WIDE_RESIZE_CROP, WIDE_STRETCH, SQUASH], ids=str)
def test_both_sides_of_a_rectangle_are_shrunk_as_far_as_its_resize_allows(recipe: Recipe):
    width, height = geometry_of(4000, 2600, recipe).resized
    for scale in SCALES:
        shrink = MIN_SHRINK * scale
        assert scale_of(4000, 2600, recipe) >= scale or min(4000 / width, 2600 / height) < shrink
    assert [scale_of(int(side * 1.6), side, recipe) for side in (1000, 2000, 4000)] == [2, 4, 8]
