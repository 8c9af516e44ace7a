"""Sound images of every kind: the pixels are Pillow's."""

import pickle
import resource
from collections.abc import Callable

import numpy as np
import pytest
import turbojpeg
from PIL import Image, ImageFile, features

import tests.support.jpegs as jpegs
from infer_app.base.domain import FileFacts, Reason
from infer_app.predict.images.decode.decoder import SILENT_BYTES, decoder_name
from infer_app.predict.images.decode.libjpeg_turbo import JpegRefused
from infer_app.predict.images.read.bad_image import BadImage
from tests.support.box import LARGE, Box
from tests.support.decoding import IGNORE, by_pillow, decoded, outcome
from tests.support.jpegs import STORED_AS, encoded, picture, put
from tests.support.rasters import tiff


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


def test_an_arithmetic_coded_jpeg_of_more_than_64_kib_has_its_pixels(decoder: str, monkeypatch: pytest.MonkeyPatch):
    """Pillow alone gives its decoder so much at once, and arithmetic decoding can't stop in between."""
    data = jpegs.arithmetic(640, 480)
    assert len(data) > 1 << 16
    monkeypatch.setattr(ImageFile, "MAXBLOCK", len(data))
    assert np.array_equal(decoded(data), by_pillow(data))


@pytest.mark.parametrize("made", [jpegs.baseline, jpegs.progressive, jpegs.arithmetic])
@pytest.mark.parametrize("content", [b"1546300800000", jpegs.grey(), jpegs.grey_progressive(), b"\xff\xd5\x10" * 40])
def test_what_samsungs_phones_write_in_place_of_the_end_marker_is_no_part_of_the_picture(
    decoder: str, made: Callable[[], bytes], content: bytes
):
    data = jpegs.with_samsung_trailer(made(), b"Interim_Jpg", content)
    assert np.array_equal(decoded(data), by_pillow(made()))


@pytest.mark.parametrize("lost", [20, 100])
def test_samsungs_data_do_not_make_a_cut_jpeg_whole(lost: int):
    assert outcome(jpegs.with_samsung_trailer(jpegs.baseline()[:-lost])) == Reason.TRUNCATED


@pytest.mark.parametrize("made", [jpegs.baseline, jpegs.progressive])
def test_a_few_stray_bytes_before_the_end_marker_cost_no_image(decoder: str, made: Callable[[], bytes]):
    data = made().removesuffix(b"\xff\xd9") + bytes(6) + b"\xff\xd9"
    assert np.array_equal(decoded(data), by_pillow(made()))


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


@pytest.fixture
def leave(box: Box) -> Callable[[int], None]:
    """leave(n) lets this process allocate n bytes, a multiple of 4,096; before, nothing limits it."""

    def leave_bytes(num_bytes: int) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (LARGE, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        box.has_allocated(LARGE - num_bytes)

    return leave_bytes


@pytest.mark.parametrize(("format", "is_silent"), [("WEBP", True), ("AVIF", True), ("JPEG", False), ("PNG", False)])
def test_a_decoder_that_calls_a_file_damaged_without_memory_is_not_asked(leave, format, is_silent):
    """The others say that there is no memory."""
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("Pillow has no AVIF")
    data = encoded(Image.new("RGB", (64, 64), "red"), format)
    leave(64 * 64 * SILENT_BYTES)
    assert decoded(data).shape == (64, 64, 3)
    leave(64 * 64 * SILENT_BYTES - 4096)
    if is_silent:
        assert outcome(data) is Reason.OUT_OF_MEMORY
    else:
        assert decoded(data).shape == (64, 64, 3)


def test_a_tiff_is_not_damaged_where_memory_is_short(leave):
    data = tiff(1000, 1000, 8, 3, bytes(96), t259=5, t278=1 << 31)  # with a strip of so many rows
    assert outcome(data) is Reason.CORRUPT
    leave(1 << 20)
    assert outcome(data) is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize("decoder", ["pillow"], indirect=True)
def test_a_progressive_jpeg_is_not_damaged_where_memory_is_short_in_pillow(decoder: str, leave):
    whole = encoded(Image.new("RGB", (64, 64), "red"), "JPEG", progressive=True)
    data = whole.replace(b"\xff\xc4", b"\xff\xc4\0\2", 1)  # whose first table of codes is too short
    assert outcome(data) is Reason.CORRUPT
    for left, reason in ((64 * 64 * 9, Reason.CORRUPT), (64 * 64 * 7, Reason.OUT_OF_MEMORY)):
        leave(left)
        assert outcome(data) is reason


@pytest.mark.parametrize("suffix", ["bmp", "gif", "tiff"])
def test_flags_of_pillow_that_other_code_set_change_no_answer(monkeypatch, suffix):
    file = encoded(Image.effect_noise((80, 60), 90), suffix)
    expected = decoded(file)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    np.testing.assert_array_equal(decoded(file), expected)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert outcome(file[: len(file) // 2]) is Reason.TRUNCATED
