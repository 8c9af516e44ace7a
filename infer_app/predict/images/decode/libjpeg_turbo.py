"""Decode JPEGs with libjpeg-turbo, and raise BadImage for each warning that means a loss of data.

libjpeg itself only warns, and fills up with grey what is missing.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import turbojpeg
from PIL import Image

from infer_app.base.domain import Reason
from infer_app.predict.images.decode.jpeg_structure import (
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
from infer_app.predict.images.read.bad_image import BadImage, reason_of
from infer_app.predict.images.transform.geometry import Pixels

MAX_PADDING_BYTES = 16  # as libjpeg counts, which reads ahead a little; more may be an overwritten end of a picture
_STRICT = turbojpeg.TJFLAG_STOPONWARNING | turbojpeg.TJFLAG_LIMITSCANS
_END_OF_IMAGE = b"\xff\xd9"
_ZEROS = bytes(4)


def decode_strictly(turbo: StrictTurbo, data: bytes, header: JpegHeader, scale: int) -> Pixels:
    """Decode `scale` times smaller in each direction, without a warning; first correct harmless oddities in a copy."""
    try:
        return _decode_to_its_end(turbo, data, header, scale)
    except JpegRefused as refused:
        if 0 < refused.padding <= MAX_PADDING_BYTES:
            return _decode_to_its_end(turbo, without_padding(data, refused.padding), header, scale)
        if not refused.may_be_harmless:
            raise
    return _decode_to_its_end(turbo, without_oddities(data), header, scale)


def _decode_to_its_end(turbo: StrictTurbo, data: bytes, header: JpegHeader, scale: int) -> Pixels:
    """Decode a file, also one without an end marker if it is one Huffman-coded scan and clean once the marker is added.

    With several scans the last ones may be missing without a trace, and arithmetic coding may omit its last bytes. A
    file that ends in zeros was being written when the machine crashed; zeros may decode to grey blocks.
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
    """Decode once. libjpeg reads all of the file at every scale, so its warnings do not depend on `scale`."""
    if header.num_components < 4:
        rgb: Pixels = turbo.decode(data, turbojpeg.TJPF_RGB, (1, scale), _STRICT)
        return rgb
    # libjpeg returns CMYK as it is stored: inverted, as Adobe writes it and Pillow reads it.
    cmyk = ~turbo.decode(data, turbojpeg.TJPF_CMYK, (1, scale), _STRICT)
    return np.array(Image.fromarray(cmyk, "CMYK").convert("RGB"))


class JpegRefused(BadImage):
    """An error or a warning of libjpeg-turbo; the reason is derived from its message."""

    def __init__(self, message: str) -> None:
        super().__init__(reason_of(message), message)

    def __reduce__(self) -> tuple[type[JpegRefused], tuple[str]]:
        return type(self), (self.detail,)

    @property
    def may_be_harmless(self) -> bool:
        """Return whether the warning may be harmless; stray bytes are so only between the header's segments."""
        return bool(re.search(r"JFIF revision|Adobe color transform|SOS parameters|extraneous bytes", self.detail))

    @property
    def padding(self) -> int:
        """Return the number of stray bytes between a complete scan and the end marker; cheap cameras write some."""
        found = re.search(r"(\d+) extraneous bytes before marker 0xd9", self.detail)
        return int(found[1]) if found else 0

    @property
    def is_without_end(self) -> bool:
        return "Premature end of JPEG file" in self.detail

    @property
    def is_beyond_turbo(self) -> bool:
        """Return whether the file has a subsampling or colour space that libjpeg-turbo's interface does not support."""
        return bool(re.search(r"Could not determine|Unsupported color conversion", self.detail))


class StrictTurbo(turbojpeg.TurboJPEG):  # type: ignore[misc]
    """A PyTurboJPEG that raises an exception for warnings too.

    PyTurboJPEG itself calls warnings.warn and returns an undefined image; Python shows a repeated warning only once.
    """

    def _TurboJPEG__report_error(self, handle: object) -> None:  # noqa: N802 - the name PyTurboJPEG gives it
        raise JpegRefused(self._TurboJPEG__get_error_string(handle))


@cache
def load_turbo() -> StrictTurbo | None:
    """Load the library once per process; None if it is not installed.

    Its plain name is tried first, because PyTurboJPEG's own search starts a compiler to find the library.
    """
    for path in ("libturbojpeg.so.0", None):
        try:
            return StrictTurbo(path)
        except (OSError, RuntimeError, KeyError):
            continue
    return None


def without_oddities(data: bytes) -> bytes:
    """Return a copy of a JPEG that causes none of the harmless warnings; the pixels are the same.

    Corrected are an unknown JFIF revision, an unknown Adobe transform (decoders then use the usual one), spectral
    bounds in the scan headers of a sequential file (decoders ignore them), and stray bytes between the header's
    segments. libjpeg reports only a file's first warning, so a harmless one would otherwise hide a loss of data.
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
    """Remove `num_bytes` of zeros or FF before the end marker of a JPEG; keep any other bytes there."""
    start = 0
    for segment in jpeg_segments(data):
        start = segment.end
    end = next((one for one in END_OF_SCAN.finditer(data, start) if data[one.end() - 1] == EOI), None)
    if end is None or data[end.start() - num_bytes : end.start()].strip(b"\x00\xff"):
        return data
    return data[: end.start() - num_bytes] + data[end.start() :]


def _usual(segment: Segment, header: JpegHeader) -> bytes:
    """Return the payload of a header segment with harmless oddities corrected."""
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
    """Return the first scan's data and all that follows, with harmless oddities of later scan headers corrected."""
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
