"""A file that lost something is refused: grey filler is never predicted on."""

from collections.abc import Callable

import numpy as np
import pytest

import tests.support.jpegs as jpegs
from infer_app.domain import Reason
from infer_app.images.decode.decoder import DecodeLimits, decode_image, has_turbo
from infer_app.images.read.bad_image import BadImage
from infer_app.recipe import Recipe
from tests.support import heif_files
from tests.support.jpegs import encoded, picture
from tests.support.rasters import png_of_16_bits

Maker = Callable[[], bytes]
RECIPE = Recipe("stretch", size=8)
LIMITS = DecodeLimits(max_pixels=10**6)
ONE_SCAN = [jpegs.baseline, jpegs.grey, jpegs.cmyk, jpegs.with_restarts]
SEVERAL_SCANS = [jpegs.progressive, jpegs.grey_progressive, jpegs.non_interleaved, jpegs.arithmetic]
needs_turbo = pytest.mark.skipif(not has_turbo(), reason="needs libturbojpeg: apt-get install libturbojpeg0")


@pytest.fixture
def without_turbo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_app.images.decode.decoder.load_turbo", lambda: None)


def decoded(data: bytes) -> np.ndarray:
    return decode_image(data, RECIPE, LIMITS).rgb


def outcome(data: bytes) -> Reason | None:
    """None: pixels."""
    try:
        decoded(data)
    except BadImage as refused:
        return refused.reason
    return None


def outcomes_of_cuts(data: bytes) -> list[Reason | None]:
    """What becomes of the file's first 0, 1, 2, … bytes, up to one byte less than all."""
    return [outcome(data[:length]) for length in range(len(data))]


def all_refused(data: bytes) -> list[Reason]:
    return [Reason.EMPTY] + [Reason.TRUNCATED] * (len(data) - 1)


@needs_turbo
@pytest.mark.parametrize("made", ONE_SCAN)
def test_a_jpeg_cut_at_any_byte_is_refused_unless_only_its_end_marker_is_missing(made: Maker):
    data = made()
    assert outcomes_of_cuts(data) == [*all_refused(data[:-2]), None, None]
    assert np.array_equal(decoded(data[:-1]), decoded(data))
    assert np.array_equal(decoded(data[:-2]), decoded(data))


@needs_turbo
@pytest.mark.parametrize("made", SEVERAL_SCANS)
def test_a_jpeg_of_several_scans_cut_at_any_byte_is_refused(made: Maker):
    data = made()
    assert outcomes_of_cuts(data) == all_refused(data)


@pytest.mark.usefixtures("without_turbo")
@pytest.mark.parametrize("made", ONE_SCAN + SEVERAL_SCANS)
def test_a_jpeg_cut_at_any_byte_is_refused_without_turbo_too(made: Maker):
    data = made()
    assert outcomes_of_cuts(data) == all_refused(data)


@needs_turbo
@pytest.mark.parametrize("made", [jpegs.baseline, jpegs.progressive, jpegs.non_interleaved])
def test_an_oddity_does_not_hide_a_cut(made: Maker):
    """libjpeg speaks of a file's first warning only."""
    data = made().replace(b"JFIF\0\1\1", b"JFIF\0\7\7")
    assert outcome(data) is None
    whole = 2 if made is jpegs.baseline else 0  # bytes that may be missing
    assert set(outcomes_of_cuts(data)[1 : len(data) - whole]) == {Reason.TRUNCATED}


def outcomes_of_cuts_in_the_scans(data: bytes, behind: bytes) -> set[Reason | None]:
    start = data.index(b"\xff\xda") + 20
    return {outcome(data[:length] + behind) for length in range(start, len(data) - 12, 3)}


@needs_turbo
@pytest.mark.parametrize("behind", [b"\xff\xd8\xff\xe0", b"\xff" * 40, jpegs.grey()], ids=["start", "ff", "jpeg"])
@pytest.mark.parametrize("made", ONE_SCAN + SEVERAL_SCANS)
def test_what_stands_behind_a_cut_does_not_make_a_jpeg_whole(made: Maker, behind: bytes):
    assert outcomes_of_cuts_in_the_scans(made(), behind) <= {Reason.TRUNCATED, Reason.CORRUPT}


@needs_turbo
@pytest.mark.parametrize("made", ONE_SCAN)
def test_an_end_marker_behind_a_cut_does_not_make_a_jpeg_whole(made: Maker):
    assert outcomes_of_cuts_in_the_scans(made(), b"\xff\xd9") <= {Reason.TRUNCATED, Reason.CORRUPT}


@needs_turbo
@pytest.mark.parametrize("made", [*ONE_SCAN, jpegs.progressive, jpegs.non_interleaved])
def test_codes_that_no_table_has_are_never_predicted(made: Maker):
    data = made()
    start = data.index(b"\xff\xda") + 14
    ones = b"\xff\0" * 20  # no Huffman code is all ones
    for at in range(start, len(data) - 50, 7):
        damaged = data[:at] + ones + data[at + 40 :]
        assert outcome(damaged) in (Reason.CORRUPT, Reason.TRUNCATED), at


def _restart_damages() -> list[bytes]:
    data = jpegs.with_restarts()
    start = data.index(b"\xff\xda")
    second, third = data.index(b"\xff\xd1", start), data.index(b"\xff\xd2", start)
    return [
        data[:second] + data[second + 2 :],
        data[:second] + b"\xff\xd5" + data[second + 2 :],
        data[:second] + data[third:],
    ]


@needs_turbo
@pytest.mark.parametrize("data", _restart_damages(), ids=["no marker", "wrong marker", "no block"])
def test_a_lost_restart_interval_is_noticed(data: bytes):
    assert outcome(data) in (Reason.CORRUPT, Reason.TRUNCATED)


@needs_turbo
def test_bytes_left_over_behind_a_scan_mean_that_it_lost_its_way():
    data = jpegs.baseline()
    assert outcome(data[:-2] + b"\x55" * 9 + data[-2:]) is Reason.CORRUPT


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_a_png_cut_at_any_byte_of_its_pixels_is_refused(mode: str):
    data = encoded(picture(13, 7).convert("RGBA").convert(mode), "PNG")
    checksum = 4  # of the empty last chunk: nobody misses it
    refused = outcomes_of_cuts(data[:-checksum])
    assert refused == all_refused(data[:-checksum])


def test_a_png_of_sixteen_bits_cut_at_any_byte_of_its_pixels_is_refused():
    data = png_of_16_bits(np.arange(91, dtype=np.uint16).reshape(7, 13, 1) * 700)
    assert outcomes_of_cuts(data[:-4]) == all_refused(data[:-4])


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("BMP", {}),
        ("GIF", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "tiff_adobe_deflate"}),
    ],
    ids=str,
)
def test_another_format_cut_anywhere_is_refused_or_has_all_its_pixels(format: str, options: dict[str, object]):
    data = encoded(picture(), format, **options)
    whole = decoded(data)
    for length in range(len(data)):
        assert_refused_or_whole(data[:length], whole)


@pytest.mark.parametrize("made", [heif_files.heic, heif_files.avif])
@pytest.mark.parametrize("options", [{}, {"exif": jpegs.exif(6)}, {"quality": 30}], ids=str)
def test_a_heic_or_avif_cut_anywhere_is_refused(made: Callable[..., bytes], options: dict[str, object]):
    data = made(picture(), **options)
    whole = decoded(data)
    for length in range(len(data)):
        assert_refused_or_whole(data[:length], whole)


def assert_refused_or_whole(data: bytes, whole: np.ndarray) -> None:
    try:
        pixels = decoded(data)
    except BadImage:
        return
    assert np.array_equal(pixels, whole), len(data)
