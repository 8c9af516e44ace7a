"""docs/pictures.md: every line of its tables of what is read or rejected, with files made for it."""

import re
import zlib
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from infer_app.artifact.recipe import Recipe
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.sections import ImagesSettings
from infer_app.predict.images.decode import heif
from infer_app.predict.images.decode.decoder import has_turbo
from infer_app.predict.images.read.read_image import read_image
from tests.support import heif_files, jpegs
from tests.support.decoding import IGNORE, by_pillow, decode, decoded
from tests.support.jpegs import encoded, picture
from tests.support.pictures_page import PAGE, rows
from tests.support.rasters import claiming, png, tiff
from tests.support.refusals import refusal

SCALED = Recipe("stretch", size=1, decode="scaled")
COLOR = (200, 100, 50)


def plain(mode: str = "RGB", color: object = COLOR) -> Image.Image:
    return Image.new(mode, (8, 4), color)


def is_filled(data: bytes, color: tuple[int, int, int], tolerance: int = 0) -> bool:
    pixels = decoded(data).astype(int)
    return bool((np.abs(pixels - np.array(color)) <= tolerance).all())


def is_near(data: bytes, color: tuple[int, int, int] = COLOR) -> bool:
    return is_filled(data, color, tolerance=4)


def is_smooth(data: bytes) -> bool:
    return bool(np.abs(decoded(data).astype(int) - np.asarray(heif_files.smooth(32, 32))).max() <= 8)


def made(format: str, mode: str = "RGB", **options: object) -> bytes:
    return encoded(picture(13, 7).convert("RGBA").convert(mode), format, **options)


def by_tifffile(**options: Any) -> bytes:
    buffer = BytesIO()
    tifffile.imwrite(buffer, np.asarray(picture()), photometric="rgb", **options)
    return buffer.getvalue()


def frames(format: str, **options: object) -> bytes:
    return encoded(plain(), format, save_all=True, append_images=[plain(color=(0, 0, 255))], **options)


def interlaced() -> bytes:
    """A PNG of one pixel, whose only pass of seven has that pixel."""
    data = bytearray(png(1, 1, 8, 2, bytes(COLOR)))
    data[28] = 1
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def raw_preview() -> bytes:
    """The first directory of a raw photo whose preview has no size, as Sony's have it."""
    entries = ((254, 1), (259, 6), (274, 1), (330, 64))
    return b"II*\0\x08\0\0\0\x04\0" + b"".join(pack("<HHII", tag, 4, 1, value) for tag, value in entries) + bytes(60)


def bmp_of_4_bits() -> bytes:
    header = pack("<2sIHHIIiiHHIIiiII", b"BM", 0, 0, 0, 66, 40, 8, 4, 1, 16, 3, 64, 0, 0, 0, 0)
    return header + pack("<III", 0xF00, 0xF0, 0xF) + bytes(64)


def deep_tiff(*values: int, **tags: int) -> bytes:
    return tiff(8, 4, 16, len(values), np.full((4, 8, len(values)), values, "<u2").tobytes(), **tags)


COMPRESSIONS = ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "zstd", "jpeg")
# Of these the pixels are Pillow's.
AS_PILLOW: dict[str, list[bytes]] = {
    "JPEG: baseline, progressive": [jpegs.baseline(), jpegs.progressive()],
    "PNG, interlaced or not": [made("PNG"), interlaced()],
    "WebP, lossy or lossless": [made("WEBP"), made("WEBP", lossless=True)],
    "BMP": [made("BMP")],
    "GIF": [made("GIF", "P")],
    "TIFF: uncompressed, LZW, Deflate, PackBits, LZMA, zstd, JPEG, CCITT": [
        *(made("TIFF", compression=compression) for compression in COMPRESSIONS),
        *(made("TIFF", mode) for mode in ("YCbCr", "LAB")),
        made("TIFF", "1", compression="group4"),
    ],
    "TIFF in strips or tiles, of either byte order": [
        by_tifffile(byteorder=order, **layout) for order in "<>" for layout in ({"rowsperstrip": 5}, {"tile": (16, 16)})
    ],
    "BigTIFF, little-endian": [made("TIFF", big_tiff=True)],
    "grey, or black and white": [
        *(made(format, mode) for format in ("PNG", "TIFF", "BMP") for mode in ("1", "L")),
        made("GIF", "L"),
    ],
    "palette": [made(format, "P") for format in ("PNG", "TIFF", "BMP", "GIF")],
    "alpha channel, transparent colour": [
        *(made(format, mode) for format in ("PNG", "TIFF") for mode in ("LA", "RGBA")),
        *(made("PNG", "P", transparency=value) for value in (3, b"\0\x80\xff")),
        *(made("PNG", mode, transparency=value) for mode, value in (("L", 40), ("RGB", (1, 2, 3)))),
        made("GIF", "P", transparency=3),
        made("BMP", "RGBA"),
        *(made("WEBP", "RGBA", **options) for options in ({"lossless": True}, {"quality": 50})),
    ],
    "CMYK: JPEG or TIFF": [made("JPEG", "CMYK"), made("TIFF", "CMYK")],
    "CMYK JPEG without Adobe's marker": [jpegs.cmyk_without_adobe()],
    "YCCK JPEG, as Adobe's programs write it": [jpegs.ycck()],
    "ICC profile, such as Adobe RGB or Display P3": [made(format, icc_profile=b"any") for format in ("PNG", "JPEG")],
    "damaged EXIF data": [made("PNG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")],
    "animated GIF, WebP or PNG": [frames("GIF"), frames("WEBP", lossless=True), frames("PNG")],
    "TIFF with several pages": [frames("TIFF")],
    "MPO, a JPEG with further pictures behind it": [frames("MPO")],
}
READ: dict[str, Callable[[], bool]] = {
    "HEIC, HEIF: 8, 10 or 12 bits": lambda: all(is_near(heif_files.heic(plain(), bits=bits)) for bits in (8, 10, 12)),
    "HEIC in tiles, as phones write it": lambda: is_near(heif_files.heic(plain().resize((100, 70)), tile_size=64)),
    "AVIF: 8, 10 or 12 bits": lambda: (
        is_near(heif_files.avif(plain())) and all(is_smooth(heif_files.deep_avif(bits)) for bits in (10, 12))
    ),
    "TIFF whose 0 is white (of 16 bits: little-endian only)": lambda: (
        all(np.array_equal(decoded(data), by_pillow(data)) for data in INVERTED)
        and is_filled(deep_tiff(55 << 8, t262=0), (200, 200, 200))
    ),
    "premultiplied alpha: TIFF or HEIC": lambda: (
        is_filled(tiff(8, 4, 8, 4, bytes([100, 50, 25, 128] * 32), t338=1), COLOR, tolerance=1)
        and is_near(heif_files.heic(plain("RGBA", (*COLOR, 128)).convert("RGBa")))
    ),
    "whole numbers of 32 bits, all between 0 and 65,535": lambda: is_filled(
        encoded(plain("I", 65_535), "TIFF"), (255, 255, 255)
    ),
    "TIFF's own orientation": lambda: decoded(tiff(8, 4, 8, 3, bytes(96), t274=6), IGNORE).shape == (8, 4, 3),
    "HEIC with several pictures": lambda: (
        is_near(heif_files.heic(plain(), plain(color=(0, 0, 255))))
        and is_near(heif_files.heic(plain(color=(0, 0, 255)), plain(), primary=1))
    ),
    "any other file, `decode=scaled`": lambda: (
        decode(encoded(picture(), "JPEG"), SCALED).scale == 8
        and all(
            decode(encoded(picture(), format), SCALED).scale == 1 for format in ("PNG", "WEBP", "BMP", "TIFF", "GIF")
        )
    ),
    "animated AVIF": lambda: is_near(heif_files.avif(plain(), plain(color=(0, 0, 255)))),
}
INVERTED = [made("TIFF", mode, tiffinfo={262: 0}) for mode in ("L", "1")]
# These have tests of their own.
HELD = {
    "JPEG with arithmetic coding": "an_arithmetic_coded_jpeg_of_more_than_64_kib_has_its_pixels",
    "JPEG with data of Samsung's phones in place of its end marker": (
        "what_samsungs_phones_write_in_place_of_the_end_marker_is_no_part_of_the_picture"
    ),
    "JPEG with up to 16 bytes of zeros or FF before its end marker": (
        "a_few_stray_bytes_before_the_end_marker_cost_no_image"
    ),
    "JPEG whose end marker alone is missing": "a_jpeg_cut_at_any_byte_is_refused_unless_only_its_end_marker_is_missing",
    "16 bits per channel: PNG or TIFF, grey, colour or CMYK": "a_tiff_is_read_in_full",
    "12-bit data in a file of 16 bits, values up to 4,095": "twelve_of_sixteen_bits_are_told_only_if_read_in_full",
    "EXIF's DateTimeOriginal, else DateTimeDigitized": (
        "the_time_is_the_cameras_as_it_is_written_with_the_offset_that_is_stated"
    ),
    "PNG with EXIF data as text": "a_png_is_dated_by_the_text_that_turns_it",
    "Reconyx HyperFire, with the time in its maker note alone": (
        "a_reconyx_hyperfire_states_the_time_in_its_maker_note_alone"
    ),
    "EXIF's DateTime alone, which editing changes": (
        "photos_without_a_time_and_damaged_ones_have_none_and_the_next_ones_have_theirs"
    ),
    "XMP, FLIR's own segment, APP12 of cameras before 2000": "the_time_in_xmp_alone_is_not_read",
    "`full`, the default": "a_png_and_a_tiff_of_another_kind_are_read_in_full",
    "`window:LOW,HIGH`": "a_window_is_exact",
    "`percentile:LOW,HIGH`": "a_png_and_a_tiff_of_another_kind_are_read_in_full",
    "EXIF orientation 2 to 8": "the_eight_orientations_give_one_picture",
    "HEIC and AVIF: rotation and mirroring of the container": "the_containers_orientation_counts_and_exifs_does_not",
    "JPEG at least 4 times the model's input, `decode=scaled`": "a_jpeg_of_a_rarer_kind_is_shrunk_to_pillows_pixels",
}


def test_every_line_of_what_is_read_has_a_case():
    assert rows(2).keys() == AS_PILLOW.keys() | READ.keys() | HELD.keys()
    tests = "".join(path.read_text() for path in (PAGE.parents[1] / "tests").rglob("images/decode/test_*.py"))
    assert [name for name in HELD.values() if f"def test_{name}(" not in tests] == []


@pytest.mark.parametrize("line", AS_PILLOW)
def test_what_the_page_says_is_read_has_pillows_pixels(line: str):
    for data in AS_PILLOW[line]:
        pixels = decoded(data)
        assert np.array_equal(pixels, by_pillow(data))
        assert (pixels.dtype, pixels.flags.c_contiguous) == (np.uint8, True)


@pytest.mark.parametrize("line", READ)
def test_what_the_page_says_is_read(line: str):
    assert READ[line]()


REJECTED: dict[str, Iterable[bytes]] = {
    "HEIC, HEIF without a decoder": [b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic"],
    "AVIF without a decoder": [b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif"],
    "HEIC without a primary picture in HEVC: an image sequence, or AV1 or JPEG inside it": [
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x3bmeta%b\x21hdlr%bpict%b\x0eiinf%b"
        % tuple(map(bytes, (7, 8, 16, 6)))
    ],
    "HEIC or AVIF that ends early": [b"\0\0\0\x1cftypheic\0\0\0\0mif1heicmiaf\0\0\0\x48meta\0\0\0\0"],
    "JPEG XL": [b"\xff\x0a" + bytes(10), b"\0\0\0\x0cJXL \r\n\x87\n"],
    "JPEG 2000": [b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51" + bytes(10)],
    "raw photo: CR2": [b"II*\0\x10\0\0\0CR\x02\0" + bytes(50)],
    "raw photo: CR3": [b"\0\0\0\x18ftypcrx \0\0\0\1crx isom"],
    "raw photo: RAF": [b"FUJIFILMCCD-RAW 0201"],
    "raw photo: DNG, NEF, ARW": [
        tiff(8, 4, 8, 3, bytes(96), t50706=1025),
        tiff(8, 4, 8, 3, bytes(96), t254=1, t330=8),
        raw_preview(),
    ],
    "BMP of a rare layout, such as 4 bits a channel": [bmp_of_4_bits()],
    "SVG": [b'<svg xmlns="x"/>', b'<?xml version="1.0"?>\n<!-- made by hand -->\n<svg xmlns="x"/>'],
    "PDF": [b"%PDF-1.7\n"],
    "DICOM": [bytes(128) + b"DICM"],
    "video: MP4, QuickTime": [b"\0\0\0\x18ftypisom\0\0\0\1isommp42", b"\0\0\0\x14ftypqt  \0\0\0\0qt  "],
    "an error page of a web server": [b"<!DOCTYPE html><title>404</title>", b"\n<html><body>Not found"],
    "any other content": [b"abc"],
    "TIFF of floating-point numbers": [encoded(plain("F", 0.5), "TIFF")],
    "TIFF of more than 16 bits, or of negative numbers": [encoded(plain("I", n), "TIFF") for n in (65_536, -1)],
    "TIFF of 2 or of 5 channels, of RGB of 32 bits": [
        *(tiff(8, 4, 8, channels, bytes(400)) for channels in (2, 5)),
        tiff(8, 4, 32, 3, bytes(400)),
    ],
    "TIFF of RGB of 12 bits": [tiff(8, 4, 12, 3, bytes(400))],
    "TIFF of 16 bits in separate planes, uncompressed": [tiff(8, 4, 16, 3, bytes(192), t284=2)],
    "TIFF compressed as JPEG 2000, JPEG XL, WebP, JBIG or LERC": [
        tiff(8, 4, 8, 3, bytes(96), t259=code) for code in (33003, 33005, 34712)
    ],
    "BigTIFF, big-endian": [b"MM\0+\0\x08\0\0" + bytes(8)],
    "JPEG of 12 bits": [b"\xff\xd8\xff\xc1\0\x0b\x0c\0\x08\0\x08\x01\x01\x11\0\xff\xda"],
    "JPEG of height 0 in its header": [b"\xff\xd8\xff\xc0\0\x0b\x08\0\0\0\x08\x01\x01\x11\0\xff\xda"],
    "AVIF of more than 16384x16384 pixels, or a side over 32768": [heif_files.avif(picture(32776, 64))],
    "lossless JPEG": [b"\xff\xd8\xff\xc3\0\x0b\x08\0\x08\0\x08\x01\x01\x11\0\xff\xda"],
    "a file without a byte": [b""],
    "JPEG that ends early": [jpegs.baseline()[:-40]],
    "PNG that ends early": [encoded(picture(), "PNG")[:-12]],
    "PNG with damaged data": [encoded(picture(), "PNG")[:60] + b"xxxx" + encoded(picture(), "PNG")[64:]],
    "more bytes than `[images] max_bytes`": [],  # asserted below: it is found when the file is read
    "more pixels than `[images] max_pixels`": [claiming("png", 2000, 2000), claiming("tiff", 2000, 2000)],
}
FORMATS = "JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF"
NEEDS_TURBO = {"JPEG that ends early"}  # the words are libjpeg-turbo's

NEEDS_HEIC = {"HEIC without a primary picture in HEVC: an image sequence, or AV1 or JPEG inside it"}


def test_every_line_of_what_is_rejected_has_a_case():
    assert rows(3).keys() == REJECTED.keys()


@pytest.mark.parametrize("line", REJECTED)
def test_what_the_page_says_is_rejected(line: str, monkeypatch: pytest.MonkeyPatch):
    if line.endswith("without a decoder"):
        monkeypatch.setattr(heif, f"has_{line[:4].lower()}", lambda: False)
    if line in NEEDS_HEIC:
        pytest.importorskip("pillow_heif")
    if line in NEEDS_TURBO and not has_turbo():
        pytest.skip("needs libturbojpeg: apt-get install libturbojpeg0")
    for data in REJECTED[line]:
        refused = refusal(decoded, data)
        assert [f"`{refused.reason}`", refused.detail.replace(FORMATS, "…")] == rows(3)[line]


def test_a_file_of_too_many_bytes_is_rejected_unread(tmp_path: Path):
    (tmp_path / "photo.jpg").write_bytes(bytes(2000))
    refused = refusal(read_image, str(tmp_path / "photo.jpg"), ReadLimits((tmp_path,), max_bytes=1000))
    assert [f"`{refused.reason}`", refused.detail] == rows(3)["more bytes than `[images] max_bytes`"]


def test_the_page_names_the_limits_in_force():
    images = ImagesSettings()
    assert (images.max_bytes, images.max_pixels) == (256 * 2**20, 64_000_000)
    assert re.search(r"`max_bytes` is 256 MiB and `max_pixels` 64 million", PAGE.read_text())
