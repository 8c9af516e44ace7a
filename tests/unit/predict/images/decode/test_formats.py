import pytest
from PIL import Image

from infer_app.base.domain import Reason
from infer_app.base.locations import IMAGE_SUFFIXES
from infer_app.predict.images.decode.formats import check_answer, check_boxes_end, sniff, webp_size
from infer_app.predict.images.read.bad_image import Transient
from tests.support.jpegs import encoded, exif, picture
from tests.support.refusals import refusal

FORMATS = {"jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "bmp": "BMP", "gif": "GIF", "tiff": "TIFF"}


def test_the_suffixes_of_watched_folders_are_those_of_formats_that_are_decoded():
    Image.init()
    by_pillow = set(IMAGE_SUFFIXES) - {".heic", ".heif", ".hif", ".avif"}
    assert {Image.EXTENSION[suffix] for suffix in by_pillow} == set(FORMATS.values())


@pytest.mark.parametrize(
    ("brands", "kind"),
    [
        *((brands, "heic") for brands in (b"mif1mif1heic", b"mif1mif1miaf", b"msf1hevcmsf1", b"heixmif1heix")),
        *((brands, "avif") for brands in (b"avifmif1miaf", b"avismsf1mif1", b"mif1mif1avif")),
    ],
)
def test_heic_and_avif_are_told_by_their_brands(brands: bytes, kind: str):
    assert sniff(b"\0\0\0\x18ftyp" + brands[:4] + bytes(4) + brands[4:]) == kind


def test_a_file_of_boxes_has_its_end_only_when_whole():
    data = b"\0\0\0\x10ftypheicmif1" + b"\0\0\0\1mdat" + (24).to_bytes(8, "big") + bytes(8)
    check_boxes_end(data)
    check_boxes_end(data + b"\0\0\0\0mdat" + bytes(100))  # length 0: up to the end
    assert {refusal(check_boxes_end, data[:length]).reason for length in (*range(8, 16), *range(32, 40))} == {
        Reason.TRUNCATED
    }


@pytest.mark.parametrize(
    "data", [b"%!PS-Adobe-3.0", b"PK\x03\x04", b"8BPS\0\x01", b"P6 1 1 255 abc", bytes(100), b"RIFF\x24\0\0\0WAVEfmt "]
)
def test_what_is_no_image_of_a_known_format_is_unsupported(data: bytes):
    """Those that docs/pictures.md names are in test_pictures_page."""
    assert refusal(sniff, data).reason is Reason.UNSUPPORTED_FORMAT


@pytest.mark.parametrize(
    ("frame", "word"),
    [(b"d23\r\n", "aws-chunked"), (b"d23;chunk-signature=a1\r\n", "aws-chunked"), (b"d23 \r\n", "no picture")],
)
def test_an_object_that_is_stored_with_its_framing_is_told_by_it(frame: bytes, word: str):
    with pytest.raises(Transient, match=word):
        check_answer(frame + encoded(picture(), "JPEG"))


@pytest.mark.parametrize("data", [b"\xff", b"\xff\xd8", b"\x89PNG", b"RI", b"RIFF", b"G", b"B", b"II*"])
def test_a_file_that_ends_inside_its_signature_is_truncated(data: bytes):
    assert refusal(sniff, data).reason is Reason.TRUNCATED


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": exif(6)}, {"save_all": True}], ids=str)
def test_a_webps_size_is_in_its_first_chunk(options: dict[str, object]):
    data = encoded(picture(37, 21), "WEBP", **options)
    assert webp_size(data) == (37, 21)
    assert {refusal(webp_size, data[:length]).reason for length in range(12, len(data))} == {Reason.TRUNCATED}


def test_a_webp_of_another_first_chunk_is_corrupt():
    assert refusal(webp_size, b"RIFF\x1e\0\0\0WEBPICCP" + bytes(30)).reason is Reason.CORRUPT
