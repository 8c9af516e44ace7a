"""When photos were taken, by the clocks of their cameras."""

import contextlib
import mmap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from struct import error as StructError  # noqa: N812 - `error` says nothing
from struct import unpack_from
from zlib import decompressobj

from PIL import ExifTags

from infer_app.base.domain import DECODER_MODULES, NO_TIME, CaptureTime, TimeOrigin
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.decode.decoder import open_file
from infer_app.predict.images.decode.formats import MAX_PNG_TEXT, PNG_PROFILE, SNIFFED_BYTES, png_chunks, sniff
from infer_app.predict.images.decode.heif import read_heic_exif
from infer_app.predict.images.decode.jpeg_structure import EXIF_NAME, exif_part, jpeg_segments
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.folder_scan import FolderScan
from infer_app.predict.images.read.read_image import read_image

FIRST = 20  # photos of a new project that are opened
_TAG = ExifTags.Base
# When the shutter was released, else when the picture was stored; each with the tags of its fraction and its offset.
_TIMES = {
    TimeOrigin.EXIF: (_TAG.DateTimeOriginal, _TAG.SubsecTimeOriginal, _TAG.OffsetTimeOriginal),
    TimeOrigin.DIGITIZED: (_TAG.DateTimeDigitized, _TAG.SubsecTimeDigitized, _TAG.OffsetTimeDigitized),
}
_WANTED = {_TAG.MakerNote.value, *(tag.value for tags in _TIMES.values() for tag in tags)}
_RECONYX, _RECONYX_TIME = b"\x01\xf1", 22  # HyperFire's maker note, and where its time is: exiftool's tags of Reconyx
_BYTE_ORDERS = {b"II": "<", b"MM": ">"}
_MAX_TEXT = 64  # bytes


def capture_time(data: bytes | mmap.mmap) -> CaptureTime | None:
    """Return EXIF's DateTimeOriginal, else its DateTimeDigitized, else NO_TIME; None where a decoder is missing.

    Raises MemoryError.
    """
    try:
        return _stated(_read_tags(data))
    except MemoryError:
        raise
    except BadImage as bad:
        return None if bad.reason in DECODER_MODULES else NO_TIME
    except Exception:  # whatever a damaged file leads to
        return NO_TIME


def read_capture_times(paths: Sequence[str]) -> Iterator[CaptureTime | None]:
    """Yield the time of each photo, None of a file that can't be read."""
    for path in paths:
        taken = None
        with (
            contextlib.suppress(OSError, ValueError),  # an empty file can't be mapped
            Path(path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,  # of a JPEG the first pages are read
        ):
            taken = capture_time(mapped)
        yield taken


def look_into_files(locations: Sequence[str], limits: ReadLimits) -> Iterator[CaptureTime | None]:
    """Yield what each file states, read as a run reads it; None of one that can't be read."""
    for location in locations:
        taken = None
        with contextlib.suppress(BadImage):
            taken = capture_time(read_image(location, limits).data)
        yield taken


def count_dated(folder: str) -> tuple[int, int]:
    """Return how many of the first photos of a folder were opened, and how many of them state when they were taken."""
    paths = [file.location for file in islice(FolderScan(folder), FIRST)]
    return len(paths), sum(taken is not None and taken.at is not None for taken in read_capture_times(paths))


def _stated(tags: Mapping[int, object]) -> CaptureTime:
    for origin, (time, fraction, offset) in _TIMES.items():
        if (text := _text(tags.get(time, ""))) and (at := _parsed(text)):
            digits, zone = _text(tags.get(fraction, "")), _text(tags.get(offset, ""))
            if digits.isdecimal() and not at.microsecond:
                at = at.replace(microsecond=int(f"{digits:0<6}"[:6]))
            if zone and not at.tzinfo:
                zone = f"{zone[0]}0{zone[1:]}" if zone[2:3] == ":" else zone  # +1:00, as some programs write it
                with contextlib.suppress(ValueError):
                    at = at.replace(tzinfo=datetime.strptime(zone, "%z").tzinfo)
            return CaptureTime(at.replace(tzinfo=None), at.utcoffset(), origin)
    return _in_maker_note(tags.get(_TAG.MakerNote, b""))


def _in_maker_note(note: object) -> CaptureTime:
    """Return the time in the maker note of a Reconyx HyperFire, which has none elsewhere."""
    if isinstance(note, bytes) and note.startswith(_RECONYX):
        second, minute, hour, month, day, year = unpack_from("<6H", note, _RECONYX_TIME)
        return CaptureTime(datetime(year, month, day, hour, minute, second))
    return NO_TIME


def _parsed(text: str) -> datetime | None:
    """Return the time of a text, None of a date alone, and of blanks and zeros, which some cameras write."""
    with contextlib.suppress(ValueError):  # also 2026-11-20T04:05:06.7, as some programs write it
        return (
            datetime.fromisoformat(text[:10].replace(":", "-") + text[10:]) if len(text) > len("2026:11:20") else None
        )
    with contextlib.suppress(ValueError):  # as 2026:7:1 04:05:06
        return datetime.strptime(text, "%Y:%m:%d %H:%M:%S")
    return None


def _read_tags(data: bytes | mmap.mmap) -> Mapping[int, object]:
    """Return the tags that tell the time. No picture is decoded: it may be larger than what a run decodes."""
    found = sniff(data[:SNIFFED_BYTES])
    if find := _FIND_EXIF.get(found):
        return _tags(find(data))
    if found == "heic":  # which Pillow does not know
        return read_heic_exif(bytes(data)).get_ifd(ExifTags.IFD.Exif)
    with open_file(BytesIO(data), found) as image:  # reads the header alone
        return image.getexif().get_ifd(ExifTags.IFD.Exif)


def _exif_of_jpeg(data: bytes | mmap.mmap) -> bytes:
    """Return the EXIF data, before which there may be megabytes of others; what is no metadata isn't read."""
    parts = list[bytes]()
    with contextlib.suppress(BadImage):  # damage behind it
        for segment in jpeg_segments(data):
            part = exif_part(segment)
            if parts and not part:
                break
            parts += [part] if part else []
    exif = b"".join(parts)
    while exif.startswith(EXIF_NAME):  # some programs write it twice
        exif = exif[len(EXIF_NAME) :]
    return exif


def _exif_of_png(data: bytes | mmap.mmap) -> bytes:
    """Return the content of the chunk eXIf, as the PNG specification (3rd edition, 2025) has it, or of a text."""
    text = b""
    for kind, start, end in png_chunks(data):
        if kind == b"eXIf":
            return data[start:end]
        if data[start : start + len(PNG_PROFILE)] == PNG_PROFILE:
            text = data[start + len(PNG_PROFILE) : end]
            text = decompressobj().decompress(text[1:], MAX_PNG_TEXT) if kind == b"zTXt" else text
    return bytes.fromhex(text.split(b"\n", 3)[3].decode()).removeprefix(EXIF_NAME)  # below its name and length


def _exif_of_webp(data: bytes | mmap.mmap) -> bytes:
    """Return the content of the chunk EXIF, as RFC 9649 has it."""
    position = 12
    while (name := data[position : position + 4]) not in (b"EXIF", b""):
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + length + length % 2
    found = data[position + 8 :][: int.from_bytes(data[position + 4 : position + 8], "little")] if name else b""
    return found.removeprefix(EXIF_NAME)


_FIND_EXIF = {"jpeg": _exif_of_jpeg, "png": _exif_of_png, "webp": _exif_of_webp}


def _tags(exif: bytes) -> dict[int, object]:
    """Return the tags that are wanted; Pillow's Exif takes six times as long or more, because it reads all."""
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
