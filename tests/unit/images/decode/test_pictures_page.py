"""docs/pictures.md: every line of its tables of what is read or rejected, with files made for it."""

import re
import zlib
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from infer_app.images.decode import heif
from infer_app.images.decode.decoder import has_turbo
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.read.read_image import read_image
from infer_app.recipe import Recipe
from infer_app.settings.sections import ImagesSettings
from tests.support import heif_files, jpegs
from tests.support.decoding import IGNORE, RECIPE, decode, decoded
from tests.support.jpegs import encoded, exif, picture
from tests.support.pictures_page import PAGE, rows
from tests.support.rasters import claiming, png, png_of_16_bits, tiff
from tests.support.refusals import refusal

SCALED = Recipe("resize-crop", size=64, resize=64, decode="scaled")
COLOR = (200, 100, 50)


def plain(mode: str = "RGB", color: object = COLOR) -> Image.Image:
    return Image.new(mode, (8, 4), color)


def is_filled(data: bytes, color: tuple[int, int, int], tolerance: int = 0) -> bool:
    pixels = decoded(data).astype(int)
    return bool((np.abs(pixels - np.array(color)) <= tolerance).all())


def is_exact(*files: bytes) -> bool:
    return all(np.array_equal(decoded(data), np.asarray(picture())) for data in files)


def is_smooth(data: bytes) -> bool:
    return bool(np.abs(decoded(data).astype(int) - np.asarray(heif_files.smooth(32, 32))).max() <= 8)


def is_close(*files: bytes) -> bool:
    return all(np.abs(decoded(data).astype(int) - np.asarray(picture())).mean() < 25 for data in files)


def as_tiff(compression: str, image: Image.Image | None = None) -> bytes:
    return encoded(image or picture(), "TIFF", compression=compression)


def by_tifffile(**options: Any) -> bytes:
    buffer = BytesIO()
    tifffile.imwrite(buffer, np.asarray(picture()), photometric="rgb", **options)
    return buffer.getvalue()


def frames(format: str, **options: object) -> bytes:
    return encoded(plain(), format, save_all=True, append_images=[plain(color=(0, 0, 255))], **options)


def deep(value: int, channels: int = 1) -> np.ndarray:
    return np.full((4, 8, channels), value, np.uint16)


def deep_tiff(value: int, channels: int = 1) -> bytes:
    return tiff(8, 4, 16, channels, deep(value, channels).astype("<u2").tobytes())


def interlaced() -> bytes:
    """A PNG of one pixel, whose only pass of seven has that pixel."""
    data = bytearray(png(1, 1, 8, 2, bytes(COLOR)))
    data[28] = 1
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def lacks_end_marker() -> bool:
    cut = jpegs.baseline()[:-2]
    if has_turbo():
        return np.array_equal(decoded(cut), decoded(jpegs.baseline()))
    return refusal(decoded, cut).reason == "truncated"


def is_turned_unless_ignored() -> bool:
    stored = encoded(picture().transpose(Image.Transpose.ROTATE_90), "PNG", exif=exif(6))
    return is_exact(stored) and decoded(stored, IGNORE).shape == (24, 16, 3)


def is_scaled(width: int, scale: int) -> bool:
    made = decode(encoded(picture(width, width)), SCALED)
    return made.scale == scale and made.rgb.shape[:2] == (width // scale, width // scale)


def deep_is(depth: str, *expected: int) -> bool:
    """What these three samples become, as grey and as colours, in a PNG and in a TIFF."""
    samples = np.array([[0, 1000, 4095]], np.uint16)
    rgb = samples[:, :, None].repeat(3, axis=2)
    files = [png_of_16_bits(rgb[:, :, :1]), png_of_16_bits(rgb), tiff(3, 1, 16, 3, rgb.astype("<u2").tobytes())]
    recipe = Recipe("stretch", size=8, depth=depth)
    return all(decoded(data, recipe)[0, :, 1].tolist() == list(expected) for data in files)


def is_near(data: bytes, color: tuple[int, int, int] = COLOR) -> bool:
    return is_filled(data, color, tolerance=4)


READ: dict[str, Callable[[], bool]] = {
    "JPEG: baseline, progressive": lambda: is_close(jpegs.baseline(), jpegs.progressive()),
    "JPEG whose end marker alone is missing": lacks_end_marker,
    "PNG, interlaced or not": lambda: is_exact(encoded(picture(), "PNG")) and is_filled(interlaced(), COLOR),
    "WebP, lossy or lossless": lambda: (
        is_exact(encoded(picture(), "WEBP", lossless=True)) and is_close(encoded(picture(), "WEBP"))
    ),
    "BMP": lambda: is_exact(encoded(picture(), "BMP")),
    "GIF": lambda: is_filled(encoded(plain(), "GIF"), COLOR),
    "TIFF: uncompressed, LZW, Deflate, PackBits, LZMA, zstd, JPEG, CCITT": lambda: (
        is_exact(*map(as_tiff, ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "zstd")))
        and is_close(as_tiff("jpeg"))
        and is_filled(as_tiff("group4", plain("1", 1)), (255, 255, 255))
    ),
    "TIFF in strips or tiles, of either byte order": lambda: is_exact(
        *(
            by_tifffile(byteorder=order, **layout)
            for order in "<>"
            for layout in ({"rowsperstrip": 5}, {"tile": (16, 16)})
        )
    ),
    "BigTIFF, little-endian": lambda: is_exact(encoded(picture(), "TIFF", big_tiff=True)),
    "HEIC, HEIF: 8, 10 or 12 bits": lambda: all(is_near(heif_files.heic(plain(), bits=bits)) for bits in (8, 10, 12)),
    "HEIC in tiles, as phones write it": lambda: is_near(heif_files.heic(plain().resize((100, 70)), tile_size=64)),
    "AVIF: 8, 10 or 12 bits": lambda: (
        is_near(heif_files.avif(plain())) and all(is_smooth(heif_files.deep_avif(bits)) for bits in (10, 12))
    ),
    "grey, or black and white": lambda: (
        is_filled(encoded(plain("L", 124), "PNG"), (124, 124, 124))
        and is_filled(encoded(plain("1", 1), "PNG"), (255, 255, 255))
    ),
    "TIFF whose 0 is white (of 16 bits: little-endian only)": lambda: (
        is_filled(tiff(8, 4, 8, 1, bytes([55] * 32), t262=0), (200, 200, 200))
        and is_filled(tiff(8, 4, 16, 1, bytes([0, 55] * 32), t262=0), (200, 200, 200))
    ),
    "palette": lambda: is_filled(encoded(plain().quantize(4), "PNG"), COLOR),
    "alpha channel, transparent colour": lambda: (
        is_filled(encoded(plain("RGBA", (*COLOR, 0)), "PNG"), COLOR)
        and is_filled(encoded(plain(), "PNG", transparency=COLOR), COLOR)
    ),
    "premultiplied alpha: TIFF or HEIC": lambda: (
        is_filled(tiff(8, 4, 8, 4, bytes([100, 50, 25, 128] * 32), t338=1), COLOR, tolerance=1)
        and is_near(heif_files.heic(plain("RGBA", (*COLOR, 128)).convert("RGBa")))
    ),
    "CMYK: JPEG or TIFF": lambda: (
        is_filled(encoded(plain("CMYK", (0, 255, 255, 0))), (255, 0, 0))
        and is_filled(encoded(plain("CMYK", (0, 255, 255, 0)), "TIFF"), (255, 0, 0))
    ),
    "CMYK JPEG without Adobe's marker": lambda: np.array_equal(
        decoded(jpegs.cmyk_without_adobe()), decoded(jpegs.cmyk())
    ),
    "YCCK JPEG, as Adobe's programs write it": lambda: decoded(jpegs.ycck()).shape == (16, 24, 3),
    "ICC profile, such as Adobe RGB or Display P3": lambda: (
        is_filled(encoded(plain(), "PNG", icc_profile=b"any"), COLOR)
        and np.array_equal(decoded(encoded(picture(), icc_profile=b"any")), decoded(encoded(picture())))
    ),
    "16 bits per channel: PNG or TIFF, grey, colour or CMYK": lambda: (
        all(is_filled(png_of_16_bits(deep(value, 3)), (value >> 8,) * 3) for value in (0, 255, 256, 65_535))
        and all(is_filled(deep_tiff(value), (value >> 8,) * 3) for value in (0, 255, 256, 65_535))
        and is_filled(png_of_16_bits(deep(65_535)), (255, 255, 255))
        and is_filled(deep_tiff(65_535, 3), (255, 255, 255))
        and is_filled(tiff(8, 4, 16, 4, bytes([0, 0, 0, 255, 0, 255, 0, 0] * 32), t262=5), (255, 0, 0))
    ),
    "12-bit data in a file of 16 bits, values up to 4,095": lambda: (
        is_filled(png_of_16_bits(deep(4095)), (15, 15, 15)) and is_filled(deep_tiff(4095 * 16), (255, 255, 255))
    ),
    "whole numbers of 32 bits, all between 0 and 65,535": lambda: is_filled(
        encoded(plain("I", 65_535), "TIFF"), (255, 255, 255)
    ),
    "EXIF orientation 2 to 8": is_turned_unless_ignored,
    "damaged EXIF data": lambda: is_exact(encoded(picture(), "PNG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")),
    "TIFF's own orientation": lambda: decoded(tiff(8, 4, 8, 3, bytes(96), t274=6), IGNORE).shape == (8, 4, 3),
    "HEIC and AVIF: rotation and mirroring of the container": lambda: all(
        decoded(made(Image.new("RGB", (8, 4)), exif=exif(6)), recipe).shape == (8, 4, 3)
        for made in (heif_files.heic, heif_files.avif)
        for recipe in (RECIPE, IGNORE)
    ),
    "HEIC with several pictures": lambda: (
        is_near(heif_files.heic(plain(), plain(color=(0, 0, 255))))
        and is_near(heif_files.heic(plain(color=(0, 0, 255)), plain(), primary=1))
    ),
    "animated AVIF": lambda: is_near(heif_files.avif(plain(), plain(color=(0, 0, 255)))),
    "`full`, the default": lambda: deep_is("full", 0, 3, 15),
    "`window:LOW,HIGH`": lambda: (
        deep_is("window:0,4095", 0, 62, 255) and deep_is("window:1000,2000", 0, 0, 255) and deep_is("full", 0, 3, 15)
    ),
    "`percentile:LOW,HIGH`": lambda: (
        deep_is("percentile:0,100", 0, 62, 255) and deep_is("percentile:0,50", 0, 255, 255)
    ),
    "animated GIF, WebP or PNG": lambda: all(
        is_filled(data, COLOR) for data in (frames("GIF"), frames("WEBP", lossless=True), frames("PNG"))
    ),
    "TIFF with several pages": lambda: is_filled(frames("TIFF"), COLOR),
    "MPO, a JPEG with further pictures behind it": lambda: is_filled(frames("MPO"), COLOR, tolerance=3),
    "JPEG at least 4 times the model's input, `--decode scaled`": lambda: (
        is_scaled(4 * 64, 2) and is_scaled(8 * 64, 4) and is_scaled(3 * 64, 1)
    ),
    "any other file, `--decode scaled`": lambda: all(
        np.array_equal(decoded(encoded(picture(512, 512), format), SCALED), np.asarray(picture(512, 512)))
        for format in ("PNG", "BMP", "TIFF")
    ),
}


def test_every_line_of_what_is_read_has_a_case():
    assert rows(2).keys() == READ.keys()


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
    "raw photo: DNG, NEF, ARW": [tiff(8, 4, 8, 3, bytes(96), t50706=1025), tiff(8, 4, 8, 3, bytes(96), t254=1, t330=8)],
    "SVG": [b'<svg xmlns="x"/>', b'<?xml version="1.0"?>\n<!-- made by hand -->\n<svg xmlns="x"/>'],
    "PDF": [b"%PDF-1.7\n"],
    "DICOM": [bytes(128) + b"DICM"],
    "video: MP4, QuickTime": [b"\0\0\0\x18ftypisom\0\0\0\1isommp42", b"\0\0\0\x14ftypqt  \0\0\0\0qt  "],
    "an error page of a web server": [b"<!DOCTYPE html><title>404</title>", b"\n<html><body>Not found"],
    "any other content": [b"abc"],
    "TIFF of floating-point numbers": [encoded(plain("F", 0.5), "TIFF")],
    "TIFF of more than 16 bits, or of negative numbers": [
        encoded(plain("I", 65_536), "TIFF"),
        encoded(plain("I", -1), "TIFF"),
    ],
    "TIFF of 2 or of 5 channels, of RGB of 12 or 32 bits": [
        *(tiff(8, 4, 8, channels, bytes(400)) for channels in (2, 5)),
        *(tiff(8, 4, bits, 3, bytes(400)) for bits in (12, 32)),
    ],
    "TIFF of 16 bits in separate planes, uncompressed": [tiff(8, 4, 16, 3, bytes(192), t284=2)],
    "TIFF compressed as JPEG 2000, JPEG XL, WebP, JBIG or LERC": [
        tiff(8, 4, 8, 3, bytes(96), t259=code) for code in (33003, 33005, 34712)
    ],
    "BigTIFF, big-endian": [b"MM\0+\0\x08\0\0" + bytes(8)],
    "JPEG of 12 bits": [b"\xff\xd8\xff\xc1\0\x0b\x0c\0\x08\0\x08\x01\x01\x11\0\xff\xda"],
    "lossless JPEG": [b"\xff\xd8\xff\xc3\0\x0b\x08\0\x08\0\x08\x01\x01\x11\0\xff\xda"],
    "a file without a byte": [b""],
    "JPEG that ends early": [jpegs.baseline()[:-40]],
    "PNG that ends early": [encoded(picture(), "PNG")[:-12]],
    "PNG with damaged data": [encoded(picture(), "PNG")[:60] + b"xxxx" + encoded(picture(), "PNG")[64:]],
    "more bytes than `[images] max_bytes`": [],  # asserted below: it is found when the file is read
    "more pixels than `[images] max_pixels`": [claiming("png", 2000, 2000), claiming("tiff", 2000, 2000)],
}
NEEDS_TURBO = {"JPEG that ends early"}  # the words are libjpeg-turbo's

NEEDS_HEIC = {"HEIC without a primary picture in HEVC: an image sequence, or AV1 or JPEG inside it"}


def test_every_line_of_what_is_rejected_has_a_case():
    assert rows(3).keys() == REJECTED.keys()


@pytest.mark.parametrize("line", REJECTED)
def test_what_the_page_says_is_rejected(line: str, monkeypatch: pytest.MonkeyPatch):
    if line.endswith("without a decoder"):
        monkeypatch.setattr(heif, f"has_{line[:4].lower()}", lambda: False)
    if line in NEEDS_HEIC:
        pytest.importorskip("pi_heif")
    if line in NEEDS_TURBO and not has_turbo():
        pytest.skip("needs libturbojpeg: apt-get install libturbojpeg0")
    for data in REJECTED[line]:
        refused = refusal(decoded, data)
        assert [f"`{refused.reason}`", refused.detail] == rows(3)[line]


def test_a_file_of_too_many_bytes_is_rejected_unread(tmp_path: Path):
    (tmp_path / "photo.jpg").write_bytes(bytes(2000))
    refused = refusal(read_image, str(tmp_path / "photo.jpg"), ReadLimits((tmp_path,), max_bytes=1000))
    assert [f"`{refused.reason}`", refused.detail] == rows(3)["more bytes than `[images] max_bytes`"]


def test_the_page_names_the_limits_in_force():
    images = ImagesSettings()
    assert (images.max_bytes, images.max_pixels) == (256 * 2**20, 64_000_000)
    assert re.search(r"`max_bytes` is 256 MiB and `max_pixels` 64 million", PAGE.read_text())
