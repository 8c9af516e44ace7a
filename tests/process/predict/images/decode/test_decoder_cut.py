"""A file that lost something is refused: what a decoder fills up with grey is never predicted on."""

import time
from collections.abc import Callable

import numpy as np
import pytest

import tests.support.jpegs as jpegs
from infer_app.base.domain import Reason
from tests.support import heif_files
from tests.support.decoding import decoded, needs_turbo, outcome
from tests.support.jpegs import encoded, picture
from tests.support.rasters import png_of_16_bits

Maker = Callable[[], bytes]
ONE_SCAN = [jpegs.baseline, jpegs.grey, jpegs.cmyk, jpegs.with_restarts]
SEVERAL_SCANS = [jpegs.progressive, jpegs.grey_progressive, jpegs.non_interleaved, jpegs.arithmetic]


def outcomes_of_cuts(data: bytes) -> list[Reason | None]:
    """What becomes of the file's first 0, 1, 2, … bytes, up to one byte less than all."""
    return [outcome(data[:length]) for length in range(len(data))]


def all_refused(data: bytes) -> list[Reason]:
    return [Reason.EMPTY] + [Reason.TRUNCATED] * (len(data) - 1)


@pytest.mark.parametrize("made", ONE_SCAN + SEVERAL_SCANS)
def test_a_jpeg_cut_at_any_byte_is_refused_unless_only_its_end_marker_is_missing(decoder: str, made: Maker):
    """Of one scan libjpeg-turbo tells that nothing else is missing; Pillow tells nothing."""
    data = made()
    num_spare = 2 if decoder == "turbo" and made in ONE_SCAN else 0
    assert outcomes_of_cuts(data) == [*all_refused(data[: len(data) - num_spare]), *[None] * num_spare]
    for length in range(len(data) - num_spare, len(data)):
        assert np.array_equal(decoded(data[:length]), decoded(data))


@needs_turbo
@pytest.mark.parametrize("made", [jpegs.baseline, jpegs.progressive, jpegs.non_interleaved])
def test_an_oddity_does_not_hide_a_cut(made: Maker):
    """libjpeg speaks of a file's first warning only."""
    data = made().replace(b"JFIF\0\1\1", b"JFIF\0\7\7")
    assert outcome(data) is None
    whole = 2 if made is jpegs.baseline else 0  # bytes that may be missing
    assert set(outcomes_of_cuts(data)[1 : len(data) - whole]) == {Reason.TRUNCATED}


BEHIND = {"start": b"\xff\xd8\xff\xe0", "ff": b"\xff" * 40, "jpeg": jpegs.grey(), "end": b"\xff\xd9"}


@needs_turbo
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("made", ONE_SCAN + SEVERAL_SCANS)
def test_what_stands_behind_a_cut_does_not_make_a_jpeg_whole(made: Maker, behind: str):
    data = made()
    if made in SEVERAL_SCANS and behind == "end":
        return  # finer scans may be missing
    start = data.index(b"\xff\xda") + 20
    found = {outcome(data[:length] + BEHIND[behind]) for length in range(start, len(data) - 12, 3)}
    assert found <= {Reason.TRUNCATED, Reason.CORRUPT}


@needs_turbo
@pytest.mark.parametrize("made", [*ONE_SCAN, jpegs.progressive, jpegs.non_interleaved])
def test_codes_that_no_table_has_are_never_predicted(made: Maker):
    data = made()
    start = data.index(b"\xff\xda") + 14
    ones = b"\xff\0" * 20  # no Huffman code is all ones
    for at in range(start, len(data) - 50, 7):
        damaged = data[:at] + ones + data[at + 40 :]
        assert outcome(damaged) in (Reason.CORRUPT, Reason.TRUNCATED), at


@needs_turbo
def test_a_lost_restart_interval_is_noticed():
    data = jpegs.with_restarts()
    start = data.index(b"\xff\xda")
    second, third = data.index(b"\xff\xd1", start), data.index(b"\xff\xd2", start)
    without_marker, without_block = data[second + 2 :], data[third:]
    for rest in (without_marker, b"\xff\xd5" + without_marker, without_block):
        assert outcome(data[:second] + rest) in (Reason.CORRUPT, Reason.TRUNCATED)


PNGS = [encoded(picture(13, 7).convert("RGBA").convert(mode), "PNG") for mode in ("1", "P", "RGBA")]
PNGS.append(png_of_16_bits(np.arange(91, dtype=np.uint16).reshape(7, 13, 1) * 700))


@pytest.mark.parametrize("whole", PNGS, ids=["1", "P", "RGBA", "16 bits"])
def test_a_png_cut_at_any_byte_of_its_pixels_is_refused(whole: bytes):
    data = whole[:-4]  # without the checksum of the empty last chunk, which holds no pixels
    assert outcomes_of_cuts(data) == all_refused(data)


OTHERS: dict[str, Maker] = {
    "webp": lambda: encoded(picture(), "WEBP"),
    "webp lossless": lambda: encoded(picture(), "WEBP", lossless=True),
    "bmp": lambda: encoded(picture(), "BMP"),
    "gif": lambda: encoded(picture(), "GIF"),
    "tiff": lambda: encoded(picture(), "TIFF"),
    "tiff lzw": lambda: encoded(picture(), "TIFF", compression="tiff_lzw"),
    "tiff deflate": lambda: encoded(picture(), "TIFF", compression="tiff_adobe_deflate"),
    "heic": lambda: heif_files.heic(picture(), quality=30),
    "heic exif": lambda: heif_files.heic(picture(), exif=jpegs.exif(6)),
    "avif": lambda: heif_files.avif(picture(), quality=30),
    "avif exif": lambda: heif_files.avif(picture(), exif=jpegs.exif(6)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_format_cut_anywhere_is_refused_or_has_all_its_pixels(kind: str):
    data = OTHERS[kind]()
    whole = decoded(data)
    for length in range(len(data)):
        assert outcome(data[:length]) is not None or np.array_equal(decoded(data[:length]), whole), length


@needs_turbo
@pytest.mark.parametrize("made", [jpegs.baseline, jpegs.grey, jpegs.with_restarts, jpegs.progressive])
def test_a_tail_of_zeros_is_no_picture(made):
    """A file that was being written when its machine went down; zeros are valid codes."""
    data = made()
    for length in range(data.index(b"\xff\xda") + 20, len(data) - 3):
        for num_zeros in (4, 40, len(data) - length):
            assert outcome(data[:length] + bytes(num_zeros)) in (Reason.TRUNCATED, Reason.CORRUPT)


def test_a_component_without_a_scan_is_no_picture():
    """Cut behind a scan and closed again, as a tool that repairs downloads does."""
    data = jpegs.non_interleaved()
    assert outcome(data) is None
    first = data.index(b"\xff\xda")
    second = data.index(b"\xff\xda", first + 2)
    third = data.index(b"\xff\xda", second + 2)
    for cut in (data[:second] + b"\xff\xd9", data[:third] + b"\xff\xd9", data[:second] + data[third:]):
        assert outcome(cut) is Reason.TRUNCATED


@needs_turbo
@pytest.mark.parametrize("num_bytes", [1, 7, 16])
def test_a_few_bytes_before_the_end_marker_lose_nothing(num_bytes):
    """As some cameras write them. Many may be what is left of an overwritten picture."""
    whole = jpegs.baseline()
    padded = whole[:-2] + bytes(num_bytes) + whole[-2:]
    assert np.array_equal(decoded(padded), decoded(whole))
    for many in (bytes(40), b"\x55" * 9):
        assert outcome(whole[:-2] + many + whole[-2:]) is Reason.CORRUPT


@pytest.mark.parametrize("junk", [b"\xff\xfe\x00\x02", b"\xff\x00", b"\xff\x01", b"\xff", b"\xff\xe1\x00\x08Exif\0\0"])
def test_floods_of_markers_cost_little_time(junk):
    whole = jpegs.baseline()
    start = time.process_time()
    outcome(whole[:20] + junk * (8_000_000 // len(junk)) + whole[20:])
    assert time.process_time() - start < 30  # two seconds where it is slow; work for each pair of them would take hours
