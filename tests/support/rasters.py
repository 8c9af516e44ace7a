"""PNG and TIFF files that Pillow can't write, and headers of every format that claim any size."""

import struct
import zlib

import numpy as np

from tests.support.jpegs import baseline, encoded, exif, picture


def png_chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def png(width: int, height: int, depth: int, color_type: int, rows: bytes, extra: bytes = b"") -> bytes:
    """`rows` are raw pixels, each row without its filter byte; `extra` chunks come before them."""
    length = len(rows) // max(height, 1)
    filtered = b"".join(b"\0" + rows[at : at + length] for at in range(0, len(rows), max(length, 1)))
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + png_chunk(b"IDAT", zlib.compress(filtered)) + png_chunk(b"IEND", b"")


def png_of_16_bits(samples: np.ndarray) -> bytes:
    """(height, width, channels) uint16: grey, grey and alpha, RGB or RGBA."""
    height, width, channels = samples.shape
    return png(width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], samples.astype(">u2").tobytes())


def tiff(width: int, height: int, depth: int, channels: int, pixels: bytes, **tags: int) -> bytes:
    """Little-endian, uncompressed, one strip; `tags` named t339=3 and so on are added or replace the usual ones."""
    entries = {256: width, 257: height, 258: depth, 259: 1, 262: 2 if channels >= 3 else 1}
    entries |= {273: 8 + 1024, 277: channels, 278: height, 279: len(pixels)}
    entries |= {int(name[1:]): value for name, value in tags.items()}
    directory = struct.pack("<H", len(entries))
    values = b""
    for tag, value in sorted(entries.items()):
        if tag == 258 and channels > 2:
            directory += struct.pack("<HHII", tag, 3, channels, 8 + 512 + len(values))
            values += struct.pack(f"<{channels}H", *[value] * channels)
        else:
            directory += struct.pack("<HHII", tag, 4, 1, value)
    directory += bytes(4)
    return (b"II*\0\x08\0\0\0" + directory.ljust(512, b"\0") + values).ljust(8 + 1024, b"\0") + pixels


def claiming(kind: str, width: int, height: int) -> bytes:
    """A small file whose header claims this size."""
    if kind == "jpeg":
        data = baseline()
        at = data.index(b"\xff\xc0") + 5
        return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]
    if kind == "png":
        return png(width, height, 8, 2, b"")
    if kind == "tiff":
        return tiff(width, height, 8, 3, bytes(100))
    if kind == "bmp":
        head = struct.pack("<IIIIiiHHIIiiII", 154, 0, 54, 40, width, height, 1, 24, 0, 100, 0, 0, 0, 0)
        return b"BM" + head + bytes(100)
    if kind == "gif":
        data = bytearray(encoded(picture(), "GIF"))
        data[6:10] = struct.pack("<HH", width, height)
        return bytes(data)
    assert kind == "webp"
    data = bytearray(encoded(picture().convert("RGBA"), "WEBP", exif=exif(1)))
    data[24:30] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return bytes(data)
