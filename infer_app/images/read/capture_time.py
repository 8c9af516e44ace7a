"""When photos were taken, by the clocks of their cameras."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from PIL import ExifTags, Image

JPEG_START = 1 << 20  # bytes


def read_capture_times(paths: Sequence[str], zone: str) -> Iterator[float | None]:
    """Yield for each photo EXIF's DateTimeOriginal in seconds since the epoch, or None where there is none.

    It has a zone in files that also state OffsetTimeOriginal; all others are taken to be in `zone`, an IANA name.
    """
    for path in paths:
        seconds = None
        with contextlib.suppress(Exception):  # whatever Pillow makes of a damaged file, whose day is another one's then
            seconds = _read_capture_time(path, ZoneInfo(zone))
        yield seconds


def _read_capture_time(path: str, zone: ZoneInfo) -> float | None:
    with Path(path).open("rb") as file:
        start = file.read(JPEG_START)  # a JPEG has it there; of a damaged one Pillow would search everything
        file.seek(0)
        with Image.open(BytesIO(start) if start.startswith(b"\xff\xd8") else file) as image:
            exif = image.getexif().get_ifd(ExifTags.IFD.Exif)
    if ExifTags.Base.DateTimeOriginal not in exif:
        return None
    taken = datetime.strptime(_text(exif[ExifTags.Base.DateTimeOriginal]), "%Y:%m:%d %H:%M:%S")
    with contextlib.suppress(ValueError):
        offset = datetime.strptime(_text(exif.get(ExifTags.Base.OffsetTimeOriginal, "")), "%z")
        return taken.replace(tzinfo=offset.tzinfo).timestamp()
    return taken.replace(tzinfo=zone).timestamp()


def _text(value: object) -> str:
    return str(value).strip("\0 ")
