"""16 bits as 8: windows are exact, whatever the format."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from infer_app.artifact.recipe import Recipe, parse_depth
from infer_app.base.domain import Reason
from infer_app.base.errors import UsageError
from infer_app.predict.images.decode.depth import to_8_bits
from infer_app.predict.images.transform.geometry import Picture
from tests.support.decoding import decode
from tests.support.jpegs import encoded, exif, picture
from tests.support.rasters import png_of_16_bits, tiff
from tests.support.refusals import refusal


def decoded(data: bytes, depth: str = "full") -> Picture:
    return decode(data, Recipe("stretch", size=8, depth=depth))


DEPTHS = ["full", "window:0,4095", "window:300,2000", "percentile:0.5,99.5"]
ALL = np.arange(65536, dtype=np.uint16).reshape(256, 256)


def samples(channels: int, most: int = 4095) -> np.ndarray:
    return np.random.default_rng(channels).integers(0, most, (21, 34, channels), dtype=np.uint16, endpoint=True)


def as_tiff(values: np.ndarray, **tags: int) -> bytes:
    height, width, channels = values.shape
    return tiff(width, height, 16, channels, values.astype("<u2").tobytes(), **tags)


def by_tifffile(values: np.ndarray, **options: Any) -> bytes:
    """Grey for one channel, otherwise colours."""
    pages = values[..., 0] if values.shape[-1] == 1 else values
    if options.get("tile") is None:
        options["rowsperstrip"] = 8
    buffer = BytesIO()
    tifffile.imwrite(buffer, pages, **{"photometric": "minisblack" if pages is not values else "rgb"} | options)
    return buffer.getvalue()


def assert_read(data: bytes, values: np.ndarray, depth: str) -> None:
    """Compare with numpy on the samples."""
    exact = values[:, :, : 3 if values.shape[2] >= 3 else 1].astype(float)
    kind, _, limits = depth.partition(":")
    if kind == "full":
        expected = np.floor(exact / 256)
    else:
        low, high = map(float, limits.split(","))
        if kind == "percentile":
            low, high = np.percentile(exact, (low, high))
        expected = np.clip((exact - low) * 255 / (high - low), 0, 255)
    assert np.abs(decoded(data, depth).rgb - expected).max() <= (0 if kind == "full" else 0.51)


def test_a_depth_has_one_form():
    forms = {"full": "full", "window: 0, 4095.0": "window:0,4095", "percentile:0.50,99.5": "percentile:0.5,99.5"}
    assert {given: parse_depth(given) for given in forms} == forms


NO_DEPTHS = ["", "half", "percentile:0,101", "percentile:99,1", "percentiles:1,99", "window", "window:", "window:5"]
NO_DEPTHS += [f"window:{limits}" for limits in ("5,5", "9,5", "-1,5", "0,65536", "0.5,9", "0,nan", "1,2,3")]


@pytest.mark.parametrize("given", NO_DEPTHS)
def test_what_is_no_depth(given: str):
    with pytest.raises(UsageError, match=f"depth {given!r} is not known"):
        parse_depth(given)


@pytest.mark.parametrize(("low", "high"), [(0, 4095), (0, 65535), (100, 101), (1000, 3000), (0, 4096)])
def test_a_window_is_exact(low: int, high: int):
    expected = np.clip(np.round((ALL.astype(float) - low) * 255 / (high - low)), 0, 255)
    assert np.array_equal(to_8_bits(ALL, f"window:{low},{high}"), expected)


def test_an_image_of_one_value_has_no_percentiles():
    assert to_8_bits(np.full((4, 4), 900, np.uint16), "percentile:1,99").max() == 0


GREY, COLORS = samples(1), samples(3)
OTHERS = {
    **{f"png of {channels}": (png_of_16_bits(samples(channels)), samples(channels)) for channels in (1, 2, 3, 4)},
    **{
        compression: (encoded(Image.fromarray(GREY[:, :, 0]), "TIFF", compression=compression), GREY)
        for compression in ("tiff_lzw", "tiff_adobe_deflate", "zstd", "lzma", "packbits")
    },
    **{
        f"0 is white, {compression}": (
            by_tifffile(65_535 - GREY, photometric="miniswhite", compression=compression),
            GREY,
        )
        for compression in (None, "deflate")
    },
    "first page": (by_tifffile(np.stack([COLORS, COLORS[::-1]])), COLORS),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", OTHERS)
def test_a_png_and_a_tiff_of_another_kind_are_read_in_full(kind: str, depth: str):
    assert_read(*OTHERS[kind], depth)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("tile", [None, (16, 32)], ids=["strips", "tiles"])
@pytest.mark.parametrize("compression", [None, "deflate", "lzma"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_tiff_is_read_in_full(channels: int, order: str, tile: tuple[int, int] | None, compression: str, depth: str):
    values = samples(channels)
    for predictor in (False, True) if compression else (False,):
        data = by_tifffile(values, byteorder=order, tile=tile, compression=compression, predictor=predictor)
        assert_read(data, values, depth)


def test_an_oriented_tiff_of_colors_is_upright():
    values = samples(3)
    expected = np.rot90(to_8_bits(values, "window:0,4095"), -1)
    assert np.array_equal(decoded(as_tiff(values, t274=6), "window:0,4095").rgb, expected)


@pytest.mark.parametrize("kind", [{"photometric": "separated"}, {"photometric": "rgb", "extrasamples": ["assocalpha"]}])
@pytest.mark.parametrize("compression", [None, "deflate"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_cmyk_and_premultiplied_alpha_are_read_by_full_only(kind: dict[str, object], compression: str, order: str):
    data = by_tifffile(samples(4), byteorder=order, compression=compression, planarconfig="contig", **kind)
    assert decoded(data).rgb.shape == (21, 34, 3)
    for depth in DEPTHS[1:]:
        refused = refusal(decoded, data, depth)
        assert (refused.reason, "depth=full only" in refused.detail) == (Reason.UNSUPPORTED_FORMAT, True)


@pytest.mark.parametrize("format", ["PNG", "TIFF", "JPEG", "GIF", "BMP", "WEBP"])
def test_pictures_of_eight_bits_stay_as_they_are(format: str):
    data = encoded(picture(), format, exif=exif(1)) if format == "JPEG" else encoded(picture(), format)
    assert np.array_equal(decoded(data, "window:0,4095").rgb, decoded(data).rgb)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_twelve_of_sixteen_bits_are_told_only_if_read_in_full(channels: int):
    dim, bright = samples(channels, most=4095), samples(channels, most=65535)
    dim[0, 0, 0], bright[0, 0, 0] = 4095, 65535
    assert decoded(png_of_16_bits(dim)).is_dim
    assert not decoded(png_of_16_bits(dim), "window:0,4095").is_dim
    assert not decoded(png_of_16_bits(bright)).is_dim
    dim[0, 0, 0] = 4096
    assert not decoded(png_of_16_bits(dim)).is_dim
    if channels != 2:
        assert not decoded(as_tiff(dim)).is_dim
    assert not decoded(encoded(Image.new("RGB", (8, 8), (3, 3, 3)), "PNG")).is_dim  # of eight bits
