"""Detect a file's format by its content, and check the containers whose structure tells where they end."""

import mmap
import re
import zlib
from collections.abc import Iterator

from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage, Transient

SNIFFED_BYTES = 1024  # of the beginning, that tell a format
FORMATS = "JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF"
_SIGNATURES = {
    b"\xff\xd8\xff": "jpeg",
    b"\x89PNG\r\n\x1a\n": "png",
    b"BM": "bmp",
    **dict.fromkeys((b"GIF87a", b"GIF89a"), "gif"),
    **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0"), "tiff"),  # the last is BigTIFF
}
# What people take for images, so that a rejection names it. The third column is where the signature begins.
_REFUSED = (
    ("a Canon raw photo (CR2)", b"II*\0\x10\0\0\0CR\x02\0", 0),
    ("a Panasonic raw photo (RW2)", b"IIU\0", 0),
    ("an Olympus raw photo (ORF)", b"IIRO", 0),
    ("an Olympus raw photo (ORF)", b"IIRS", 0),
    ("a Fujifilm raw photo (RAF)", b"FUJIFILMCCD-RAW", 0),
    ("the second file that macOS keeps beside a file (AppleDouble, ._NAME)", b"\0\5\x16\7", 0),
    ("a file with macOS's own data (AppleSingle)", b"\0\5\x16\0", 0),
    ("a PDF", b"%PDF", 0),
    ("PostScript (EPS)", b"%!PS", 0),
    ("PostScript (EPS)", b"\xc5\xd0\xd3\xc6", 0),
    ("a Photoshop file (PSD)", b"8BPS", 0),
    ("JPEG 2000", b"\0\0\0\x0cjP  ", 0),
    ("JPEG 2000", b"\xff\x4f\xff\x51", 0),
    ("JPEG XL", b"\0\0\0\x0cJXL ", 0),
    ("JPEG XL", b"\xff\x0a", 0),
    ("a DICOM file", b"DICM", 128),
    ("a ZIP archive", b"PK\x03\x04", 0),
    ("a BigTIFF whose bytes are big-endian", b"MM\0+", 0),
    ("a Git LFS pointer instead of the file", b"version https://git-lfs", 0),
    ("a git-annex pointer instead of the file", b"/annex/objects/", 0),
)
_HTML = "an HTML page"
_FRAME = re.compile(rb"[0-9a-f]+(;chunk-signature=[0-9a-f]+)?\r\n[\x80-\xff]")  # of a JPEG or PNG in S3
_FRAMED = "stored with its aws-chunked framing: upload it again with request_checksum_calculation=when_required"
# Chunks of a PNG that hold no pixels. Of an unknown one that is damaged, it is not known that it holds none.
_PNG_METADATA = frozenset(
    b"gAMA cHRM sRGB iCCP cICP mDCV cLLI tEXt zTXt iTXt tIME pHYs bKGD hIST sBIT sPLT eXIf oFFs pCAL sCAL".split()
    + b"tRNS acTL fcTL fdAT caBX iDOT".split()  # alpha is dropped, and the first frame is that of a still picture
)
PNG_PROFILE = b"Raw profile type exif\0"  # begins a text in which older programs wrote EXIF data
_PNG_ORIENTATION = (b"XML:com.adobe.xmp\0", PNG_PROFILE)
MAX_PNG_TEXT = 1 << 20  # bytes that Pillow decompresses of a chunk; deflate packs at most 1,032 into one
# Brands of the ISO base media file format, whose files begin with a box `ftyp`: its size, "ftyp", the main brand, four
# bytes of version, further brands.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "heic"),
    b"crx ": "a Canon raw photo (CR3)",
    **dict.fromkeys((b"mif1", b"msf1"), "heic"),  # the last, because AVIF and HEIC files have it too
}


def sniff(data: bytes) -> str:
    """Return jpeg, png, webp, bmp, gif, tiff, heic or avif. Raises BadImage for other content, named if it is known."""
    other = _name_of_other(data)
    if other in ("heic", "avif"):
        return other
    if other:
        raise BadImage(Reason.UNSUPPORTED_FORMAT, f"{other}; only {FORMATS} are read")
    for signature, name in _SIGNATURES.items():
        if data.startswith(signature):
            return name
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if any(signature.startswith(data) for signature in (*_SIGNATURES, b"RIFF")):
        raise BadImage(Reason.TRUNCATED, f"ends after {len(data)} bytes, inside the signature")
    raise BadImage(Reason.UNSUPPORTED_FORMAT, f"none of {FORMATS}: begins {data[:8].hex(' ')}")


def _name_of_other(data: bytes) -> str | None:
    """Return heic or avif, or the name of a format that is known and not read; None for all other content."""
    if data[4:8] == b"ftyp" and len(data) >= 12:
        box = data[8 : min(max(int.from_bytes(data[:4], "big"), 12), 256)]
        brands = [box[at : at + 4] for at in range(0, len(box), 4)]
        return next(
            (name for brand, name in _BRANDS.items() if brand in brands), "a video, or another file of the MP4 family"
        )
    for name, signature, start in _REFUSED:
        if data.startswith(signature, start):
            return name
    text = data[:SNIFFED_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<svg", b"<?xml", b"<!--")) and b"<svg" in text:
        return "SVG"
    return _HTML if text.startswith((b"<!doctype html", b"<html")) else None


def check_answer(data: bytes) -> None:
    """Raise Transient for what a server may send in place of a picture: a page, a text, or what no known format is."""
    try:
        sniff(data)
    except BadImage as bad:
        if bad.reason is Reason.UNSUPPORTED_FORMAT and _name_of_other(data) in (None, _HTML):
            raise Transient(_FRAMED if _FRAME.match(data) else f"no picture: {bad.detail}") from None


def check_png_end(data: bytes) -> None:
    """Raise BadImage(TRUNCATED) unless the chunks reach IEND; Pillow accepts a file that ends after its last pixel."""
    if not any(chunk_type == b"IEND" for chunk_type, _, _ in png_chunks(data)):
        raise BadImage(Reason.TRUNCATED, "ends before the IEND chunk")


def png_chunks(data: bytes | mmap.mmap) -> Iterator[tuple[bytes, int, int]]:
    """Yield the type of each chunk of a PNG, with where its payload begins and ends."""
    start = 16
    while start <= len(data):
        end = start + int.from_bytes(data[start - 8 : start - 4], "big")
        yield data[start - 4 : start], start, end
        start = end + 12  # behind its checksum, and the length and type of the next one


def without_metadata(png: bytes) -> bytes:
    """Return a copy of a PNG without the chunks that no pixel depends on, but for sound ones that state an orientation.

    Raises BadImage if the chunks are damaged in a way that leaves open what they are.
    """
    pieces = [png[:8]]
    for chunk_type, start, end in png_chunks(png):
        is_sound = zlib.crc32(png[start - 4 : end]).to_bytes(4, "big") == png[end : end + 4]
        if chunk_type not in _PNG_METADATA or (is_sound and _may_state_orientation(chunk_type, png[start:end])):
            pieces.append(png[start - 8 : end + 4])
        if chunk_type == b"IEND":
            break
    return b"".join(pieces)


def _may_state_orientation(chunk_type: bytes, payload: bytes) -> bool:
    """Return whether a sound chunk may hold EXIF or XMP data that are not too long for Pillow."""
    return chunk_type == b"eXIf" or (payload.startswith(_PNG_ORIENTATION) and len(payload) < MAX_PNG_TEXT // 1000)


def check_boxes_end(data: bytes) -> None:
    """Raise BadImage(TRUNCATED) unless the file's outermost boxes end inside it: libheif pads what is missing."""
    position = 0
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        if length == 1:  # the length follows the type
            length = int.from_bytes(data[position + 8 : position + 16], "big")
        if length < 8:  # 0: up to the end of the file
            return
        position += length
    if position > len(data):
        raise BadImage(Reason.TRUNCATED, f"ends after {len(data)} bytes, inside a box that ends at {position}")


def webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height of the canvas in pixels; Pillow allocates memory for it when it opens the file."""
    if len(data) < 8 + int.from_bytes(data[4:8], "little") or len(data) < 30:
        raise BadImage(Reason.TRUNCATED, f"ends after {len(data)} bytes of a longer RIFF")
    chunk_type, payload = data[12:16], data[20:30]
    if chunk_type == b"VP8X":
        return 1 + int.from_bytes(payload[4:7], "little"), 1 + int.from_bytes(payload[7:10], "little")
    if chunk_type == b"VP8L":
        bits = int.from_bytes(payload[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk_type == b"VP8 ":
        return int.from_bytes(payload[6:8], "little") & 0x3FFF, int.from_bytes(payload[8:10], "little") & 0x3FFF
    raise BadImage(Reason.CORRUPT, f"first chunk of a WebP is {chunk_type!r}")
