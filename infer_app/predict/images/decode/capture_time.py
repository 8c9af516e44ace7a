"""When photos were taken, by the clocks of their cameras."""

import contextlib
import mmap
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from PIL import ExifTags, Image

from infer_app.predict.images.decode.decoder import open_file
from infer_app.predict.images.decode.formats import SNIFFED_BYTES, sniff, without_metadata
from infer_app.predict.images.decode.heif import read_heic_exif
from infer_app.predict.images.decode.jpeg_structure import EXIF_NAME, exif_part, jpeg_segments
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.folder_scan import FolderScan

FIRST = 20  # photos of a new project that are opened


def read_capture_times(paths: Sequence[str], zone: str) -> Iterator[float | None]:
    """Yield for each photo EXIF's DateTimeOriginal in seconds since the epoch, or None where there is none.

    It has a zone in files that also state OffsetTimeOriginal; all others are taken to be in `zone`, an IANA name.
    """
    for path in paths:
        seconds = None
        with contextlib.suppress(Exception):  # whatever a damaged file leads to; its day is that of its file then
            seconds = _read_capture_time(path, ZoneInfo(zone))
        yield seconds


def count_dated(folder: str) -> tuple[int, int]:
    """Return how many of the first photos of a folder were opened, and how many of them state when they were taken."""
    paths = [file.location for file in islice(FolderScan(folder), FIRST)]
    return len(paths), sum(seconds is not None for seconds in read_capture_times(paths, "UTC"))


def _read_capture_time(path: str, zone: ZoneInfo) -> float | None:
    exif = _read_exif(path)
    if ExifTags.Base.DateTimeOriginal not in exif:
        return None
    text = _text(exif[ExifTags.Base.DateTimeOriginal])
    try:
        taken = datetime.strptime(text, "%Y:%m:%d %H:%M:%S")
    except ValueError:  # as some programs write it: 2026-11-20T04:05:06.7
        taken = datetime.fromisoformat(text[:10].replace(":", "-") + text[10:])
    with contextlib.suppress(ValueError):
        offset = datetime.strptime(_text(exif.get(ExifTags.Base.OffsetTimeOriginal, "")), "%z")
        return taken.replace(tzinfo=taken.tzinfo or offset.tzinfo).timestamp()
    return taken.replace(tzinfo=taken.tzinfo or zone).timestamp()


def _read_exif(path: str) -> dict[int, object]:
    with Path(path).open("rb") as file:
        found = sniff(file.read(SNIFFED_BYTES))
        file.seek(0)
        if found == "heic":  # which Pillow does not know
            return read_heic_exif(file.read()).get_ifd(ExifTags.IFD.Exif)
        if found == "jpeg":  # of a damaged one Pillow would read everything
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _jpeg_exif(mapped).get_ifd(ExifTags.IFD.Exif)
        with open_file(BytesIO(without_metadata(file.read())) if found == "png" else file, found) as image:
            return image.getexif().get_ifd(ExifTags.IFD.Exif)


def _jpeg_exif(data: mmap.mmap) -> Image.Exif:
    """Return the EXIF data of a JPEG, before which there may be megabytes of others; what is no metadata isn't read."""
    exif, parts = Image.Exif(), list[bytes]()
    with contextlib.suppress(BadImage):  # damage behind it
        parts.extend(exif_part(segment) for segment in jpeg_segments(data))
    exif.load(EXIF_NAME + b"".join(parts))
    return exif


def _text(value: object) -> str:
    return str(value).strip("\0 ")
