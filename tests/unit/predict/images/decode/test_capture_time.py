import struct
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from PIL import ExifTags, Image
from PIL.PngImagePlugin import PngInfo

from infer_app.base.domain import NO_TIME, CaptureTime, TimeOrigin
from infer_app.predict.images.decode import heif
from infer_app.predict.images.decode.capture_time import capture_time, read_capture_times
from tests.support.decoding import decoded
from tests.support.heif_files import heic
from tests.support.rasters import tiff

NOON = datetime(2026, 7, 1, 10, 0, tzinfo=UTC).timestamp()  # twelve o'clock in Berlin
TWELVE = CaptureTime(datetime(2026, 7, 1, 12))
WRITTEN = "2026:07:01 12:00:00"


def seconds(paths):
    return [taken.timestamp(ZoneInfo("Europe/Berlin")) for taken in read_capture_times(paths)]


@pytest.mark.parametrize("form", ["heic", "avif"])
def test_a_file_whose_decoder_is_missing_was_not_read(tmp_path, monkeypatch, form):
    """So it is read again once the decoder is there."""
    data = Path(photo(tmp_path / f"a.{form}", WRITTEN)).read_bytes()
    assert capture_time(data) == TWELVE
    monkeypatch.setattr(heif, f"has_{form}", lambda: False)
    assert capture_time(data) is None


def photo(path, taken=None, offset=None, camera_date=None, more=()):
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "of no other tags Pillow writes none of the details to some formats"
    details = exif.get_ifd(ExifTags.IFD.Exif)
    if taken is not None:
        details[ExifTags.Base.DateTimeOriginal] = taken
    if offset is not None:
        details[ExifTags.Base.OffsetTimeOriginal] = offset
    for tag, value in more:
        details[tag] = value
    if camera_date is not None:
        exif[ExifTags.Base.DateTime] = camera_date
    picture = Image.new("RGB", (8, 8))
    if path.suffix == ".heic":
        path.write_bytes(heic(picture, exif=exif.tobytes()))
    else:
        picture.save(path, exif=exif)
    return str(path)


BY_OTHERS = ["2026-07-01 12:00:00", "2026:07:01T12:00:00.000", "2026-07-01T10:00:00Z", "2026:7:1 12:00:00"]


@pytest.mark.parametrize(
    ("suffix", "taken", "offset"),
    [
        *((suffix, "2026:07:01 12:00:00", None) for suffix in ("jpg", "png", "webp", "heic", "avif")),
        ("jpg", "2026:07:01 05:00:00", "-05:00"),
        *(("jpg", written, None) for written in BY_OTHERS),
    ],
)
def test_a_photo_was_taken_when_its_camera_says_in_its_own_zone_or_the_one_that_is_set(tmp_path, suffix, taken, offset):
    path = photo(tmp_path / f"a.{suffix}", taken, offset)
    assert seconds([path]) == [NOON]


def test_photos_without_a_time_and_damaged_ones_have_none_and_the_next_ones_have_theirs(tmp_path):
    paths = [
        photo(tmp_path / "edited.jpg", camera_date="2026:07:01 12:00:00"),
        photo(tmp_path / "blank.jpg", "    :  :     :  :  "),
        photo(tmp_path / "zeros.jpg", "0000:00:00 00:00:00"),
        str(tmp_path / "missing.jpg"),
        photo(tmp_path / "odd offset.jpg", "2026:07:01 12:00:00", "   :  "),
    ]
    (tmp_path / "text.jpg").write_text("no picture")
    read = list(read_capture_times([*paths[:4], str(tmp_path / "text.jpg"), paths[4]]))
    assert read == [*[NO_TIME] * 3, None, NO_TIME, CaptureTime(datetime(2026, 7, 1, 12))]


def test_a_reconyx_hyperfire_states_the_time_in_its_maker_note_alone(tmp_path):
    words = (0xF101, 3, 3, 0, 0x2015, 0x0507, 0x4D31, 12, 0, 3, 0, 5, 0, 12, 7, 1, 2026, *[0] * 30)
    note = struct.pack(f"<{len(words)}H", *words)
    assert read_times(photo(tmp_path / "a.jpg", more=[(ExifTags.Base.MakerNote, note)])) == [
        CaptureTime(datetime(2026, 7, 1, 12, 0, 5))
    ]
    both = photo(tmp_path / "b.jpg", WRITTEN, more=[(ExifTags.Base.MakerNote, note)])
    damaged = photo(tmp_path / "c.jpg", more=[(ExifTags.Base.MakerNote, note[:24])])
    assert read_times(both, damaged) == [TWELVE, NO_TIME]


def read_times(*paths):
    return list(read_capture_times(paths))


def test_metadata_of_any_length_may_come_before_and_after_the_time(tmp_path):
    long, short, damaged = (Path(photo(tmp_path / f"{name}.jpg", "2026:07:01 12:00:00")) for name in "abc")
    more = (b"\xff\xe1\xff\xffhttp://ns.adobe.com/xmp/extension/\0" + bytes(65_498)) * 35
    data = short.read_bytes()
    long.write_bytes(data[:2] + more + data[2:])
    damaged.write_bytes(data[:-400])
    assert list(read_capture_times([long, short, damaged])) == [TWELVE] * 3


ORIGINAL, DIGITIZED = ExifTags.Base.DateTimeOriginal, ExifTags.Base.DateTimeDigitized
EAST = timedelta(hours=2)
TAKEN, STORED = TimeOrigin.EXIF, TimeOrigin.DIGITIZED
TAGS = {
    "a fraction and an offset": (
        {ExifTags.Base.SubsecTimeOriginal: "07", ExifTags.Base.OffsetTimeOriginal: "+02:00", ORIGINAL: WRITTEN},
        (datetime(2026, 7, 1, 12, 0, 0, 70_000), EAST, TAKEN),
    ),
    "in the text itself": (
        {ORIGINAL: "2026-07-01T12:00:00.5+02:00"},
        (datetime(2026, 7, 1, 12, 0, 0, 500_000), EAST, TAKEN),
    ),
    "stored, not taken": ({DIGITIZED: WRITTEN, ExifTags.Base.OffsetTimeDigitized: "+02:00"}, (TWELVE.at, EAST, STORED)),
    "taken before it was stored": ({DIGITIZED: "2026:07:02 12:00:00", ORIGINAL: WRITTEN}, TWELVE),
    "zeros, and when it was stored": ({ORIGINAL: "0000:00:00 00:00:00", DIGITIZED: WRITTEN}, (TWELVE.at, None, STORED)),
    "two offsets": (
        {ORIGINAL: "2026-07-01T12:00:00Z", ExifTags.Base.OffsetTimeOriginal: "+02:00"},
        (TWELVE.at, timedelta(0), TAKEN),
    ),
    "an offset of one digit": (
        {ORIGINAL: WRITTEN, ExifTags.Base.OffsetTimeOriginal: "+2:00"},
        (TWELVE.at, EAST, TAKEN),
    ),
    "a fraction that is none": ({ORIGINAL: WRITTEN, ExifTags.Base.SubsecTimeOriginal: "  "}, TWELVE),
}


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize(("tags", "expected"), TAGS.values(), ids=TAGS)
def test_the_time_is_the_cameras_as_it_is_written_with_the_offset_that_is_stated(tmp_path, suffix, tags, expected):
    path = photo(tmp_path / f"a.{suffix}", more=tags.items())
    assert list(read_capture_times([path])) == [expected] == [capture_time(Path(path).read_bytes())]


def test_a_time_of_any_year_has_seconds_since_the_epoch(tmp_path):
    for written, offset in (("0001:01:01 00:00:00", "+14:00"), ("9999:12:31 23:59:59", "-12:00")):
        (taken,) = read_capture_times([photo(tmp_path / "a.jpg", written, offset)])
        assert abs(taken.timestamp(ZoneInfo("UTC"))) > 6e10


def test_tags_before_a_damage_and_behind_a_header_that_is_written_twice_are_read(tmp_path):
    path = Path(photo(tmp_path / "a.jpg", WRITTEN))
    data = path.read_bytes()
    start = data.index(b"Exif\0\0") + 6
    order = "little" if data[start : start + 2] == b"II" else "big"
    entry = data.index(ExifTags.IFD.Exif.to_bytes(2, order), start)
    details = start + int.from_bytes(data[entry + 8 : entry + 12], order)
    path.write_bytes(
        data[:details] + (9999).to_bytes(2, order) + data[details + 2 :]
    )  # more tags are stated than there are
    twice = data[: start - 6] + b"Exif\0\0" + data[start - 6 :]
    length = int.from_bytes(data[start - 8 : start - 6], "big") + 6
    other = tmp_path / "twice.jpg"
    other.write_bytes(twice[: start - 8] + length.to_bytes(2, "big") + twice[start - 6 :])
    assert list(read_capture_times([str(path), str(other)])) == [TWELVE] * 2


def test_both_byte_orders_are_read_and_no_damage_takes_long_or_raises(tmp_path):
    path = Path(photo(tmp_path / "a.jpg", WRITTEN))
    data = path.read_bytes()
    start = data.index(b"Exif\0\0") + 6
    other = Image.Exif()
    other.endian = ">"
    other.get_ifd(ExifTags.IFD.Exif)[ORIGINAL] = WRITTEN
    exif = other.tobytes()
    assert exif[6:8] == b"MM"
    Image.new("RGB", (8, 8)).save(tmp_path / "big.jpg", exif=exif)
    assert list(read_capture_times([str(tmp_path / "big.jpg")])) == [TWELVE]
    for place in range(start, start + 60):
        for byte in (0, 255):
            path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
            (taken,) = read_capture_times([str(path)])
            assert taken in (NO_TIME, TWELVE)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "heic"])
def test_no_picture_is_decoded_for_its_time(tmp_path, monkeypatch, suffix):
    data = [
        Path(photo(tmp_path / f"{name}.{suffix}", taken)).read_bytes() for name, taken in (("a", WRITTEN), ("b", None))
    ]
    for library, name in (("PIL.ImageFile.ImageFile", "load"), ("PIL.Image.Image", "load")):
        monkeypatch.setattr(f"{library}.{name}", lambda *_: pytest.fail("it was decoded"))
    assert [capture_time(one) for one in data] == [TWELVE, NO_TIME]


@pytest.mark.parametrize("zip", [False, True])
def test_a_png_is_dated_by_the_text_that_turns_it(tmp_path, zip):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif.get_ifd(ExifTags.IFD.Exif)[ORIGINAL] = WRITTEN
    lines = "\n".join(textwrap.wrap(exif.tobytes().hex(), 72))
    text = PngInfo()
    text.add_text("Raw profile type exif", f"\nexif\n{len(exif.tobytes()):8}\n{lines}\n", zip=zip)
    Image.new("RGB", (8, 4)).save(tmp_path / "a.png", pnginfo=text)
    data = (tmp_path / "a.png").read_bytes()
    assert (decoded(data).shape, capture_time(data)) == ((8, 4, 3), TWELVE)
    assert capture_time(data.replace(b"\nexif\n", b"\nexif  ")) == NO_TIME or zip


def test_a_tiff_states_its_time_in_a_directory_of_its_own():
    data = tiff(8, 4, 8, 3, bytes(96), t34665=0x11223344)
    own = struct.pack("<HHHIII", 1, ORIGINAL, 2, len(WRITTEN) + 1, len(data) + 18, 0) + WRITTEN.encode() + b"\0"
    assert capture_time(data.replace(struct.pack("<I", 0x11223344), struct.pack("<I", len(data))) + own) == TWELVE


def test_the_time_in_xmp_alone_is_not_read(tmp_path):
    xmp = b'<x:xmpmeta><rdf:Description exif:DateTimeOriginal="2026-07-01T12:00:00"/></x:xmpmeta>'
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", xmp=xmp)
    assert list(read_capture_times([str(tmp_path / "a.jpg")])) == [NO_TIME]


def test_a_date_alone_is_no_time(tmp_path):
    assert list(read_capture_times([photo(tmp_path / "a.jpg", "2026:07:01")])) == [NO_TIME]
