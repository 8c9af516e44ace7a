"""A detector whose truth is known to the pixel, on every shape of picture: its boxes must come back to the pixel."""

import numpy as np
import pytest
from PIL import Image

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import DetectionSpec, OutputSpec
from infer_app.base.size import Size
from infer_app.predict.detection.object_decoder import ObjectDecoder
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.transform.to_pixels import transform
from tests.support.jpegs import encoded, exif, put

LIMITS = 100_000_000
GREY = 114
SIZES = [
    *((8, 8), (9, 8), (8, 13), (17, 16), (33, 31), (63, 65), (64, 64), (101, 100), (127, 255), (320, 320)),
    *((321, 319), (500, 375), (375, 500), (640, 427), (799, 533), (1000, 90), (90, 1000), (1920, 1080)),
    *(pytest.param(size, marks=pytest.mark.slow) for size in ((4000, 3000), (3001, 3999), (6000, 4000), (4000, 6000))),
]
INPUTS = [Size.square(320), Size(640, 480), Size(96, 160)]


def find_red(pixels):
    """(1, 6): the box around the red pixels of an input, with a score of 1."""
    is_red = pixels @ [1.0, -0.5, -0.5] > 127.5
    rows, columns = (np.flatnonzero(is_red.any(axis)) for axis in (1, 0))
    return np.float32([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, 1, 0]])


def picture(width, height, box):
    pixels = np.full((height, width, 3), GREY, np.uint8)
    left, top, right, bottom = box
    pixels[top:bottom, left:right] = (255, 0, 0)
    return pixels


def box_in(width, height):
    """A box off the centre: a quarter to a half of each side, at least 2 pixels."""
    left, top = width // 8, height // 2
    return left, top, left + max(2, width // 3), top + max(2, height // 4)


def shown_as(pixels, orientation=1, format="PNG", **options):
    """A file that a viewer shows as `pixels`: the stored ones are turned the other way."""
    return encoded(put(Image.fromarray(pixels), orientation), format, exif=exif(orientation), **options)


def detect(data, recipe):
    """The object in pixels of the upright picture, and how many of these an input's pixel stands for."""
    decoded = decode_image(data, recipe, LIMITS)
    size = Size(decoded.width, decoded.height)
    rows = find_red(transform(decoded, recipe))
    spec = OutputSpec("detection", "none", detection=DetectionSpec("boxes", shapes=((1, 6),)))
    (output,) = ObjectDecoder(spec, recipe).decode(rows, [size])
    (found,) = output.objects
    ends = np.array([found.x, found.y, found.x + found.width, found.y + found.height])
    return ends * [*size, *size], size


def input_pixel(size, recipe):
    """The picture's pixels that one pixel of the input stands for, in both directions."""
    x, y = size.width / recipe.size.width, size.height / recipe.size.height
    return (max(x, y), max(x, y)) if recipe.kind == "letterbox" else (x, y)


def check(data, box, recipe):
    found, size = detect(data, recipe)
    x, y = input_pixel(size, recipe)
    assert (np.abs(found - box) <= [x, y, x, y]).all(), f"{found} instead of {box} in {size}"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("kind", ["letterbox", "stretch"])
def test_a_box_comes_back_to_the_pixel_from_every_size(kind, size):
    box = box_in(*size)
    data = shown_as(picture(*size, box))
    pad = GREY if kind == "letterbox" else 0
    for model_input in INPUTS:
        check(data, box, Recipe(kind, model_input, interpolation="bilinear", pad=pad))
        if size[0] > model_input.width and size[1] > model_input.height:  # enlarging by bicubic moves edges by itself
            check(data, box, Recipe(kind, model_input, pad=pad))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["letterbox", "stretch"])
def test_a_box_lies_in_the_picture_as_a_viewer_shows_it(kind, orientation):
    for size in ((61, 40), (40, 61), (501, 375)):
        box = box_in(*size)
        check(shown_as(picture(*size, box), orientation), box, Recipe(kind, Size(160, 96), interpolation="bilinear"))


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_box_comes_back_from_a_picture_that_was_decoded_smaller(orientation):
    box = box_in(4000, 3000)
    data = shown_as(picture(4000, 3000, box), orientation, "JPEG", quality=95, subsampling=0)
    for kind in ("letterbox", "stretch"):
        recipe = Recipe(kind, 320, decode="scaled")
        assert decode_image(data, recipe, LIMITS).scale > 1
        check(data, box, recipe)
