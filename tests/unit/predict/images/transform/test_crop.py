"""Against the formulas that SpeciesNet, MegaDetector and supervision publish, written with Pillow's crop and pad."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from infer_app.artifact.recipe import CROP_KINDS, CropRule, Recipe
from infer_app.base.domain import Reason
from infer_app.base.errors import UsageError
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.crop import Place, Shares, cut_out, place_of
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import transform

OWN = CropRule("mine:cut")


def photo(width: int, height: int) -> np.ndarray:
    """Noise without black, which would look like padding."""
    return np.random.default_rng(width * 1000 + height).integers(1, 256, (height, width, 3), np.uint8)


def whole(value: float, rule: CropRule) -> int:
    return round(value) if rule.rounding == "nearest" else int(value + 1e-6)


def in_pixels(picture: Image.Image, box: Shares, rule: CropRule) -> tuple[int, int, int, int]:
    """Left, top, width and height: SpeciesNet and MegaDetector truncate all four, supervision rounds the edges."""
    x, y, width, height = box
    if rule.rounding == "nearest":
        left, top = round(x * picture.width), round(y * picture.height)
        width, height = round((x + width) * picture.width) - left, round((y + height) * picture.height) - top
    else:
        left, top, width, height = (whole(part, rule) for part in np.array(box) * (picture.size * 2))
    left, top = min(left, picture.width - 1), min(top, picture.height - 1)
    return left, top, max(1, min(width, picture.width - left)), max(1, min(height, picture.height - top))


def with_margin(length: int, rule: CropRule) -> int:
    return max(length + whole(rule.margin * length, rule) + rule.margin_px, rule.least_px)


def by_pillow(picture: Image.Image, box: Shares, rule: CropRule) -> Image.Image:
    left, top, width, height = in_pixels(picture, box, rule)
    if rule.kind == "box":
        wide, high = with_margin(width, rule), with_margin(height, rule)
        left, top = left - (wide - width) // 2, top - (high - height) // 2
        edges = max(0, left), max(0, top), min(picture.width, left + wide), min(picture.height, top + high)
        return picture.crop(edges)
    side = with_margin(max(width, height), rule)
    x, y = left - int((side - width) / 2), top - int((side - height) / 2)
    if rule.kind == "square":
        x, y = max(0, min(x, picture.width - side)), max(0, min(y, picture.height - side))
        return picture.crop((x, y, min(x + side, picture.width), min(y + side, picture.height)))
    x, y = max(0, min(x, picture.width - width)), max(0, min(y, picture.height - height))
    crop = picture.crop((x, y, x + min(side, picture.width), y + min(side, picture.height)))
    return ImageOps.pad(crop, (side, side), color=0)


shares = st.floats(0, 1)
edges = st.tuples(shares, shares).map(sorted)
rules = st.builds(
    CropRule,
    kind=st.sampled_from(CROP_KINDS),
    margin=st.sampled_from([0.0, 0.1, 0.25, 1.0]),
    margin_px=st.sampled_from([0, 1, 3, 30]),
    least_px=st.sampled_from([0, 1, 8, 40]),
    rounding=st.sampled_from(["int", "nearest"]),
)


@settings(max_examples=500)
@given(st.integers(1, 70), st.integers(1, 70), edges, edges, rules)
@example(70, 30, (0.0, 1.0), (0.0, 1.0), CropRule("square-pad"))  # higher than the picture: padded
@example(20, 10, (0.0, 1.0), (0.5, 0.6), CropRule("square-pad", least_px=40))  # larger than the picture: enlarged
@example(64, 64, (0.9, 1.0), (0.9, 1.0), CropRule("square-pad", margin_px=30))  # leaves it at the right and the bottom
@example(64, 64, (0.0, 0.1), (0.0, 0.1), CropRule("square", margin_px=30))  # is shifted into it
@example(50, 40, (1.0, 1.0), (1.0, 1.0), CropRule())  # at least a pixel, inside the picture
def test_every_rule_cuts_out_what_its_formula_says(width, height, across, down, rule: CropRule):
    rgb, box = photo(width, height), (across[0], down[0], across[1] - across[0], down[1] - down[0])
    crop = cut_out(Picture.whole(rgb), box, rule)
    assert np.array_equal(crop.rgb, np.asarray(by_pillow(Image.fromarray(rgb), box, rule)))
    assert (crop.height, crop.width) == crop.rgb.shape[:2]


@pytest.mark.parametrize("side", range(1, 400, 7))
def test_a_box_at_whole_pixels_is_cut_out_as_it_is(side: int):
    """Although 29 / 100 x 100 is less than 29."""
    for first in range(side):
        box = (first / side, 0.0, (side - first) / side, 1.0)
        assert place_of(side, 8, box, CropRule()) == Place(first, 0, side - first, 8, 0)


def test_a_crop_is_a_view_into_which_nothing_is_written_and_a_preprocess_function_gets_its_own():
    picture = Picture.whole(photo(40, 30), is_dim=True)
    before = picture.rgb.copy()
    crop = cut_out(picture, (0.25, 0.2, 0.5, 0.4), CropRule())
    assert np.shares_memory(crop.rgb, picture.rgb)
    assert crop.is_dim
    transform(crop, Recipe("custom", size="20x12"), lambda rgb: np.negative(rgb, out=rgb))
    with pytest.raises(ValueError, match="read-only"):
        crop.rgb[0] = 0
    assert np.array_equal(picture.rgb, before)


@pytest.mark.parametrize(
    "recipe", [Recipe("stretch", 8), Recipe("stretch", 12, antialias=False), Recipe("letterbox", 9)]
)
def test_a_crop_becomes_the_input_that_a_file_of_its_pixels_would(recipe: Recipe):
    crop = cut_out(Picture.whole(photo(40, 30)), (0.25, 0.2, 0.3, 0.4), CropRule())
    assert np.array_equal(transform(crop, recipe), transform(crop.rgb.copy(), recipe))


def test_a_square_that_would_take_too_much_memory_is_refused():
    long = Picture.whole(np.zeros((1, 20_000, 3), np.uint8))
    with pytest.raises(BadImage, match="a square of 20000x20000 pixels") as caught:
        cut_out(long, (0, 0, 1, 1), CropRule("square-pad"))
    assert caught.value.reason is Reason.TOO_MANY_PIXELS
    assert cut_out(long, (0, 0, 1, 1), CropRule("square")).width == 20_000


def test_a_users_function_gets_the_whole_picture_and_the_box():
    rgb, given = photo(9, 7), []
    crop = cut_out(Picture.whole(rgb), (0.1, 0.2, 0.3, 0.4), OWN, lambda *values: given.append(values) or rgb[2:5, 3:5])
    assert np.array_equal(crop.rgb, rgb[2:5, 3:5])
    assert np.array_equal(given[0][0], rgb)
    assert given[0][1] == (0.1, 0.2, 0.3, 0.4)


def raise_memory_error(rgb: np.ndarray, box: Shares) -> np.ndarray:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")  # as torch does


@pytest.mark.parametrize(
    ("function", "detail"),
    [
        (lambda rgb, box: rgb[..., 0], "crop gave uint8 (7, 9), not a uint8 array of (height, width, 3)"),
        (lambda rgb, box: rgb[..., :1], "crop gave uint8 (7, 9, 1), not a uint8 array of (height, width, 3)"),
        (lambda rgb, box: rgb / 255, "crop gave float64 (7, 9, 3), not a uint8 array of (height, width, 3)"),
        (lambda rgb, box: None, "crop gave NoneType, not a uint8 array of (height, width, 3)"),
        (lambda rgb, box: rgb[:0], "crop gave uint8 (0, 9, 3), which has no pixels"),
        (lambda rgb, box: rgb.sort(), "crop: ValueError: sort array is read-only"),
        (lambda rgb: rgb, "crop: TypeError"),
        (raise_memory_error, "no memory in the crop function"),
    ],
)
def test_what_a_users_function_does_wrong_is_told(function, detail: str):
    with pytest.raises(BadImage) as caught:
        cut_out(Picture.whole(photo(9, 7)), (0, 0, 1, 1), OWN, function)
    assert caught.value.detail.startswith(detail)
    assert caught.value.reason is (Reason.OUT_OF_MEMORY if "memory" in detail else Reason.MODEL_ERROR)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"kind": "triangle"}, "unknown crop 'triangle'"),
        ({"rounding": "down"}, "unknown crop_rounding 'down'"),
        ({"margin": 30}, "crop_margin 30"),
        ({"margin": -0.1}, "crop_margin -0.1"),
        ({"margin_px": 5000}, "are from 0 to 4096"),
        ({"least_px": -1}, "are from 0 to 4096"),
        ({"kind": "mine:cut", "margin": 0.1}, "do not belong to crop mine:cut"),
    ],
)
def test_a_rule_that_can_not_be_applied_is_refused(rule: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        CropRule(**rule)
    CropRule("square-pad", 0.1, 30, 224, "nearest")
