from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from infer_app.predict.images.decode.capture_time import read_capture_times
from tests.support.heif_files import heic

NOON = datetime(2026, 7, 1, 10, 0, tzinfo=UTC).timestamp()  # twelve o'clock in Berlin


def photo(path, taken=None, offset=None, camera_date=None):
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "of no other tags Pillow writes none of the details to some formats"
    details = exif.get_ifd(ExifTags.IFD.Exif)
    if taken is not None:
        details[ExifTags.Base.DateTimeOriginal] = taken
    if offset is not None:
        details[ExifTags.Base.OffsetTimeOriginal] = offset
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
    assert list(read_capture_times([path], "Europe/Berlin")) == [NOON]


def test_photos_without_a_time_and_damaged_ones_have_none_and_the_next_ones_have_theirs(tmp_path):
    paths = [
        photo(tmp_path / "edited.jpg", camera_date="2026:07:01 12:00:00"),
        photo(tmp_path / "blank.jpg", "    :  :     :  :  "),
        photo(tmp_path / "zeros.jpg", "0000:00:00 00:00:00"),
        str(tmp_path / "missing.jpg"),
        photo(tmp_path / "odd offset.jpg", "2026:07:01 12:00:00", "   :  "),
    ]
    (tmp_path / "text.jpg").write_text("no picture")
    times = read_capture_times([*paths[:4], str(tmp_path / "text.jpg"), paths[4]], "Europe/Berlin")
    assert list(times) == [None] * 5 + [NOON]


def test_metadata_of_any_length_may_come_before_and_after_the_time(tmp_path):
    long, short, damaged = (Path(photo(tmp_path / f"{name}.jpg", "2026:07:01 12:00:00")) for name in "abc")
    more = (b"\xff\xe1\xff\xffhttp://ns.adobe.com/xmp/extension/\0" + bytes(65_498)) * 35
    data = short.read_bytes()
    long.write_bytes(data[:2] + more + data[2:])
    damaged.write_bytes(data[:-400])
    assert list(read_capture_times([long, short, damaged], "Europe/Berlin")) == [NOON] * 3
