"""HEIC and AVIF: the source's pixels, upright whatever the orientation, of 8 bits."""

from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from tests.support.decoding import IGNORE, RECIPE, decode, decoded
from tests.support.heif_files import avif, heic, smooth, with_orientations
from tests.support.jpegs import STORED_AS, exif, put
from tests.support.refusals import refusal

Make = Callable[..., bytes]


@pytest.fixture(params=[heic, avif], ids=["heic", "avif"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def by_pillow_heif(data: bytes) -> np.ndarray:
    import pillow_heif

    image = pillow_heif.open_heif(BytesIO(data)).to_pillow()
    if image.mode == "I;16":  # grey of more than 8 bits, scaled to 16
        return (np.asarray(image) >> 8)[:, :, None].repeat(3, axis=2)
    return np.asarray(image.convert("RGB"))


def most_different(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one.astype(int) - other).max())


def psnr(pixels: np.ndarray, source: Image.Image) -> float:
    assert pixels.shape == (source.height, source.width, 3)
    error = np.mean((pixels.astype(float) - np.asarray(source.convert("RGB"))) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else 99


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("chroma", [420, 422, 444])
@pytest.mark.parametrize("bits", [8, 10, 12])
@pytest.mark.parametrize("size", [(96, 64), (97, 65)], ids=str)
def test_a_heic_is_as_pillow_heif_decodes_it(size: tuple[int, int], bits: int, chroma: int, mode: str):
    source = smooth(*size).convert(mode)
    data = heic(source, bits=bits, chroma=chroma)
    pixels = decoded(data)
    assert psnr(pixels, source) > 35
    assert most_different(pixels, by_pillow_heif(data)) <= 2


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("orientation", STORED_AS)
def test_a_heic_in_tiles_as_phones_write_it_is_one_upright_picture(orientation: int, bits: int):
    source = smooth(200, 150)
    data = heic(put(source, orientation), bits=bits, exif=exif(orientation), tile_size=64)
    assert b"grid" in data
    assert psnr(decoded(data), source) > 35
    assert most_different(decoded(data), by_pillow_heif(data)) <= 2


@pytest.mark.parametrize("bits", [10, 12])
def test_white_and_black_are_themselves_whatever_the_bits(bits: int):
    for mode in ("L", "RGB"):
        black, white = (decoded(heic(Image.new(mode, (16, 16), color), bits=bits)) for color in ("black", "white"))
        assert (black.max(), white.min()) == (0, 255)


@pytest.mark.parametrize("orientation", STORED_AS)
@pytest.mark.parametrize("recipe", [RECIPE, IGNORE], ids=["apply", "ignore"])
def test_the_eight_orientations_give_one_picture(make: Make, orientation: int, recipe: Recipe):
    for mode in ("L", "RGB", "RGBA"):
        data = make(put(smooth().convert(mode), orientation), exif=exif(orientation))
        assert psnr(decoded(data, recipe), smooth().convert(mode)) > 35


@pytest.mark.parametrize(("container", "in_exif"), [(6, 1), (6, 6), (6, 3), (1, 6), (4, 4), (5, 5)])
def test_the_containers_orientation_counts_and_exifs_does_not(make: Make, container: int, in_exif: int):
    data = with_orientations(make, put(smooth(), container), container, in_exif)
    assert (b"irot" in data or b"imir" in data) == (container != 1)
    assert psnr(decoded(data), smooth()) > 35


def test_depth_is_not_for_heic():
    data = heic(Image.linear_gradient("L").point(lambda value: value // 20), bits=10)  # darker than 12 of 16 bits
    for depth in ("full", "window:0,4095", "percentile:1,99"):
        picture = decode(data, Recipe("stretch", size=8, depth=depth))
        assert not picture.is_dim
        assert np.array_equal(picture.rgb, decoded(data))


@pytest.mark.parametrize(
    ("made", "part", "other"),
    [(heic, b"hvc1", b"avc1"), (heic, b"hvc1", b"what"), (heic, b"pitm", b"free"), (avif, b"avif", b"mif1")],
)
def test_a_heif_without_a_picture_that_can_be_decoded_is_refused(made: Make, part: bytes, other: bytes):
    pytest.importorskip("pillow_heif")
    refused = refusal(decoded, made(smooth()).replace(part, other))
    assert (refused.reason, "no primary picture" in refused.detail) == (Reason.UNSUPPORTED_FORMAT, True)


def test_the_limit_of_pixels_is_the_headers(make: Make):
    refused = refusal(decode, make(smooth()), limits=1000)
    assert refused.args[:2] == (Reason.TOO_MANY_PIXELS, "96x64 pixels, at most 1,000 are decoded")


def test_avif_is_decoded_by_one_thread():
    plugin = pytest.importorskip("PIL.AvifImagePlugin")
    decoded(avif(smooth()))
    assert plugin.DEFAULT_MAX_THREADS == 1
