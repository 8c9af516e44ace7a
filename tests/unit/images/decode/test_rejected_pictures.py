"""docs/pictures.md: every line of its table of what is rejected, with a file made for it."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infer_app.images.decode import heif
from infer_app.images.decode.decoder import DecodeLimits, decode_image, has_turbo
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.read.read_image import read_image
from infer_app.recipe import Recipe
from infer_app.settings.sections import ImagesSettings
from tests.support import jpegs
from tests.support.jpegs import encoded, picture
from tests.support.pictures_page import PAGE, rows
from tests.support.rasters import claiming, tiff
from tests.support.refusals import refusal

LIMITS = DecodeLimits(max_pixels=10**6)


def decoded(data: bytes) -> np.ndarray:
    return decode_image(data, Recipe("stretch", size=8), LIMITS).rgb


def plain(mode: str, color: object) -> Image.Image:
    return Image.new(mode, (8, 4), color)


REJECTED: dict[str, Iterable[bytes]] = {
    "HEIC, HEIF without a decoder": [b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic"],
    "AVIF without a decoder": [b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif"],
    "HEIC without a primary picture in HEVC: an image sequence, or AV1 or JPEG inside it": [
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x3bmeta"
        + bytes(7)
        + b"\x21hdlr"
        + bytes(8)
        + b"pict"
        + bytes(16)
        + b"\x0eiinf"
        + bytes(6)
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
        monkeypatch.setattr(heif, f"_load_{line[:4].lower()}", lambda: None)
    if line in NEEDS_HEIC:
        pytest.importorskip("pi_heif")
    if line in NEEDS_TURBO and not has_turbo():
        pytest.skip("needs libturbojpeg: apt-get install libturbojpeg0")
    reason, detail = rows(3)[line]
    for data in REJECTED[line]:
        refused = refusal(decoded, data)
        assert (f"`{refused.reason}`", refused.detail) == (reason, detail)


def test_a_file_of_too_many_bytes_is_rejected_unread(tmp_path: Path):
    (tmp_path / "photo.jpg").write_bytes(bytes(2000))
    with pytest.raises(BadImage) as caught:
        read_image(str(tmp_path / "photo.jpg"), ReadLimits((tmp_path,), max_bytes=1000))
    reason, detail = rows(3)["more bytes than `[images] max_bytes`"]
    assert (f"`{caught.value.reason}`", caught.value.detail) == (reason, detail)


def test_the_page_names_the_limits_in_force():
    images = ImagesSettings()
    assert (images.max_bytes, images.max_pixels) == (256 * 2**20, 64_000_000)
    assert re.search(r"`max_bytes` is 256 MiB and `max_pixels` 64 million", PAGE.read_text())
