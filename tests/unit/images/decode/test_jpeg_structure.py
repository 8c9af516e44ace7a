import struct
from collections.abc import Callable

import pytest

from infer_app.domain import Reason
from infer_app.images.decode.jpeg_structure import JpegHeader, has_jpeg_end, jpeg_segments, parse_jpeg_header
from infer_app.images.read.bad_image import BadImage
from tests.support.jpegs import (
    baseline,
    cmyk,
    encoded,
    exif,
    grey,
    non_interleaved,
    picture,
    progressive,
    with_restarts,
    with_segment,
)
from tests.support.refusals import refusal

SOI = b"\xff\xd8"


def segment(marker: int, payload: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(payload) + 2) + payload


def frame(sof: int = 0xC0, width: int = 640, height: int = 480, bit_depth: int = 8, components: int = 3) -> bytes:
    return segment(sof, struct.pack(">BHHB", bit_depth, height, width, components) + b"\1\x11\0" * components)


def scan(components: int = 3) -> bytes:
    return segment(0xDA, bytes((components,)) + b"\1\0" * components + b"\0\x3f\0")


def header(**changes: int | None) -> JpegHeader:
    usual = {"width": 640, "height": 480, "bit_depth": 8, "sof": 0xC0, "num_components": 3}
    usual |= {"num_scan_components_first": 3, "orientation": 1}
    return JpegHeader(**usual | changes)


@pytest.mark.parametrize("sof", [0xC0, 0xC1, 0xC2, 0xC9, 0xCA])
@pytest.mark.parametrize("components", [1, 3, 4])
def test_a_header_is_read_whatever_its_frame(sof: int, components: int):
    data = SOI + frame(sof, components=components) + scan(components)
    wanted = header(
        sof=sof,
        num_components=components,
        num_scan_components_first=components,
    )
    assert parse_jpeg_header(data) == wanted
    assert wanted.is_one_sequential_scan == (sof in (0xC0, 0xC1))


def test_a_scan_of_fewer_components_than_the_frame_is_one_of_several():
    parsed = parse_jpeg_header(SOI + frame() + scan(1))
    assert parsed == header(num_scan_components_first=1)
    assert not parsed.is_one_sequential_scan


@pytest.mark.parametrize("made", [baseline, progressive, grey, with_restarts, non_interleaved])
def test_a_real_jpeg_has_the_size_it_was_made_with(made: Callable[[], bytes]):
    data = made()
    parsed = parse_jpeg_header(data)
    assert (parsed.width, parsed.height) in [(24, 16), (64, 64)]
    assert parsed.num_components == (1 if made is grey else 3)
    assert parsed.sof == (0xC2 if made is progressive else 0xC0)


@pytest.mark.parametrize("sof", [0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF])
def test_lossless_and_hierarchical_frames_are_unsupported(sof: int):
    assert refusal(parse_jpeg_header, SOI + frame(sof) + scan()).reason is Reason.UNSUPPORTED_FORMAT


@pytest.mark.parametrize("changes", [{"bit_depth": 12}, {"bit_depth": 16}, {"components": 2}, {"height": 0}], ids=str)
def test_frames_that_cannot_become_eight_bit_colours_are_unsupported(changes: dict[str, int]):
    assert refusal(parse_jpeg_header, SOI + frame(**changes) + scan()).reason is Reason.UNSUPPORTED_FORMAT


@pytest.mark.parametrize(
    "data",
    [
        SOI + scan(),
        SOI + frame() + frame() + scan(),
        SOI + frame(width=0) + scan(),
        SOI + SOI + frame() + scan(),
        SOI + b"\xff\xd9" + frame() + scan(),
        SOI + b"\xff\xe0\0\1" + frame() + scan(),
        SOI + segment(0xC0, b"\x08\0\x10\0\x10\x03\1\x11\0") + scan(),
        SOI + segment(0xC0, b"\x08") + scan(),
        SOI + frame() + segment(0xDA, b"\x05\1\0"),
        SOI + frame() + segment(0xDA, b""),
    ],
)
def test_a_header_that_contradicts_itself_is_corrupt(data: bytes):
    assert refusal(parse_jpeg_header, data).reason is Reason.CORRUPT


@pytest.mark.parametrize("made", [baseline, progressive, grey, cmyk, with_restarts, non_interleaved])
def test_a_header_cut_at_any_byte_is_truncated(made: Callable[[], bytes]):
    data = made()
    end = [part.end for part in jpeg_segments(data)][-1]
    for length in range(2, end):
        assert refusal(parse_jpeg_header, data[:length]).reason is Reason.TRUNCATED, length
    assert parse_jpeg_header(data[:end]) == parse_jpeg_header(data)


def test_stray_bytes_and_fill_bytes_between_segments_are_passed_over():
    assert parse_jpeg_header(SOI + b"stray\xff\0\xff\x01\xff\xd0" + frame() + b"\xff\xff\xff" + scan()) == header()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_exifs(orientation: int):
    assert parse_jpeg_header(encoded(picture(), exif=exif(orientation))).orientation == orientation


@pytest.mark.parametrize("payload", [exif(0), exif(9), exif(6)[:-8], b"Exif\0\0", b"Exif\0\0garbage", b"Exif\0\0II*\0"])
def test_damaged_metadata_turns_nothing(payload: bytes):
    assert parse_jpeg_header(with_segment(baseline(), 0xE1, payload)).orientation == 1


@pytest.mark.parametrize("xmp", [b'<x tiff:Orientation="6"/>', b"<tiff:Orientation>6</tiff:Orientation>"])
def test_the_orientation_is_xmps_where_exif_has_none(xmp: bytes):
    data = with_segment(baseline(), 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp)
    assert parse_jpeg_header(data).orientation == 6
    assert parse_jpeg_header(with_segment(data, 0xE1, exif(3))).orientation == 3


@pytest.mark.parametrize("made", [baseline, progressive, grey, cmyk, with_restarts, non_interleaved])
def test_a_jpeg_has_its_end_only_when_whole(made: Callable[[], bytes]):
    data = made()
    assert has_jpeg_end(data)
    assert has_jpeg_end(data + b"garbage")
    assert not any(has_jpeg_end(data[:length]) for length in range(2, len(data)) if _has_scan(data[:length]))


def _has_scan(data: bytes) -> bool:
    try:
        return bool(parse_jpeg_header(data))
    except BadImage:
        return False
