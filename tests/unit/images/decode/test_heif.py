"""HEIC and AVIF: the source's pixels, upright whatever the orientation, of 8 bits."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from infer_app.domain import Reason, Recipe
from infer_app.images.decode import heif
from infer_app.images.decode.decoder import DecodeLimits, decode_image, decoder_name
from tests.support.heif_files import avif, heic
from tests.support.jpegs import exif
from tests.support.refusals import refusal
from tests.unit.images.decode.test_decoder import STORED_AS, put

RECIPES = [Recipe("stretch", size=8, exif=exif) for exif in ("apply", "ignore")]
LIMITS = DecodeLimits(max_pixels=10**6)


@pytest.fixture(params=[heic, avif], ids=["heic", "avif"])
def make(request: pytest.FixtureRequest) -> Callable[..., bytes]:
    for package in ("pi_heif", "pillow_heif") if request.param is heic else ("PIL._avif",):
        pytest.importorskip(package)
    made: Callable[..., bytes] = request.param
    return made


def smooth(width: int = 96, height: int = 64) -> Image.Image:
    """Different in every corner, without detail that an encoder drops."""
    y, x = np.mgrid[0:height, 0:width]
    channels = (255 * x / width, 255 * y / height, 120 + 100 * np.sin(x / 9) * np.cos(y / 11))
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def decoded(data: bytes, recipe: Recipe = RECIPES[0]) -> np.ndarray:
    return decode_image(data, recipe, LIMITS).rgb


def psnr(pixels: np.ndarray, source: Image.Image) -> float:
    assert pixels.shape == (source.height, source.width, 3)
    error = np.mean((pixels.astype(float) - np.asarray(source)) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else 99


@pytest.mark.parametrize("orientation", STORED_AS)
@pytest.mark.parametrize("recipe", RECIPES, ids=["apply", "ignore"])
def test_the_eight_orientations_give_one_picture(make: Callable[..., bytes], orientation: int, recipe: Recipe):
    data = make(put(smooth(), orientation), exif=exif(orientation))
    assert psnr(decoded(data, recipe), smooth()) > 35


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_a_picture_of_another_mode_is_rgb(make: Callable[..., bytes], mode: str):
    image = smooth().convert(mode)
    assert psnr(decoded(make(image)), image.convert("RGB")) > 35


@pytest.mark.parametrize("bits", [10, 12])
def test_more_than_eight_bits_are_scaled(make: Callable[..., bytes], bits: int):
    if make is avif:
        pytest.skip("Pillow writes AVIF of 8 bits only")
    assert psnr(decoded(make(smooth(), bits=bits)), smooth()) > 35
    white = decoded(make(Image.new("RGB", (16, 16), (255, 255, 255)), bits=bits))
    assert white.min() >= 254


def test_of_several_pictures_the_first_is_read(make: Callable[..., bytes]):
    assert psnr(decoded(make(smooth(), smooth().rotate(180))), smooth()) > 35


def test_the_limit_of_pixels_is_the_headers(make: Callable[..., bytes]):
    refused = refusal(lambda data: decode_image(data, RECIPES[0], DecodeLimits(max_pixels=1000)), make(smooth()))
    assert (refused.reason, refused.detail) == (
        Reason.TOO_MANY_PIXELS,
        "96x64 pixels, at most 1,000 are decoded",
    )


def test_a_file_that_ends_early_is_truncated(make: Callable[..., bytes]):
    data = make(smooth())
    assert refusal(decoded, data[: len(data) // 2]).reason is Reason.TRUNCATED


def test_avif_is_decoded_by_one_thread():
    plugin = pytest.importorskip("PIL.AvifImagePlugin")
    decoded(avif(smooth()))
    assert plugin.DEFAULT_MAX_THREADS == 1


def test_the_decoders_are_named(make: Callable[..., bytes]):
    name = decoder_name.__wrapped__()
    assert ("pi-heif " if make is heic else "libavif ") in name


def test_without_decoders_none_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heif, "_load_heic", lambda: None)
    monkeypatch.setattr(heif, "_load_avif", lambda: None)
    assert heif.heif_decoder_names() == []
