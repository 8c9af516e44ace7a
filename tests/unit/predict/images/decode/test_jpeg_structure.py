import struct

import pytest

from infer_app.base.domain import Reason
from infer_app.predict.images.decode.jpeg_structure import JpegHeader, parse_jpeg_header
from tests.support.jpegs import baseline, exif, with_segment
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
    wanted = header(sof=sof, num_components=components, num_scan_components_first=components)
    assert parse_jpeg_header(data) == wanted
    assert wanted.is_one_sequential_scan == (sof in (0xC0, 0xC1))
    parsed = parse_jpeg_header(SOI + frame(sof, components=4) + scan(1))  # one scan of several
    assert (parsed.num_scan_components_first, parsed.is_one_sequential_scan) == (1, False)


CORRUPT = [
    scan(),
    frame() + frame() + scan(),
    frame(width=0) + scan(),
    SOI + frame() + scan(),
    b"\xff\xd9" + frame() + scan(),
    b"\xff\xe0\0\1" + frame() + scan(),
    segment(0xC0, b"\x08\0\x10\0\x10\x03\1\x11\0") + scan(),
    segment(0xC0, b"\x08") + scan(),
    frame() + segment(0xDA, b"\x05\1\0"),
    frame() + segment(0xDA, b""),
]
LOSSLESS_OR_HIERARCHICAL = (0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF)
UNSUPPORTED = [frame(sof) for sof in LOSSLESS_OR_HIERARCHICAL]
UNSUPPORTED += [frame(bit_depth=12), frame(bit_depth=16), frame(components=2), frame(height=0)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [*((one, Reason.CORRUPT) for one in CORRUPT), *((one + scan(), Reason.UNSUPPORTED_FORMAT) for one in UNSUPPORTED)],
)
def test_a_header_that_contradicts_itself_or_is_of_another_kind_is_refused(data: bytes, reason: Reason):
    assert refusal(parse_jpeg_header, SOI + data).reason is reason


def test_stray_bytes_and_fill_bytes_between_segments_are_passed_over():
    assert parse_jpeg_header(SOI + b"stray\xff\0\xff\x01\xff\xd0" + frame() + b"\xff\xff\xff" + scan()) == header()


DAMAGED = (exif(0), exif(9), exif(6)[:-8], b"Exif\0\0", b"Exif\0\0garbage", b"Exif\0\0II*\0")
XMP = [b"http://ns.adobe.com/xap/1.0/\0" + xmp for xmp in (b'<x tiff:Orientation="6"/>', b"<tiff:Orientation>6</tiff")]


@pytest.mark.parametrize(
    ("segments", "orientation"),
    [
        *(([exif(orientation)], orientation) for orientation in range(1, 9)),
        *(([damaged], 1) for damaged in DAMAGED),  # damaged metadata turns nothing
        *(([xmp], 6) for xmp in XMP),  # where EXIF has none
        *(([xmp, exif(3)], 3) for xmp in XMP),
    ],
)
def test_the_orientation_is_exifs_else_xmps(segments: list[bytes], orientation: int):
    data = baseline()
    for payload in segments:
        data = with_segment(data, 0xE1, payload)
    assert parse_jpeg_header(data).orientation == orientation
