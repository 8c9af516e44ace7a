"""Whatever the bytes: pixels or a BadImage, soon, and in little memory."""

import random
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.support.jpegs as jpegs
from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage
from tests.support.decoding import decode, outcome
from tests.support.heif_files import avif, deep_avif, heic
from tests.support.jpegs import encoded, picture
from tests.support.rasters import claiming, png, png_chunk, tiff

LARGE = 64 * 10**6
SMALL = 10**5
SOUND = {
    "jpeg": jpegs.baseline(),
    "jpeg-progressive": jpegs.progressive(),
    "jpeg-restarts": jpegs.with_restarts(),
    "jpeg-scans": jpegs.non_interleaved(),
    "jpeg-cmyk": jpegs.cmyk(),
    "png": encoded(picture(), "PNG"),
    "png-palette": encoded(picture().convert("P"), "PNG", transparency=3),
    "gif": encoded(picture(), "GIF", save_all=True, append_images=[picture().rotate(180)]),
    "bmp": encoded(picture(), "BMP"),
    "bmp-palette": encoded(picture().convert("P"), "BMP"),
    "tiff": encoded(picture(), "TIFF"),
    "tiff-lzw": encoded(picture(), "TIFF", compression="tiff_lzw"),
    "tiff-jpeg": encoded(picture(), "TIFF", compression="jpeg"),
    "webp": encoded(picture(), "WEBP"),
    "webp-lossless": encoded(picture(), "WEBP", lossless=True),
    "webp-animated": encoded(picture(), "WEBP", save_all=True, append_images=[picture().rotate(180)]),
}
BOXED: dict[str, bytes] = {}
if find_spec("PIL._avif"):
    BOXED |= {
        "avif": avif(picture()),
        "avif-12-bits": deep_avif(12),
        "avif-alpha": avif(picture().convert("RGBA"), exif=jpegs.exif(6)),
        "avif-animated": avif(picture(), picture().rotate(180)),
    }
if find_spec("pillow_heif"):
    BOXED |= {
        "heic": heic(picture()),
        "heic-10-bits": heic(picture(), bits=10),
        "heic-alpha": heic(picture().convert("RGBA"), exif=jpegs.exif(6)),
        "heic-tiles": heic(picture(150, 100), tile_size=64),
        "heic-several": heic(picture(), picture().rotate(180), primary=1),
    }
SOUND |= BOXED


def ends_well(data: bytes, limits: int = SMALL) -> bool:
    """Pixels as promised, or a BadImage with something to read; whatever else happens is an error."""
    try:
        pixels = decode(data, limits=limits).rgb
    except BadImage as refused:
        return refused.reason in Reason and bool(refused.detail)
    height, width, channels = pixels.shape
    return channels == 3 and pixels.dtype == np.uint8 and 0 < width * height <= limits


@contextmanager
def frugal(cpu_seconds: float = 5, megabytes: int = 50) -> Iterator[None]:
    """What happens inside must take little work and must not raise the memory of the process for a moment."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before, started = peak_memory(), time.process_time()
    yield
    assert time.process_time() - started < cpu_seconds
    assert peak_memory() - before < megabytes * 2**20


def peak_memory() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("kind", SOUND)
def test_500_damages_give_pixels_or_a_bad_image(kind: str):
    """Bits flipped, bytes replaced, or cut; mostly before the picture, where there is what decoders trust."""
    chance = random.Random(kind)
    for _ in range(500):
        data = bytearray(SOUND[kind])
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(min(len(data), 600) if chance.random() < 0.7 else len(data))
            data[at] = chance.choice([data[at] ^ 1 << chance.randrange(8), 0, 255, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        assert ends_well(bytes(data)), bytes(data).hex()


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "bmp", "tiff", "webp"])
@settings(max_examples=40)
@given(st.binary(max_size=300), st.integers(0, 60))
def test_random_bytes_behind_a_good_beginning_give_pixels_or_a_bad_image(kind: str, junk: bytes, kept: int):
    assert ends_well(SOUND[kind][:kept] + junk)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def gif_with_a_frame_larger_than_its_screen() -> bytes:
    data = encoded(picture(), "GIF")
    return changed(data, data.index(b"\x2c", 13 + 3 * (2 << (data[10] & 7))) + 5, struct.pack("<HH", 65500, 65500))


# 100 MB, deflated.
PACKED_ZEROS = zlib.compress(bytes(10**8), 1)
FLOODS: dict[str, Callable[[], bytes]] = {
    **{kind: partial(claiming, kind, 65500, 65500) for kind in ("jpeg", "png", "gif", "bmp", "tiff", "webp")},
    "webp lossy": lambda: changed(SOUND["webp"], 26, struct.pack("<HH", 16383, 16383)),
    "webp lossless": lambda: changed(SOUND["webp-lossless"], 21, struct.pack("<I", 0x0FFFFFFF)),
    "gif frame": gif_with_a_frame_larger_than_its_screen,
    "tiff tile": lambda: tiff(
        8, 8, 8, 3, PACKED_ZEROS, t259=8, t322=20_000, t323=20_000, t324=1032, t325=len(PACKED_ZEROS), t284=1
    ),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_pixels_is_refused_by_its_header(decoder: str, kind: str):
    data = FLOODS[kind]()
    with frugal():
        assert outcome(data, LARGE) is Reason.TOO_MANY_PIXELS


@pytest.mark.parametrize("kind", BOXED)
def test_a_flood_of_pixels_that_boxes_claim_takes_little_memory(kind: str):
    claimed = struct.pack(">II", 16_000, 16_000)
    data = re.sub(rb"(ispe.{4}).{8}", lambda box: box[1] + claimed, BOXED[kind], flags=re.DOTALL)
    with frugal():
        assert ends_well(data, LARGE)


def test_a_jpeg_of_a_thousand_scans_is_refused_before_they_are_decoded(decoder: str):
    data = jpegs.of_many_scans(1000)
    with frugal():
        assert outcome(data) is Reason.CORRUPT
    assert ends_well(jpegs.of_many_scans(3))


BOMBS = {
    f"png {kind.decode()}": png(2, 1, 8, 2, bytes(6), png_chunk(kind, head + PACKED_ZEROS))
    for kind, head in ((b"zTXt", b"a\0\0"), (b"iTXt", b"a\0\1\0\0\0"), (b"iCCP", b"a\0\0"))
}
BOMBS["png pixels"] = png(2, 1, 8, 2, bytes(6)).replace(
    png_chunk(b"IDAT", zlib.compress(bytes(7))), png_chunk(b"IDAT", PACKED_ZEROS)
)
HUGE_PIECES = {"tile": {"t322": 65520, "t323": 65520, "t324": 1032, "t325": 100}, "strip": {"t278": 2**32 - 1}}
BOMBS |= {
    f"tiff {piece} {compression}": tiff(8, 8, 8, 3, bytes(8 * 8 * 3), t259=compression, **tags)
    for piece, tags in HUGE_PIECES.items()
    for compression in (1, 5, 8, 32773)
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_inflates_to_much_takes_little_memory(kind: str):
    assert len(BOMBS[kind]) < 10**6
    with frugal():
        assert ends_well(BOMBS[kind])


@pytest.mark.parametrize("kind", ["jpeg", "png", "bmp", "tiff"])
def test_an_image_of_no_pixels_is_a_bad_image(kind: str):
    assert outcome(claiming(kind, 0, 0)) is not None
