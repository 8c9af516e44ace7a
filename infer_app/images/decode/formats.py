"""Detect a file's format by its content, and check the containers whose structure tells where they end."""

from __future__ import annotations

from infer_app.domain import Reason
from infer_app.images.read.bad_image import BadImage

_JPEG = b"\xff\xd8\xff"
_SIGNATURES = {
    _JPEG: "jpeg",
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
    """Return jpeg, png, webp, bmp, gif or tiff. Raises BadImage for any other content (EPS, PDF, SVG, …)."""
    for signature, name in _SIGNATURES.items():
        if data.startswith(signature):
            return name
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if any(signature.startswith(data) for signature in (*_SIGNATURES, b"RIFF")):
        raise BadImage(Reason.TRUNCATED, f"ends after {len(data)} bytes, inside the signature")
    raise BadImage(Reason.UNSUPPORTED_FORMAT, f"not a JPEG, PNG, WebP, BMP, GIF or TIFF: begins {data[:8].hex(' ')}")


def is_jpeg(data: bytes) -> bool:
    return data.startswith(_JPEG)


def check_png_end(data: bytes) -> None:
    """Raise BadImage(TRUNCATED) unless the chunks reach IEND; Pillow accepts a file that ends after its last pixel."""
    position = 8
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        if data[position + 4 : position + 8] == b"IEND":
            return
        position += 12 + length  # length, type and checksum beside the payload
    raise BadImage(Reason.TRUNCATED, "ends before the IEND chunk")


def webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height of the canvas in pixels; Pillow allocates memory for it when it opens the file."""
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
