"""Large JPEGs decoded at a fraction of their size: by both decoders alike, and as strictly as at their whole size."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import pytest
import turbojpeg
from PIL import Image

import tests.support.jpegs as jpegs
from infer_app.artifact.recipe import Recipe
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import reference_transform, transform
from tests.support.decoding import by_pillow, needs_turbo
from tests.support.jpegs import STORED_AS, encoded, exif, picture, put

CROP_RESIZE = Recipe("crop-resize", size=224, crop=0.875, decode="scaled")
RESIZE_CROP = Recipe("resize-crop", size=224, resize=256, interpolation="bilinear", decode="scaled")
WIDE = [
    Recipe("resize-crop", "320x200", resize="365x228", channels="bgr", crop_rounding="down", decode="scaled"),
    Recipe("stretch", "320x200", resize="365x228", interpolation="bilinear", crop_rounding="down", decode="scaled"),
]
LIMITS = 10**8
TINY = {1: Recipe("stretch", size=8), 8: Recipe("stretch", size=1, decode="scaled")}  # of pictures of 24x16 pixels
TINY |= {4: Recipe("stretch", size=2, decode="scaled"), 2: Recipe("stretch", size=4, decode="scaled")}
KINDS = [jpegs.baseline, jpegs.progressive, jpegs.grey, jpegs.cmyk, jpegs.with_restarts, jpegs.non_interleaved]
KINDS += [jpegs.arithmetic, jpegs.grey_progressive, jpegs.ycck]


@cache
def photo(width: int = 4000, height: int = 3000) -> Image.Image:
    """12 megapixels, some detail in every block."""
    small = picture(width // 40, height // 40).resize((width, height), Image.Resampling.BICUBIC)
    grain = np.random.default_rng(3).integers(0, 10, (height, width, 1), dtype=np.uint8)
    return Image.fromarray(np.minimum(np.asarray(small), 230) + grain)


def by_turbo(subsampling: int) -> bytes:
    return turbojpeg.TurboJPEG().encode(
        np.asarray(photo()), pixel_format=turbojpeg.TJPF_RGB, jpeg_subsample=subsampling
    )


LARGE: dict[str, Callable[[], bytes]] = {
    **{kind: partial(by_turbo, getattr(turbojpeg, f"TJSAMP_{kind}")) for kind in ("444", "422", "420", "440", "411")},
    "progressive": lambda: encoded(photo(), quality=90, progressive=True),
}


def levels(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    assert one.shape == other.shape
    return np.abs(one.astype(int) - other.astype(int))


@needs_turbo
@pytest.mark.parametrize(
    "kind", [kind if kind in ("420", "progressive") else pytest.param(kind, marks=pytest.mark.slow) for kind in LARGE]
)
def test_twelve_megapixels_are_shrunk_to_pillows_pixels_and_look_the_same(kind: str):
    data = LARGE[kind]()
    shrunk = decode_image(data, CROP_RESIZE, LIMITS)
    assert (shrunk.width, shrunk.height, shrunk.scale) == (4000, 3000, 4)
    assert np.array_equal(shrunk.rgb, by_pillow(data, 4))
    for recipe in (CROP_RESIZE, RESIZE_CROP):
        assert_same_input(shrunk, data, recipe)


@pytest.mark.parametrize(
    ("recipe", "size"),
    [(recipe, size) for recipe in (CROP_RESIZE, RESIZE_CROP, *WIDE) for size in ((2449, 1637), (1731, 1325))]
    + [(CROP_RESIZE, (1231, 2453)), (RESIZE_CROP, (1231, 2453))],
)
def test_a_size_that_does_not_divide_moves_nothing(decoder: str, recipe: Recipe, size: tuple[int, int]):
    data = encoded(photo().resize((400, 300)).resize(size, Image.Resampling.BICUBIC), quality=90)
    shrunk = decode_image(data, recipe, LIMITS)
    assert shrunk.scale == 2
    assert_same_input(shrunk, data, recipe)


def assert_same_input(shrunk: Picture, data: bytes, recipe: Recipe) -> None:
    """What is made of the shrunk picture is what is made of the whole one."""
    pixels, whole = transform(shrunk, recipe), decode_image(data, Recipe("stretch", 224), LIMITS)
    assert levels(pixels, reference_transform(shrunk, recipe)).max() <= 2
    assert levels(pixels, transform(whole, recipe)).mean() < 1


@pytest.mark.parametrize("scale", [2, 4, 8])
@pytest.mark.parametrize("made", KINDS)
def test_a_jpeg_of_a_rarer_kind_is_shrunk_to_pillows_pixels(decoder: str, made: Callable[[], bytes], scale: int):
    shrunk = decode_image(made(), TINY[scale], LIMITS)
    assert shrunk.scale == (8 if made is jpegs.with_restarts else scale)  # a larger one
    assert np.array_equal(shrunk.rgb, by_pillow(made(), shrunk.scale))


@pytest.mark.parametrize("orientation", STORED_AS)
def test_a_turned_picture_is_shrunk_and_then_turned(decoder: str, orientation: int):
    recipe = Recipe("crop-resize", size=12, crop=0.8, decode="scaled")
    data = encoded(put(picture(160, 128), orientation), quality=95, exif=exif(orientation))
    shrunk = decode_image(data, recipe, LIMITS)
    assert (shrunk.width, shrunk.height, shrunk.scale) == (160, 128, 4)
    assert np.array_equal(shrunk.rgb, by_pillow(data, 4))
    ignoring = decode_image(data, Recipe("stretch", size=12, exif="ignore", decode="scaled"), LIMITS)
    assert ignoring.rgb.shape[:2] == ((40, 32) if orientation >= 5 else (32, 40))


@pytest.mark.parametrize("orientation", STORED_AS)
def test_a_turned_picture_that_does_not_divide_stays_where_it_is(decoder: str, orientation: int):
    """Its last column stands for one pixel only; mirrored, it would come first and push all others aside."""
    recipe = Recipe("stretch", size=12, decode="scaled")
    data = encoded(put(picture(161, 129), orientation), quality=95, exif=exif(orientation))
    assert decode_image(data, recipe, LIMITS).scale == (4 if orientation == 1 else 1)


def test_limits_are_held_against_the_whole_picture(decoder: str):
    for limit in (384, 383):
        assert outcome(jpegs.baseline(), TINY[8], limit) == outcome(jpegs.baseline(), TINY[1], limit)
    assert outcome(jpegs.baseline(), TINY[8], 384) == (24, 16)


def outcome(data: bytes, recipe: Recipe, max_pixels: int = 10**6) -> tuple[object, ...]:
    """The picture's size, or why it was refused."""
    try:
        decoded: Picture = decode_image(data, recipe, max_pixels)
    except BadImage as refused:
        return refused.reason, refused.detail
    return decoded.width, decoded.height


def damaged(data: bytes) -> Iterator[bytes]:
    """Cut, closed again, padded, filled up with zeros, overwritten, with oddities, with what is no code."""
    scan = data.index(b"\xff\xda") + 14
    for length in (*range(0, len(data), 41), len(data) - 2, len(data) - 1):
        yield data[:length]
        yield data[:length] + b"\xff\xd9"
        yield data[:length] + bytes(len(data) - length)
        yield data[:length] + b"\xff\xd8\xff\xe0"
    for at in range(scan, len(data) - 50, 53):
        yield data[:at] + b"\xff\0" * 20 + data[at + 40 :]
        yield data[:at] + bytes((data[at] ^ 0x15,)) + data[at + 1 :]
    for num_bytes in (1, 7, 16, 17, 40):
        yield data[:-2] + bytes(num_bytes) + data[-2:]
    odd = data.replace(b"JFIF\0\1\1", b"JFIF\0\7\7")
    yield from (odd, odd[:20] + b"stray" + odd[20:], odd[:-2], odd[: len(odd) // 2], data + b"garbage")


@pytest.mark.parametrize("scale", [*(pytest.param(scale, marks=pytest.mark.slow) for scale in (2, 4)), 8])
@pytest.mark.parametrize("made", KINDS)
def test_damage_is_seen_at_a_fraction_of_the_size_as_at_the_whole(decoder: str, made: Callable[[], bytes], scale: int):
    for number, data in enumerate(damaged(made())):
        assert outcome(data, TINY[scale]) == outcome(data, TINY[1]), number
