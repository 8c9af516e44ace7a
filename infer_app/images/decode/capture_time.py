"""When photos were taken, by the clocks of their cameras."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from PIL import ExifTags, Image

from infer_app.images.decode.formats import sniff
from infer_app.images.decode.heif import read_heic_exif

JPEG_START = 1 << 20  # bytes


def read_capture_times(paths: Sequence[str], zone: str) -> Iterator[float | None]:
    """Yield for each photo EXIF's DateTimeOriginal in seconds since the epoch, or None where there is none.

    It has a zone in files that also state OffsetTimeOriginal; all others are taken to be in `zone`, an IANA name.
    """
    for path in paths:
        seconds = None
        with contextlib.suppress(Exception):  # whatever a damaged file leads to; its day is that of its file then
            seconds = _read_capture_time(path, ZoneInfo(zone))
        yield seconds


def _read_capture_time(path: str, zone: ZoneInfo) -> float | None:
    exif = _read_exif(path)
    if ExifTags.Base.DateTimeOriginal not in exif:
        return None
    taken = datetime.strptime(_text(exif[ExifTags.Base.DateTimeOriginal]), "%Y:%m:%d %H:%M:%S")
    with contextlib.suppress(ValueError):
        offset = datetime.strptime(_text(exif.get(ExifTags.Base.OffsetTimeOriginal, "")), "%z")
        return taken.replace(tzinfo=offset.tzinfo).timestamp()
    return taken.replace(tzinfo=zone).timestamp()


def _read_exif(path: str) -> dict[int, object]:
    with Path(path).open("rb") as file:
        start = file.read(JPEG_START)  # a JPEG has it there; of a damaged one Pillow would search everything
        file.seek(0)
        found = sniff(start)
        if found == "heic":  # which Pillow does not know
            return read_heic_exif(file.read()).get_ifd(ExifTags.IFD.Exif)
        with Image.open(BytesIO(start) if found == "jpeg" else file) as image:
            return image.getexif().get_ifd(ExifTags.IFD.Exif)


def _text(value: object) -> str:
    return str(value).strip("\0 ")
