"""Which files a GPU's decoder is given: only those of which the CPU's would notice nothing either."""

import math
import struct
from dataclasses import replace

import pytest

from infer_app.images.decode.decoder import DecodeLimits
from infer_app.images.decode.gpu_decoder import MIN_BYTES, suits_gpu
from infer_app.recipe import Recipe
from tests.support.jpegs import encoded, exif, picture, with_segment

RECIPE = Recipe("crop-resize", 224, crop=0.875, decode="gpu")
LIMITS = DecodeLimits(max_pixels=1 << 20)
PHOTO = encoded(picture(200, 150), quality=80)


def suits(data: bytes, recipe: Recipe = RECIPE) -> bool:
    return suits_gpu(data, recipe, LIMITS)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("restarts", [0, 4])
def test_a_baseline_jpeg_suits(subsampling: str, restarts: int):
    assert suits(encoded(picture(200, 150), quality=80, subsampling=subsampling, restart_marker_blocks=restarts))


def test_a_grey_one_suits():
    assert suits(encoded(picture(200, 150).convert("L"), quality=80))


@pytest.mark.parametrize(
    "options", [{"progressive": True}, {"keep_rgb": True}, {"exif": exif(6)}], ids=["progressive", "RGB", "rotated"]
)
def test_other_kinds_do_not(options: dict[str, object]):
    assert not suits(encoded(picture(200, 150), quality=80, **options))


def test_a_rotated_one_suits_where_rotation_is_ignored():
    data = encoded(picture(200, 150), quality=80, exif=exif(6))
    assert suits(data, replace(RECIPE, exif="ignore"))


def test_cmyk_and_other_formats_do_not():
    assert not suits(encoded(picture(200, 150).convert("CMYK"), quality=80))
    assert not suits(encoded(picture(200, 150), "PNG"))
    assert not suits(bytes(MIN_BYTES))


def test_colours_that_their_names_say_are_rgb_do_not():
    frame = PHOTO.index(b"\xff\xc0")
    scan = PHOTO.index(b"\xff\xda")
    data = bytearray(PHOTO)
    for number, name in enumerate(b"RGB"):
        data[frame + 10 + 3 * number] = data[scan + 5 + 2 * number] = name
    assert not suits(bytes(data))


def test_a_file_must_fit_into_a_row_and_be_worth_the_way():
    least = math.ceil(math.sqrt(len(PHOTO) / 3))
    assert suits(PHOTO, replace(RECIPE, size=least))
    assert not suits(PHOTO, replace(RECIPE, size=least - 1))
    assert not suits(encoded(picture(40, 30), quality=80))


def test_no_more_pixels_than_are_allowed():
    data = bytearray(PHOTO)
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", 1025, 1024)
    assert not suits(bytes(data))


def test_what_pillow_resizes_in_the_other_order_does_not_suit():
    tall = encoded(picture(60, 400), quality=95)
    stretched = Recipe("stretch", 224, decode="gpu")
    assert not suits(tall, stretched)
    assert suits(tall, replace(stretched, interpolation="bilinear"))


def test_a_picture_too_long_to_resize_is_no_exception():
    data = bytearray(PHOTO)
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", 1, 65000)
    assert not suits(bytes(data), Recipe("resize-crop", 1024, resize=1200, decode="gpu"))


def test_a_file_cut_anywhere_does_not_suit():
    assert not any(suits(PHOTO[:length]) for length in range(MIN_BYTES, len(PHOTO), 7))
    assert not suits(PHOTO[:-1])


def test_a_hole_in_the_scan_does_not_suit():
    middle = len(PHOTO) // 2
    assert not suits(PHOTO[:middle] + bytes(64) + PHOTO[middle + 64 :])


def test_zeros_before_the_scan_are_no_hole():
    assert suits(with_segment(PHOTO, 0xEC, bytes(200)))


def test_what_follows_the_end_is_not_looked_at():
    assert suits(PHOTO + b"a second picture, as some cameras append")
