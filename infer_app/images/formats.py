"""What a file is, by its content, and what its header promises; nothing here decodes a pixel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from PIL import ExifTags, Image

from infer_app.images.bad_image import BadImage
from infer_app.records import Reason

_SIGNATURES = {
    b"\xff\xd8\xff": "jpeg",
    b"\x89PNG\r\n\x1a\n": "png",
    b"BM": "bmp",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
    b"II+\0": "tiff",  # BigTIFF
    b"MM\0+": "tiff",
}


def sniff(data: bytes) -> str:
    """jpeg, png, webp, bmp, gif or tiff; whatever else it is (EPS, PDF, SVG, …) is refused unopened."""
    for signature, name in _SIGNATURES.items():
        if data.startswith(signature):
            return name
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if any(signature.startswith(data) for signature in (*_SIGNATURES, b"RIFF")):
        raise BadImage(Reason.TRUNCATED, f"ends after {len(data)} bytes, inside the signature")
    raise BadImage(Reason.UNSUPPORTED_FORMAT, f"not a JPEG, PNG, WebP, BMP, GIF or TIFF: begins {data[:8].hex(' ')}")


# --- JPEG -------------------------------------------------------------------------------------------------------

_HUFFMAN_SEQUENTIAL = (0xC0, 0xC1)
_PROGRESSIVE = (0xC2, 0xCA)
_DECODABLE = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)  # baseline, extended, progressive, and the arithmetic-coded two
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # those three are DHT, JPG and DAC
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length: TEM, RST0-7
_SOI, _EOI, _SOS, _APP0, _APP1, _APP14 = 0xD8, 0xD9, 0xDA, 0xE0, 0xE1, 0xEE

# In a scan FF 00 is data and FF D0-D7 a restart; any other marker ends it. Before the scan FF 01 means nothing either.
# Any number of FF may come before a marker: only the last one is looked for, which takes linear time on whatever bytes.
_END_OF_SCAN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_SEGMENT = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd7]")
MAX_SEGMENTS = 10_000  # a file has dozens; more only cost time
MAX_EXIF_BYTES = 1 << 20
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_XMP_NAME = b"http://ns.adobe.com/xap/1.0/\0"


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """What stands before a JPEG's first scan."""

    width: int  # pixels, as stored: before the orientation is applied
    height: int
    precision: int  # bits per sample
    sof: int  # the frame's marker byte: 0xC0 baseline, 0xC2 progressive, …
    num_components: int
    num_scan_components_first: int  # how many of them the first scan holds
    adobe_transform: int | None  # 0 none, 1 YCbCr, 2 YCCK; None without an Adobe marker
    orientation: int  # EXIF's, 1 to 8; 1 where there is none or it makes no sense

    @property
    def is_one_sequential_scan(self) -> bool:
        """Whether the first scan holds everything and a decoder of it notices missing data."""
        return self.sof in _HUFFMAN_SEQUENTIAL and self.num_scan_components_first == self.num_components

    @property
    def is_sequential(self) -> bool:
        return self.sof not in _PROGRESSIVE


class Segment(NamedTuple):
    marker: int
    start: int  # of the marker's last FF
    payload: bytes  # without the length
    end: int


def parse_jpeg_header(data: bytes) -> JpegHeader:
    """Everything up to the first scan, read by libjpeg's rules; so the size is the one it will decode to.

    TRUNCATED when the data ends before the first scan, UNSUPPORTED_FORMAT for lossless, hierarchical and not 8-bit
    frames, CORRUPT for anything libjpeg would not take.
    """
    frame = b""
    sof = 0
    adobe_transform = None
    exif, xmp = b"", b""
    for segment in jpeg_segments(data):
        marker, payload = segment.marker, segment.payload
        if marker in _START_OF_FRAME:
            if sof:
                raise BadImage(Reason.CORRUPT, "two frame headers")
            sof, frame = marker, _checked_frame(marker, payload)
        elif marker == _APP1 and payload.startswith(b"Exif\0\0"):
            exif += payload[6:] if len(exif) < MAX_EXIF_BYTES else b""  # one too long for a segment goes on in the next
        elif marker == _APP1 and payload.startswith(_XMP_NAME):
            xmp = payload
        elif marker == _APP14 and payload.startswith(b"Adobe") and len(payload) >= 12:
            adobe_transform = payload[11]
        elif marker == _SOS:
            return JpegHeader(
                width=int.from_bytes(frame[3:5], "big"),
                height=int.from_bytes(frame[1:3], "big"),
                precision=frame[0] if frame else 0,
                sof=sof,
                num_components=frame[5] if frame else 0,
                num_scan_components_first=_checked_scan(payload, frame),
                adobe_transform=adobe_transform,
                orientation=_orientation(exif, xmp),
            )
    raise BadImage(Reason.TRUNCATED, "ends before the first scan")


def jpeg_segments(data: bytes) -> Iterator[Segment]:
    """The marker segments up to and with the first scan's header; stray bytes between them are passed over.

    TRUNCATED when the data ends inside one, CORRUPT for an end or a second start of the image.
    """
    end = 2
    for _ in range(MAX_SEGMENTS):
        found = _SEGMENT.search(data, end)
        if found is None:
            return
        position, marker = found.start(), data[found.end() - 1]
        if marker in (_SOI, _EOI):
            raise BadImage(Reason.CORRUPT, f"marker {marker:02x} before the first scan")
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if len(data) < position + 4 or len(data) < end:
            raise BadImage(Reason.TRUNCATED, f"ends inside segment {marker:02x}")
        if end < position + 4:
            raise BadImage(Reason.CORRUPT, f"segment {marker:02x} is shorter than its length field")
        yield Segment(marker, position, data[position + 4 : end], end)
        if marker == _SOS:
            return
    raise BadImage(Reason.CORRUPT, f"more than {MAX_SEGMENTS:,} segments")


def has_jpeg_end(data: bytes) -> bool:
    """Whether the scans run up to an end marker, by structure only: what the scans hold is not looked at."""
    return any(marker == _EOI for marker, _ in _markers_from_first_scan(data))


def check_scans(data: bytes, header: JpegHeader, max_scans: int) -> None:
    """TRUNCATED when a component has no scan, which decodes to grey without a warning; CORRUPT beyond `max_scans`.

    Of a progressive frame each component needs its first coefficient; the format lets the finer ones be left out.
    """
    num_scans = 0
    begun: set[int] = set()
    for marker, payload in _markers_from_first_scan(data):
        if marker != _SOS or len(payload) < 6:
            continue
        num_scans += 1
        if header.is_sequential or payload[-3] == 0:  # the scan's first coefficient
            begun.update(payload[1:-3:2])
    if num_scans > max_scans:
        raise BadImage(Reason.CORRUPT, f"{num_scans} scans, at most {max_scans} are decoded")
    if len(begun) < header.num_components:
        raise BadImage(Reason.TRUNCATED, f"scans of {len(begun)} components, of {header.num_components}")


def without_oddities(data: bytes) -> bytes:
    """A copy of a JPEG in which what decoders only grumble about is put right; the pixels are the same.

    An unknown JFIF revision, an unknown Adobe transform (decoders then take the usual one), spectral bounds in the
    scan headers of a sequential file (decoders don't use them), and stray bytes between the header's segments.
    libjpeg reports only the first warning of a file, so that without this a harmless one would hide a loss of data.
    """
    header = parse_jpeg_header(data)
    pieces = [data[:2]]
    position = 2
    for segment in jpeg_segments(data):
        payload = _usual(segment, header)
        length = (len(payload) + 2).to_bytes(2, "big")
        pieces.append(bytes((0xFF, segment.marker)) + length + payload)
        position = segment.end
    pieces.append(_usual_scans(data[position:], header))
    return b"".join(pieces)


def without_padding(data: bytes, num_bytes: int) -> bytes:
    """A JPEG of one scan without so many zeros or FF before its end marker; as it is if other bytes stand there."""
    start = 0
    for segment in jpeg_segments(data):
        start = segment.end
    end = _END_OF_SCAN.search(data, start)
    if end is None or data[end.start() - num_bytes : end.start()].strip(b"\x00\xff"):
        return data
    return data[: end.start() - num_bytes] + data[end.start() :]


def _checked_frame(marker: int, payload: bytes) -> bytes:
    if len(payload) < 6 or len(payload) != 6 + 3 * payload[5]:
        raise BadImage(Reason.CORRUPT, "frame header of a wrong length")
    if marker not in _DECODABLE:
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"lossless or hierarchical JPEG (frame {marker:02x})")
    if payload[0] != 8:
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"JPEG of {payload[0]} bits per sample")
    if payload[5] not in (1, 3, 4):
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"JPEG of {payload[5]} components")
    if payload[1:3] == b"\0\0":
        raise BadImage(Reason.UNSUPPORTED_FORMAT, "JPEG of height 0: its height would follow the first scan")
    if payload[3:5] == b"\0\0":
        raise BadImage(Reason.CORRUPT, "width 0")
    return payload


def _checked_scan(payload: bytes, frame: bytes) -> int:
    """The number of components in a scan."""
    if not frame:
        raise BadImage(Reason.CORRUPT, "a scan without a frame header")
    if not payload or not 1 <= payload[0] <= 4 or len(payload) != 4 + 2 * payload[0]:
        raise BadImage(Reason.CORRUPT, "scan header of a wrong length")
    return payload[0]


def _orientation(exif: bytes, xmp: bytes) -> int:
    """EXIF's orientation, else XMP's, as Pillow's exif_transpose takes it; damaged metadata turns nothing."""
    found = _exif_orientation(exif) if exif else None
    if found is None and (match := _XMP_ORIENTATION.search(xmp)):
        found = int(match[1])
    return found if found is not None and 1 <= found <= 8 else 1


def _exif_orientation(exif: bytes) -> int | None:
    tags = Image.Exif()
    try:
        tags.load(b"Exif\0\0" + exif)
        found = tags.get(ExifTags.Base.Orientation)
    except Exception:  # Pillow raises whatever the damage leads to
        return None
    return found if isinstance(found, int) or found is None else 1


def _usual(segment: Segment, header: JpegHeader) -> bytes:
    """The payload of a header segment without its oddities."""
    marker, payload = segment.marker, segment.payload
    if marker == _APP0 and payload.startswith(b"JFIF\0") and len(payload) >= 7:
        return payload[:5] + b"\x01\x01" + payload[7:]
    if marker == _APP14 and payload.startswith(b"Adobe") and len(payload) >= 12 and payload[11] > 2:
        usual_transform = 2 if header.num_components == 4 else 1
        return payload[:11] + bytes((usual_transform,)) + payload[12:]
    if marker == _SOS:
        return _usual_scan(payload, header)
    return payload


def _usual_scan(payload: bytes, header: JpegHeader) -> bytes:
    return payload[:-3] + b"\x00\x3f\x00" if header.is_sequential else payload


def _usual_scans(rest: bytes, header: JpegHeader) -> bytes:
    """The first scan's data and all that follows, the later scan headers without their oddities."""
    fixed = bytearray(rest)
    position = 0
    while found := _END_OF_SCAN.search(rest, position):
        marker = rest[found.end() - 1]
        position = found.end()
        if marker == _EOI:
            break
        end = position + int.from_bytes(rest[position : position + 2], "big")
        if marker == _SOS and position + 6 <= end <= len(rest):
            fixed[position + 2 : end] = _usual_scan(rest[position + 2 : end], header)
        position = end
    return bytes(fixed)


def _markers_from_first_scan(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker and payload of the first scan's header and of all that follows up to EOI, the scans' data left out."""
    position = len(data)
    for segment in jpeg_segments(data):
        if segment.marker == _SOS:
            position = segment.end
            yield _SOS, segment.payload
    for _ in range(MAX_SEGMENTS):
        found = _END_OF_SCAN.search(data, position)
        if found is None:
            return
        marker = data[found.end() - 1]
        position = found.end()
        if marker == _EOI:
            yield marker, b""
            return
        if marker in _STANDALONE:
            continue
        end = position + int.from_bytes(data[position : position + 2], "big")
        yield marker, data[position + 2 : end]
        position = end
    raise BadImage(Reason.CORRUPT, f"more than {MAX_SEGMENTS:,} markers")


# --- containers whose end is written in their structure -----------------------------------------------------------


def check_png_end(data: bytes) -> None:
    """TRUNCATED unless the chunks run up to IEND; Pillow alone takes a file that was cut after its last pixel."""
    position = 8
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        if data[position + 4 : position + 8] == b"IEND":
            return
        position += 12 + length  # length, type and checksum beside the payload
    raise BadImage(Reason.TRUNCATED, "ends before the IEND chunk")


def webp_size(data: bytes) -> tuple[int, int]:
    """Width and height of the canvas, in pixels; Pillow takes memory for it on opening."""
    if len(data) < 8 + int.from_bytes(data[4:8], "little") or len(data) < 30:
        raise BadImage(Reason.TRUNCATED, f"ends after {len(data)} bytes of a longer RIFF")
    kind, payload = data[12:16], data[20:30]
    if kind == b"VP8X":
        return 1 + int.from_bytes(payload[4:7], "little"), 1 + int.from_bytes(payload[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(payload[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(payload[6:8], "little") & 0x3FFF, int.from_bytes(payload[8:10], "little") & 0x3FFF
    raise BadImage(Reason.CORRUPT, f"first chunk of a WebP is {kind!r}")
