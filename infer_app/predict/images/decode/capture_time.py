"""When photos were taken, by the clocks of their cameras."""

import contextlib
import mmap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import islice
from pathlib import Path
from struct import error as StructError  # noqa: N812 - `error` says nothing
from struct import unpack_from
from typing import NamedTuple
from zoneinfo import ZoneInfo

from PIL import ExifTags

from infer_app.predict.images.decode.decoder import open_file
from infer_app.predict.images.decode.formats import SNIFFED_BYTES, sniff, without_metadata
from infer_app.predict.images.decode.heif import read_heic_exif
from infer_app.predict.images.decode.jpeg_structure import EXIF_NAME, exif_part, jpeg_segments
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.folder_scan import FolderScan

FIRST = 20  # photos of a new project that are opened
_TAG = ExifTags.Base
# When the shutter was released, else when the picture was stored; each with the tags of its fraction and its offset.
_TIMES = (
    (_TAG.DateTimeOriginal, _TAG.SubsecTimeOriginal, _TAG.OffsetTimeOriginal),
    (_TAG.DateTimeDigitized, _TAG.SubsecTimeDigitized, _TAG.OffsetTimeDigitized),
)
_WANTED = {tag.value for tags in _TIMES for tag in tags}
_BYTE_ORDERS = {b"II": "<", b"MM": ">"}
_MAX_TEXT = 64  # bytes


class CaptureTime(NamedTuple):
    """A time as a file states it."""

    at: datetime  # by the camera's own clock, without a zone
    offset: timedelta | None = None  # of that clock from UTC

    def timestamp(self, zone: ZoneInfo) -> float:
        """Return seconds since the epoch; a time without an offset is one of `zone`."""
        if self.offset is None:
            return self.at.replace(tzinfo=zone).timestamp()
        return self.at.replace(tzinfo=UTC).timestamp() - self.offset.total_seconds()  # of any year


def read_capture_times(paths: Sequence[str]) -> Iterator[CaptureTime | None]:
    """Yield for each photo EXIF's DateTimeOriginal, else its DateTimeDigitized, or None where there is neither."""
    for path in paths:
        taken = None
        with contextlib.suppress(Exception):  # whatever a damaged file leads to
            taken = _capture_time(_read_tags(path))
        yield taken


def count_dated(folder: str) -> tuple[int, int]:
    """Return how many of the first photos of a folder were opened, and how many of them state when they were taken."""
    paths = [file.location for file in islice(FolderScan(folder), FIRST)]
    return len(paths), sum(taken is not None for taken in read_capture_times(paths))


def _capture_time(tags: Mapping[int, object]) -> CaptureTime | None:
    for time, fraction, offset in _TIMES:
        if (text := _text(tags.get(time, ""))) and (taken := _parsed(text)):
            digits, zone = _text(tags.get(fraction, "")), _text(tags.get(offset, ""))
            if digits.isdecimal() and not taken.at.microsecond:
                taken = taken._replace(at=taken.at.replace(microsecond=int(f"{digits:0<6}"[:6])))
            with contextlib.suppress(ValueError):
                if taken.offset is None:
                    taken = taken._replace(offset=datetime.strptime(zone, "%z").utcoffset())
            return taken
    return None


def _parsed(text: str) -> CaptureTime | None:
    """Return the time of a text, None of blanks and zeros, which some cameras write."""
    with contextlib.suppress(ValueError):
        return CaptureTime(datetime.strptime(text, "%Y:%m:%d %H:%M:%S"))
    with contextlib.suppress(ValueError):  # as some programs write it: 2026-11-20T04:05:06.7
        time = datetime.fromisoformat(text[:10].replace(":", "-") + text[10:])
        return CaptureTime(time.replace(tzinfo=None), time.utcoffset())
    return None


def _read_tags(path: str) -> Mapping[int, object]:
    with Path(path).open("rb") as file:
        found = sniff(file.read(SNIFFED_BYTES))
        file.seek(0)
        if found == "heic":  # which Pillow does not know
            return read_heic_exif(file.read()).get_ifd(ExifTags.IFD.Exif)
        if found == "jpeg":  # of a damaged one Pillow would read everything
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _jpeg_tags(mapped)
        with open_file(BytesIO(without_metadata(file.read())) if found == "png" else file, found) as image:
            return image.getexif().get_ifd(ExifTags.IFD.Exif)


def _jpeg_tags(data: mmap.mmap) -> dict[int, object]:
    """Read the tags of a JPEG, before which there may be megabytes of others; what is no metadata isn't read.

    Pillow's Exif takes six times as long or more, because it reads all tags.
    """
    parts = list[bytes]()
    with contextlib.suppress(BadImage):  # damage behind it
        parts.extend(exif_part(segment) for segment in jpeg_segments(data))
    exif = b"".join(parts)
    while exif.startswith(EXIF_NAME):  # some programs write it twice
        exif = exif[len(EXIF_NAME) :]
    order = _BYTE_ORDERS[exif[:2]]
    first = unpack_from(f"{order}I", exif, 4)[0]
    pointer = next(value for tag, _, _, value in _entries(exif, order, first) if tag == ExifTags.IFD.Exif)
    found = dict[int, object]()
    with contextlib.suppress(StructError):  # fewer tags than are stated
        for tag, _, length, value in _entries(exif, order, unpack_from(f"{order}I", pointer)[0]):
            if tag in _WANTED:
                found[tag] = _value(exif, order, length, value)
    return found


def _entries(exif: bytes, order: str, start: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield tag, type, length and value of the entries of a directory, as TIFF 6.0 (1992), p. 14, has them."""
    for number in range(unpack_from(f"{order}H", exif, start)[0]):
        yield unpack_from(f"{order}HHI4s", exif, start + 2 + 12 * number)


def _value(exif: bytes, order: str, length: int, value: bytes) -> bytes:
    """Return the text of an entry, which is in it if it is short, else where it points to."""
    length = min(length, _MAX_TEXT)
    start = unpack_from(f"{order}I", value)[0]
    return value[:length] if length <= len(value) else exif[start : start + length]


def _text(value: object) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return text.split("\0")[0].strip()
