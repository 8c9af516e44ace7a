"""Sound images of every kind: the pixels are Pillow's."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
import turbojpeg
from PIL import Image, features

import infer_app.predict.images.decode.decoder as decoder_module
import tests.support.jpegs as jpegs
from infer_app.base.domain import FileFacts, Reason
from infer_app.predict.images.decode.decoder import NO_STRIP_MEMORY, SILENT_BYTES, decoder_name
from infer_app.predict.images.decode.libjpeg_turbo import JpegRefused
from infer_app.predict.images.read.bad_image import BadImage
from tests.support.decoding import IGNORE, by_pillow, decoded, outcome
from tests.support.jpegs import STORED_AS, encoded, picture, put


@pytest.mark.parametrize("size", [(24, 16), (1, 1), (17, 9), (9, 17), (1, 30), (33, 1), (8, 8), (101, 67)], ids=str)
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_has_pillows_pixels(decoder: str, size: tuple[int, int], subsampling: str, progressive: bool):
    data = encoded(picture(*size), quality=85, subsampling=subsampling, progressive=progressive)
    assert np.array_equal(decoded(data), by_pillow(data))


RARER = [jpegs.grey, jpegs.cmyk, jpegs.cmyk_without_adobe, jpegs.ycck, jpegs.with_restarts, jpegs.non_interleaved]


@pytest.mark.parametrize("made", [*RARER, jpegs.arithmetic])
def test_a_jpeg_of_a_rarer_kind_has_pillows_pixels(decoder: str, made: Callable[[], bytes]):
    assert np.array_equal(decoded(made()), by_pillow(made()))


ODD = jpegs.baseline().replace(b"JFIF\0\1\1", b"JFIF\0\7\7")


@pytest.mark.parametrize(
    ("data", "like"),
    [
        (jpegs.baseline() + b"garbage", jpegs.baseline()),  # what follows the end is not looked at
        (jpegs.progressive() + jpegs.grey(), jpegs.progressive()),
        (ODD[:20] + b"stray" + ODD[20:], jpegs.baseline()),
        *((encoded(picture(), format) + b"garbage", encoded(picture(), format)) for format in ("PNG", "WEBP")),
    ],
)
def test_oddities_that_mean_nothing_cost_no_image(decoder: str, data: bytes, like: bytes):
    assert np.array_equal(decoded(data), by_pillow(like))


LOSSLESS = {"PNG": {}, "TIFF": {}, "WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": "4:4:4"}}


@pytest.mark.parametrize("orientation", STORED_AS)
@pytest.mark.parametrize("format", LOSSLESS)
def test_the_eight_orientations_give_one_picture(decoder: str, orientation: int, format: str):
    upright = picture(24, 16)
    data = encoded(put(upright, orientation), format, exif=jpegs.exif(orientation), **LOSSLESS[format])
    assert np.array_equal(decoded(data), by_pillow(data))
    assert np.abs(decoded(data).astype(int) - np.asarray(upright)).mean() < (5 if format == "JPEG" else 0.001)


@pytest.mark.parametrize("orientation", STORED_AS)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_recipe_may_ignore_the_orientation(orientation: int, format: str):
    stored = put(picture(24, 16), orientation)
    oriented = encoded(stored, format, exif=jpegs.exif(orientation))
    assert np.array_equal(decoded(oriented, IGNORE), decoded(encoded(stored, format)))


def test_the_decoder_is_named_with_its_versions(decoder: str):
    name = decoder_name.__wrapped__()
    assert f"Pillow {Image.__version__} (libjpeg-turbo " in name
    assert (f"PyTurboJPEG {turbojpeg.__version__}" in name) == (decoder == "turbo")


def test_a_refusal_travels_between_processes():
    facts = FileFacts(3, 1.5, "abc")
    for refused in (BadImage(Reason.EMPTY, "0 bytes", facts), JpegRefused("Premature end of JPEG file")):
        copy = pickle.loads(pickle.dumps(refused))
        assert (type(copy), copy.args, str(copy)) == (type(refused), refused.args, str(refused))


@pytest.mark.parametrize(("format", "is_silent"), [("WEBP", True), ("AVIF", True), ("JPEG", False), ("PNG", False)])
def test_a_decoder_that_calls_a_file_damaged_without_memory_is_not_asked(monkeypatch, format, is_silent):
    """The others say that there is no memory."""
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("Pillow has no AVIF")
    data = encoded(Image.new("RGB", (8, 6), "red"), format)
    monkeypatch.setattr(decoder_module, "allocatable", lambda: 8 * 6 * SILENT_BYTES)
    assert decoded(data).shape == (6, 8, 3)
    monkeypatch.setattr(decoder_module, "allocatable", lambda: 8 * 6 * SILENT_BYTES - 1)
    if is_silent:
        assert outcome(data) is Reason.OUT_OF_MEMORY
    else:
        assert decoded(data).shape == (6, 8, 3)


@pytest.mark.parametrize(("left", "reason"), [(1 << 20, Reason.OUT_OF_MEMORY), (None, Reason.CORRUPT)])
def test_a_tiff_is_not_damaged_where_memory_is_short(monkeypatch, left, reason):
    def decode(*_):
        raise OSError(NO_STRIP_MEMORY)

    monkeypatch.setattr(decoder_module, "_decode", decode)
    monkeypatch.setattr(decoder_module, "allocatable", lambda: left)
    assert outcome(b"") is reason


def test_a_progressive_jpeg_is_not_damaged_where_memory_is_short_in_pillow(monkeypatch):
    def fail(*_):
        raise OSError("broken data stream when reading image file")

    data = encoded(Image.new("RGB", (80, 60), "red"), "JPEG", progressive=True)
    monkeypatch.setattr(decoder_module, "load_turbo", lambda: None)
    monkeypatch.setattr(decoder_module, "_decode_with_pillow", fail)
    for left, reason in ((80 * 60 * 7, Reason.OUT_OF_MEMORY), (80 * 60 * 9, Reason.CORRUPT), (None, Reason.CORRUPT)):
        monkeypatch.setattr(decoder_module, "allocatable", lambda left=left: left)
        assert outcome(data) is reason
