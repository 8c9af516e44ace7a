"""Parse a JPEG's structure (its header, its segments and its scans) without decoding pixels."""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from PIL import ExifTags, Image

from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage

_HUFFMAN_SEQUENTIAL = (0xC0, 0xC1)
_PROGRESSIVE = (0xC2, 0xCA)
_DECODABLE = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)  # baseline, extended, progressive, and the arithmetic-coded two
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # those three are DHT, JPG and DAC
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length: TEM, RST0-7
SOI, EOI, SOS, APP0, APP1, APP14 = 0xD8, 0xD9, 0xDA, 0xE0, 0xE1, 0xEE

# In a scan FF 00 is data and FF D0-D7 a restart; any other marker ends it. Before the scan FF 01 is ignored too.
# Any number of FF may precede a marker: only the last one is matched, which takes linear time for any input.
END_OF_SCAN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_SEGMENT = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd7]")
MAX_SEGMENTS = 10_000  # a file has dozens; more only cost time
# A block of Samsung's: two zeros, its type, the length of its name in four bytes, and its name.
_SAMSUNG_BLOCK = re.compile(rb"\0\0..(.\0\0\0)([A-Z]\w{4,})", re.DOTALL)
EXIF_NAME = b"Exif\0\0"
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_XMP_NAME = b"http://ns.adobe.com/xap/1.0/\0"


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """The metadata before a JPEG's first scan."""

    width: int  # pixels, as stored: before the orientation is applied
    height: int
    bit_depth: int  # of a sample
    sof: int  # the frame's marker byte: 0xC0 baseline, 0xC2 progressive, …
    num_components: int
    num_scan_components_first: int  # how many of them the first scan holds
    orientation: int  # EXIF's, 1 to 8; 1 if it is missing or invalid

    @property
    def is_one_sequential_scan(self) -> bool:
        """Return whether the first scan contains everything, so that a decoder detects missing data."""
        return self.sof in _HUFFMAN_SEQUENTIAL and self.num_scan_components_first == self.num_components

    @property
    def is_sequential(self) -> bool:
        return self.sof not in _PROGRESSIVE


class Segment(NamedTuple):
    """A marker segment before or at the first scan's header."""

    marker: int
    start: int  # of the marker's last FF
    payload: bytes  # without the length
    end: int


def parse_jpeg_header(data: bytes) -> JpegHeader:
    """Parse everything up to the first scan by libjpeg's rules, so that the size is the one it will decode to.

    Raises BadImage: TRUNCATED if the data ends before the first scan, UNSUPPORTED_FORMAT for a frame that is lossless,
    hierarchical or not 8-bit, CORRUPT for anything else that libjpeg would refuse.
    """
    frame = b""
    sof = 0
    exif, xmp = list[bytes](), b""
    for segment in jpeg_segments(data):
        marker, payload = segment.marker, segment.payload
        if marker in _START_OF_FRAME:
            if sof:
                raise BadImage(Reason.CORRUPT, "two frame headers")
            sof, frame = marker, _checked_frame(marker, payload)
        elif part := exif_part(segment):
            exif.append(part)
        elif marker == APP1 and payload.startswith(_XMP_NAME):
            xmp = payload
        elif marker == SOS:
            return JpegHeader(
                width=int.from_bytes(frame[3:5], "big"),
                height=int.from_bytes(frame[1:3], "big"),
                bit_depth=frame[0] if frame else 0,
                sof=sof,
                num_components=frame[5] if frame else 0,
                num_scan_components_first=_checked_scan(payload, frame),
                orientation=_orientation(b"".join(exif), xmp),
            )
    raise BadImage(Reason.TRUNCATED, "ends before the first scan")


def exif_part(segment: Segment) -> bytes:
    """Return the EXIF data in a segment, which continue in the next one if they are long; nothing for another one."""
    is_exif = segment.marker == APP1 and segment.payload.startswith(EXIF_NAME)
    return segment.payload[len(EXIF_NAME) :] if is_exif else b""


def jpeg_segments(data: bytes | mmap.mmap) -> Iterator[Segment]:
    """Yield the marker segments up to and including the first scan's header; skip stray bytes between them.

    Raises BadImage: TRUNCATED if the data ends inside a segment, CORRUPT for an end or a second start of the image.
    """
    end = 2
    for _ in range(MAX_SEGMENTS):
        found = _SEGMENT.search(data, end)
        if found is None:
            return
        position, marker = found.start(), data[found.end() - 1]
        if marker in (SOI, EOI):
            raise BadImage(Reason.CORRUPT, f"marker {marker:02x} before the first scan")
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if len(data) < position + 4 or len(data) < end:
            raise BadImage(Reason.TRUNCATED, f"ends inside segment {marker:02x}")
        if end < position + 4:
            raise BadImage(Reason.CORRUPT, f"segment {marker:02x} is shorter than its length field")
        yield Segment(marker, position, data[position + 4 : end], end)
        if marker == SOS:
            return
    raise BadImage(Reason.CORRUPT, f"more than {MAX_SEGMENTS:,} segments")


def without_samsung_trailer(data: bytes) -> bytes | None:
    """Return a JPEG up to the blocks of data that Samsung's phones write behind a picture, and an end marker.

    Their panoramas have none, and these blocks may hold another JPEG. None: the file has no such blocks.
    """
    if data.endswith(b"SEFT"):
        *_, scan = jpeg_segments(data)
        for block in _SAMSUNG_BLOCK.finditer(data, scan.end):
            if int.from_bytes(block[1], "little") <= len(block[2]):
                return data[: block.start()] + bytes((0xFF, EOI))
    return None


def has_jpeg_end(data: bytes) -> bool:
    """Return whether the scans are followed by an end marker; the content of the scans is not examined."""
    return any(marker == EOI for marker, _ in _markers_from_first_scan(data))


def check_scans(data: bytes, header: JpegHeader, max_scans: int) -> None:
    """Raise BadImage: TRUNCATED if a component has no scan, since it would silently be grey; CORRUPT for too many.

    In a progressive frame each component needs its first coefficient; the format allows the finer ones to be missing.
    """
    num_scans = 0
    coded: set[int] = set()
    for marker, payload in _markers_from_first_scan(data):
        if marker != SOS or len(payload) < 6:
            continue
        num_scans += 1
        if header.is_sequential or payload[-3] == 0:  # the scan's first coefficient
            coded.update(payload[1:-3:2])
    if num_scans > max_scans:
        raise BadImage(Reason.CORRUPT, f"{num_scans} scans, at most {max_scans} are decoded")
    if len(coded) < header.num_components:
        raise BadImage(Reason.TRUNCATED, f"scans of {len(coded)} components, of {header.num_components}")


def _checked_frame(marker: int, payload: bytes) -> bytes:
    if len(payload) < 6 or len(payload) != 6 + 3 * payload[5]:
        raise BadImage(Reason.CORRUPT, "frame header of a wrong length")
    if marker not in _DECODABLE:
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"lossless or hierarchical JPEG (frame {marker:02x}); convert it")
    if payload[0] != 8:
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"JPEG of {payload[0]} bits per sample; convert it to 8")
    if payload[5] not in (1, 3, 4):
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"JPEG of {payload[5]} components")
    if payload[1:3] == b"\0\0":
        raise BadImage(Reason.UNSUPPORTED_FORMAT, "JPEG of height 0: its height would follow the first scan")
    if payload[3:5] == b"\0\0":
        raise BadImage(Reason.CORRUPT, "width 0")
    return payload


def _checked_scan(payload: bytes, frame: bytes) -> int:
    """Return the number of components in a scan. Raises BadImage if its header is not valid."""
    if not frame:
        raise BadImage(Reason.CORRUPT, "a scan without a frame header")
    if not payload or not 1 <= payload[0] <= 4 or len(payload) != 4 + 2 * payload[0]:
        raise BadImage(Reason.CORRUPT, "scan header of a wrong length")
    return payload[0]


def _orientation(exif: bytes, xmp: bytes) -> int:
    """Return EXIF's orientation, else XMP's, as Pillow's exif_transpose does; 1, upright, for damaged metadata."""
    found = _exif_orientation(exif) if exif else None
    if found is None and (match := _XMP_ORIENTATION.search(xmp)):
        found = int(match[1])
    return found if found is not None and 1 <= found <= 8 else 1


def _exif_orientation(exif: bytes) -> int | None:
    tags = Image.Exif()
    try:
        tags.load(EXIF_NAME + exif)
        found = tags.get(ExifTags.Base.Orientation)
    except Exception:  # Pillow raises whatever the damage leads to
        return None
    return found if isinstance(found, int) or found is None else 1


def _markers_from_first_scan(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield marker and payload of the first scan's header and of all segments up to EOI, without the scans' data."""
    position = len(data)
    for segment in jpeg_segments(data):
        if segment.marker == SOS:
            position = segment.end
            yield SOS, segment.payload
    for _ in range(MAX_SEGMENTS):
        found = END_OF_SCAN.search(data, position)
        if found is None:
            return
        marker = data[found.end() - 1]
        position = found.end()
        if marker == EOI:
            yield marker, b""
            return
        if marker in _STANDALONE:
            continue
        end = position + int.from_bytes(data[position : position + 2], "big")
        yield marker, data[position + 2 : end]
        position = end
    raise BadImage(Reason.CORRUPT, f"more than {MAX_SEGMENTS:,} markers")
