"""A JPEG becomes pixels by libjpeg-turbo, each of its warnings taken for what it means.

libjpeg itself would fill up what is missing with grey and only warn.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import turbojpeg
from PIL import Image

from infer_app.domain import Reason
from infer_app.images.decode.jpeg_structure import (
    APP0,
    APP14,
    END_OF_SCAN,
    EOI,
    SOS,
    JpegHeader,
    Segment,
    jpeg_segments,
    parse_jpeg_header,
)
from infer_app.images.read.bad_image import BadImage, reason_of
from infer_app.images.transform.geometry import Pixels

MAX_PADDING_BYTES = 16  # as libjpeg counts, which reads some ahead; more may be the overwritten end of a picture
_STRICT = turbojpeg.TJFLAG_STOPONWARNING | turbojpeg.TJFLAG_LIMITSCANS
_END_OF_IMAGE = b"\xff\xd9"
_ZEROS = bytes(4)


def decode_strictly(turbo: StrictTurbo, data: bytes, header: JpegHeader, scale: int) -> Pixels:
    """Pixels that cost no warning, `scale` times fewer each way, after harmless oddities were put right in a copy."""
    try:
        return _decode_to_its_end(turbo, data, header, scale)
    except JpegRefused as refused:
        if header.is_one_sequential_scan and 0 < refused.padding <= MAX_PADDING_BYTES:
            return _decode_to_its_end(turbo, without_padding(data, refused.padding), header, scale)
        if not refused.may_be_harmless:
            raise
    return _decode_to_its_end(turbo, without_oddities(data), header, scale)


def _decode_to_its_end(turbo: StrictTurbo, data: bytes, header: JpegHeader, scale: int) -> Pixels:
    """A file without an end marker is whole if it is one Huffman-coded scan and clean once the marker is there.

    Of several scans the last ones may be missing without a trace, and arithmetic coding may leave out its last bytes.
    A tail of zeros is what a crash leaves of a file that was being written; they can pass for grey blocks.
    """
    try:
        return _decode_with_turbo(turbo, data, header, scale)
    except JpegRefused as refused:
        if not (refused.is_without_end and header.is_one_sequential_scan) or data.endswith(_ZEROS):
            raise
    try:
        return _decode_with_turbo(turbo, data + _END_OF_IMAGE, header, scale)
    except JpegRefused as refused:
        raise BadImage(Reason.TRUNCATED, f"no end marker, and then: {refused.detail}") from refused


def _decode_with_turbo(turbo: StrictTurbo, data: bytes, header: JpegHeader, scale: int) -> Pixels:
    """However few pixels are asked for, libjpeg reads every code of the file: what it warns of does not change."""
    if header.num_components < 4:
        rgb: Pixels = turbo.decode(data, turbojpeg.TJPF_RGB, (1, scale), _STRICT)
        return rgb
    # libjpeg leaves CMYK as it is stored: inverted, as Adobe writes it and Pillow takes it.
    cmyk = ~turbo.decode(data, turbojpeg.TJPF_CMYK, (1, scale), _STRICT)
    return np.array(Image.fromarray(cmyk, "CMYK").convert("RGB"))


class JpegRefused(BadImage):
    """libjpeg-turbo failed or warned; the reason is what its message means."""

    def __init__(self, message: str) -> None:
        super().__init__(reason_of(message), message)

    def __reduce__(self) -> tuple[type[JpegRefused], tuple[str]]:
        return type(self), (self.detail,)

    @property
    def may_be_harmless(self) -> bool:
        """Stray bytes are harmless between the header's segments only; after a scan they mean that it lost its way."""
        return bool(re.search(r"JFIF revision|Adobe color transform|SOS parameters|extraneous bytes", self.detail))

    @property
    def padding(self) -> int:
        """Stray bytes between a scan that is complete and the end marker: cheap cameras write some."""
        found = re.search(r"(\d+) extraneous bytes before marker 0xd9", self.detail)
        return int(found[1]) if found else 0

    @property
    def is_without_end(self) -> bool:
        return "Premature end of JPEG file" in self.detail

    @property
    def is_beyond_turbo(self) -> bool:
        """Not damage, but a subsampling or colour space that libjpeg-turbo's interface does not name."""
        return bool(re.search(r"Could not determine|Unsupported color conversion", self.detail))


class StrictTurbo(turbojpeg.TurboJPEG):  # type: ignore[misc]
    """PyTurboJPEG that raises for a warning too.

    Its own way is warnings.warn and an undefined image; Python shows a repeated warning only once.
    """

    def _TurboJPEG__report_error(self, handle: Any) -> None:  # noqa: N802 - the name PyTurboJPEG gives it
        raise JpegRefused(self._TurboJPEG__get_error_string(handle))


@cache
def load_turbo() -> StrictTurbo | None:
    """One per process. By its plain name first: PyTurboJPEG's own search starts a compiler to find the library."""
    for path in ("libturbojpeg.so.0", None):
        try:
            return StrictTurbo(path)
        except (OSError, RuntimeError, KeyError):
            continue
    return None


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
    end = END_OF_SCAN.search(data, start)
    if end is None or data[end.start() - num_bytes : end.start()].strip(b"\x00\xff"):
        return data
    return data[: end.start() - num_bytes] + data[end.start() :]


def _usual(segment: Segment, header: JpegHeader) -> bytes:
    """The payload of a header segment without its oddities."""
    marker, payload = segment.marker, segment.payload
    if marker == APP0 and payload.startswith(b"JFIF\0") and len(payload) >= 7:
        return payload[:5] + b"\x01\x01" + payload[7:]
    if marker == APP14 and payload.startswith(b"Adobe") and len(payload) >= 12 and payload[11] > 2:
        usual_transform = 2 if header.num_components == 4 else 1
        return payload[:11] + bytes((usual_transform,)) + payload[12:]
    if marker == SOS:
        return _usual_scan(payload, header)
    return payload


def _usual_scan(payload: bytes, header: JpegHeader) -> bytes:
    return payload[:-3] + b"\x00\x3f\x00" if header.is_sequential else payload


def _usual_scans(rest: bytes, header: JpegHeader) -> bytes:
    """The first scan's data and all that follows, the later scan headers without their oddities."""
    fixed = bytearray(rest)
    position = 0
    while found := END_OF_SCAN.search(rest, position):
        marker = rest[found.end() - 1]
        position = found.end()
        if marker == EOI:
            break
        end = position + int.from_bytes(rest[position : position + 2], "big")
        if marker == SOS and position + 6 <= end <= len(rest):
            fixed[position + 2 : end] = _usual_scan(rest[position + 2 : end], header)
        position = end
    return bytes(fixed)
