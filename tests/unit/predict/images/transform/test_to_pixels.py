"""Against Pillow, OpenCV and the formulas that torchvision and EfficientNet publish, written out here once more."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from infer_app.base.size import Size
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform import resize
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import boxes_in_picture, reference_transform, transform

FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
CV2_FILTERS = {"bicubic": cv2.INTER_CUBIC, "bilinear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA}
ODD_SIZES = [(1, 1), (1, 40), (40, 1), (7, 5), (31, 33), (33, 31), (64, 64), (63, 64), (100, 75), (75, 100)]
ODD_SIZES += [(101, 37), (37, 101), (17, 300), (300, 17), (200, 3), (3, 200), (251, 249), (2, 3), (127, 255)]
RECIPES = [
    Recipe("resize-crop", size=24, resize=28),
    Recipe("resize-crop", size=24, resize=27),
    Recipe("resize-crop", size=23, resize=28),
    Recipe("resize-crop", size=24, resize=28, interpolation="bilinear"),
    Recipe("resize-crop", size=24),
    Recipe("resize-crop", size=24, resize=20),  # the shorter side is too short for the crop
    Recipe("crop-resize", size=24, crop=0.875),
    Recipe("crop-resize", size=25, crop=0.8, interpolation="bilinear"),
    Recipe("crop-resize", size=24),
    Recipe("stretch", size=24),
    Recipe("stretch", size=24, interpolation="bilinear"),
    Recipe("resize-crop", size="40x24", resize="45x27"),
    Recipe("resize-crop", size="24x41", resize="27x46", interpolation="bilinear"),
    Recipe("resize-crop", size="40x24"),
    Recipe("resize-crop", size="40x24", resize=28),  # as torchvision: one side is too short for the crop of most
    Recipe("stretch", size="40x23"),
    Recipe("stretch", size="17x24", interpolation="bilinear"),
    Recipe("stretch", size=24, resize=27),
    Recipe("stretch", size=23, resize=28, interpolation="bilinear"),
    Recipe("stretch", size="40x23", resize="45x26"),
    Recipe("stretch", size=24, resize=27, crop_rounding="down"),
    Recipe("resize-crop", size=24, resize=27, crop_rounding="down"),
    Recipe("resize-crop", size="24x41", resize="27x46", interpolation="bilinear", crop_rounding="down"),
    Recipe("resize-crop", size="40x24", resize=28, crop_rounding="down"),
    Recipe("letterbox", size=24, interpolation="bilinear", pad=114),
    Recipe("letterbox", size="41x24", pad=114),
    Recipe("letterbox", size="41x24", pad=114, place="corner"),
    Recipe("letterbox", size=24, rounding="down"),
    Recipe("letterbox", size="41x24", pad=114, place="pad-first"),
]
ALIASED = [
    Recipe("resize-crop", size=24, resize=27, antialias=False),
    Recipe("crop-resize", size=25, crop=0.8, interpolation="bilinear", antialias=False),
    Recipe("stretch", size="40x23", antialias=False),
    Recipe("stretch", size=150, interpolation="bilinear", antialias=False),  # of more rows than are computed at a time
    Recipe("letterbox", size="41x24", interpolation="bilinear", pad=114, antialias=False),
    Recipe("letterbox", size="41x24", pad=114, antialias=False, place="corner", rounding="down"),  # YOLOX's
    Recipe("letterbox", size=24, interpolation="bilinear", antialias=False, place="pad-first"),  # NudeNet's
    Recipe("stretch", size="40x23", interpolation="area", antialias=False),
    Recipe("stretch", size=150, interpolation="area", antialias=False),
    Recipe("letterbox", size="84x42", interpolation="area", antialias=False),
]
WHOLE = [[0, 0, 1, 1]]


LETTERBOX, CROP = Recipe("letterbox", 100, pad=114), [[150 / 400, 50 / 200, 250 / 400, 150 / 200]]


def photo(width: int, height: int) -> np.ndarray:
    """Edges of full contrast over a gradient: where two resizers differ most."""
    random = np.random.default_rng(width * 1000 + height)
    ramp = np.linspace(0, 255, width)[None, :, None] * np.ones((height, 1, 3))
    noise = random.choice([0, 255], (height, width, 3))
    return np.where(random.random((height, width, 1)) < 0.5, ramp, noise).astype(np.uint8)


def by_hand(rgb: np.ndarray, recipe: Recipe) -> np.ndarray:
    """The recipe with nothing but Pillow, and without antialiasing OpenCV's resize."""
    height, width = rgb.shape[:2]
    image, (wide, high) = Image.fromarray(rgb), recipe.size
    if recipe.kind == "stretch" and recipe.resize is None:
        return np.asarray(resized(image, (wide, high), recipe))
    if recipe.kind == "crop-resize":
        square = max(1, int((recipe.crop or 1) * min(width, height)))
        left, top = (width - square + 1) // 2, (height - square + 1) // 2
        return np.asarray(resized(image.crop((left, top, left + square, top + square)), (wide, high), recipe))
    if recipe.kind == "letterbox":
        ratio = min(wide / width, high / height)
        if recipe.place == "pad-first":
            padded = Image.new("RGB", (round(wide / ratio), round(high / ratio)), (recipe.pad,) * 3)
            padded.paste(image, (0, 0))
            return np.asarray(resized(padded, (wide, high), recipe))
        whole = int if recipe.rounding == "down" else round
        inner = max(1, whole(width * ratio)), max(1, whole(height * ratio))
        padded = Image.new("RGB", (wide, high), (recipe.pad,) * 3)
        place = (0, 0) if recipe.place == "corner" else ((wide - inner[0]) // 2, (high - inner[1]) // 2)
        padded.paste(resized(image, inner, recipe), place)
        return np.asarray(padded)
    short, other = recipe.resize or recipe.size
    if recipe.kind == "stretch":  # timm's squash
        width, height = short, other
    elif short != other:  # timm's ResizeKeepRatio
        ratio = min(width / short, height / other)
        width, height = round(width / ratio), round(height / ratio)
    elif width <= height:
        width, height = short, int(short * height / width)
    else:
        width, height = int(short * width / height), short
    image = resized(image, (width, height), recipe)
    if width < wide or height < high:  # torchvision pads first: the smaller half goes left and above
        padded = Image.new("RGB", (max(width, wide), max(height, high)))
        padded.paste(image, ((padded.width - width) // 2, (padded.height - height) // 2))
        image, (width, height) = padded, padded.size
    if recipe.crop_rounding == "down":
        left, top = (width - wide) // 2, (height - high) // 2
    else:
        left, top = round((width - wide) / 2), round((height - high) / 2)
    return np.asarray(image.crop((left, top, left + wide, top + high)))


def resized(image: Image.Image, size: tuple[int, int], recipe: Recipe) -> Image.Image:
    if recipe.antialias:
        return image.resize(size, FILTERS[recipe.interpolation])
    return Image.fromarray(cv2.resize(np.asarray(image), size, interpolation=CV2_FILTERS[recipe.interpolation]))


def largest_difference(one: np.ndarray, other: np.ndarray) -> int:
    assert one.shape == other.shape
    return int(np.abs(one.astype(int) - other.astype(int)).max())


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_every_size_is_within_two_levels_of_pillow(recipe: Recipe):
    for width, height in ODD_SIZES:
        rgb = photo(width, height)
        wanted, pixels = by_hand(rgb, recipe), transform(rgb, recipe)
        assert np.array_equal(reference_transform(rgb, recipe), wanted), (width, height)
        assert largest_difference(pixels, wanted) <= 2, (width, height)
        assert (pixels.shape, pixels.dtype, pixels.flags.c_contiguous) == (recipe.size.shape, np.uint8, True)
        assert np.array_equal(rgb, photo(width, height))  # the image stays as it was


@pytest.mark.parametrize("recipe", ALIASED, ids=str)
def test_without_antialiasing_every_size_is_within_a_level_of_opencv(recipe: Recipe):
    for width, height in ODD_SIZES:
        rgb = photo(width, height)
        wanted = by_hand(rgb, recipe)
        assert largest_difference(reference_transform(rgb, recipe), wanted) <= 1, (width, height)
        assert largest_difference(transform(rgb, recipe), wanted) <= 1, (width, height)
        assert np.array_equal(rgb, photo(width, height))


@settings(max_examples=150)
@given(st.sampled_from(RECIPES), st.integers(1, 160), st.integers(1, 160))
@example(Recipe("resize-crop", size=224, resize=256, interpolation="bicubic"), 500, 375)
@example(Recipe("resize-crop", size=224, resize=256, interpolation="bicubic"), 333, 500)
@example(Recipe("crop-resize", size=224, crop=0.875), 501, 375)
@example(Recipe("resize-crop", size=224, resize=256), 3000, 30)  # a panorama is no absurdity
def test_any_size_is_within_two_levels_of_pillow(recipe: Recipe, width: int, height: int):
    rgb = photo(width, height)
    assert largest_difference(transform(rgb, recipe), by_hand(rgb, recipe)) <= 2


@pytest.mark.parametrize("recipe", [RECIPES[0], RECIPES[5], RECIPES[6], RECIPES[-1]], ids=str)
def test_bgr_is_rgb_in_the_other_order(recipe: Recipe):
    rgb, bgr = photo(61, 47), replace(recipe, channels="bgr")
    assert np.array_equal(transform(rgb, bgr), transform(rgb, recipe)[..., ::-1])
    assert np.array_equal(reference_transform(rgb, bgr), reference_transform(rgb, recipe)[..., ::-1])
    assert transform(rgb, bgr).flags.c_contiguous


@pytest.mark.parametrize(
    ("resize", "rounding", "first"),
    [(25, "nearest", 0), (25, "down", 0), (27, "nearest", 2), (27, "down", 1), (29, "nearest", 2), (29, "down", 2)],
)
def test_an_odd_remainder_is_rounded_to_even_or_down(resize: int, rounding: str, first: int):
    rgb = photo(resize, resize)
    recipe = Recipe("resize-crop", 24, resize=resize, crop_rounding=rounding)
    assert np.array_equal(transform(rgb, recipe), rgb[first : first + 24, first : first + 24])


@settings(max_examples=150)
@given(*[st.integers(1, 160)] * 4)
@example(84, 38, 118, 42)  # rounding errors decide which pixels these are interpolated between
@example(94, 12, 114, 1)
@example(160, 120, 80, 60)
def test_area_is_within_a_level_of_opencv_where_a_picture_shrinks_or_grows(width, height, wide, high):
    rgb, recipe = photo(width, height), Recipe("stretch", Size(wide, high), interpolation="area", antialias=False)
    wanted = by_hand(rgb, recipe)
    assert largest_difference(transform(rgb, recipe), wanted) <= 1
    assert largest_difference(reference_transform(rgb, recipe), wanted) <= 1


def test_a_picture_lies_in_the_middle_or_in_the_corner():
    white = np.full((50, 100, 3), 255, np.uint8)
    rows = {
        place: np.flatnonzero((transform(white, replace(LETTERBOX, place=place)) == 114).all((1, 2))).tolist()
        for place in ("centre", "corner")
    }
    assert rows == {"centre": [*range(25), *range(75, 100)], "corner": [*range(50, 100)]}


def test_a_view_that_is_not_contiguous_gives_the_same_pixels():
    rgb = photo(60, 90)
    turned = rgb.transpose(1, 0, 2)
    recipe = Recipe("resize-crop", size=24, resize=28)
    assert np.array_equal(transform(turned, recipe), transform(np.ascontiguousarray(turned), recipe))


@pytest.mark.parametrize(
    ("width", "height", "recipe"),
    [
        (1, 65500, Recipe("resize-crop", size=224, resize=256)),
        (65500, 1, Recipe("resize-crop", size=224, resize=256)),
        (600_000, 1, Recipe("stretch", size=224)),
        (1, 600_000, Recipe("stretch", size=224)),
        (8, 8, Recipe("stretch", size=10_000)),
        (8200, 8, Recipe("letterbox", size=64, place="pad-first")),
    ],
)
def test_an_absurd_resize_is_refused_before_it_takes_memory(width: int, height: int, recipe: Recipe):
    with pytest.raises(BadImage) as caught:
        transform(np.zeros((height, width, 3), np.uint8), recipe)
    assert caught.value.reason is Reason.TOO_MANY_PIXELS
    assert f"{width}x{height}" in caught.value.detail


def test_pillow_resizes_where_there_is_no_faster_library(monkeypatch):
    recipe, rgb = RECIPES[0], photo(251, 249)
    assert not np.array_equal(transform(rgb, recipe), reference_transform(rgb, recipe))
    monkeypatch.setattr(resize, "cykooz_resizer", None)
    assert np.array_equal(transform(rgb, recipe), reference_transform(rgb, recipe))


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("scale", [1, 2])
def test_pixels_are_those_of_torchs_resize_by_which_earlier_results_were_made(interpolation: str, scale: int):
    """A picture that was decoded smaller ends inside a pixel; torch takes factors for it, a little over the size."""
    width, height = 241, 199
    rgb, size = photo(width, height), (56, 48)
    picture = Picture(rgb, scale * width - scale // 2, scale * height - scale // 2, scale)
    source = picture.height / scale, picture.width / scale
    factors = [(wanted + 1e-4) / length for wanted, length in zip(size, source, strict=True)]
    given = {"size": size} if scale == 1 else {"scale_factor": factors}
    channels_last = torch.from_numpy(rgb)[None].permute(0, 3, 1, 2)
    resized = torch.nn.functional.interpolate(channels_last, **given, mode=interpolation, antialias=True)
    wanted = resized[0, :, : size[0], : size[1]].permute(1, 2, 0).numpy()
    recipe = Recipe("stretch", size=f"{size[1]}x{size[0]}", interpolation=interpolation)
    assert np.array_equal(transform(picture, recipe), wanted)


def in_picture(recipe, picture, *box):
    return boxes_in_picture(np.array([box], np.float32), Size(*picture), recipe).tolist()


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
        (replace(LETTERBOX, place="corner"), (200, 100), (0, 0, 100, 50), WHOLE),
        (replace(LETTERBOX, place="corner"), (100, 200), (0, 20, 25, 100), [[0, 0.2, 0.5, 1]]),
        (replace(LETTERBOX, place="pad-first"), (300, 150), (0, 0, 100, 50), WHOLE),
        (replace(LETTERBOX, rounding="down"), (300, 299), (0, 0, 100, 99), WHOLE),  # 99.67 rows
        # 400x200 pixels become 400x200, and columns 150 to 250 the input
        (Recipe("resize-crop", 100, resize=200), (800, 400), (0, 0, 100, 100), CROP),
        (Recipe("crop-resize", 50, crop=0.5), (400, 200), (0, 0, 50, 50), CROP),  # the square of 100 at 150, 50
    ],
)
def test_a_box_is_where_its_pixels_come_from(recipe, picture, box, expected):
    assert in_picture(recipe, picture, *box) == expected


def test_a_function_of_the_users_has_no_inverse():
    with pytest.raises(KeyError, match="custom"):
        in_picture(Recipe("custom", 100), (200, 100), 0, 0, 1, 1)


def test_no_boxes_give_none():
    assert boxes_in_picture(np.empty((0, 4)), Size(8, 8), Recipe("stretch", 8)).shape == (0, 4)
