"""Small JPEGs made in code, of every kind that a cut can hurt."""

import io
import os
import struct
from collections.abc import Sequence

import numpy as np
import pytest
import turbojpeg
from PIL import Image

from infer_app.predict.images.decode.libjpeg_turbo import load_turbo

# Where a picture must be put so that the orientation brings it upright again.
STORED_AS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def put(image: Image.Image, orientation: int) -> Image.Image:
    method = STORED_AS[orientation]
    return image if method is None else image.transpose(method)


def picture(width: int = 24, height: int = 16) -> Image.Image:
    """Noise over a gradient: every block has something to lose."""
    noise = np.random.default_rng(7).integers(0, 90, (height, width, 3), dtype=np.uint8)
    ramp = np.linspace(0, 160, width, dtype=np.uint8)[None, :, None]
    return Image.fromarray(noise + ramp)


def encoded(image: Image.Image, format: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def baseline() -> bytes:
    return encoded(picture(), quality=80)


def progressive() -> bytes:
    return encoded(picture(), quality=80, progressive=True)


def grey() -> bytes:
    return encoded(picture().convert("L"), quality=80)


def grey_progressive() -> bytes:
    return encoded(picture().convert("L"), quality=80, progressive=True)


def with_restarts() -> bytes:
    return encoded(picture(64, 64), quality=80, restart_marker_blocks=1)


def cmyk() -> bytes:
    return encoded(picture().convert("CMYK"), quality=80)


def cmyk_without_adobe() -> bytes:
    """The CMYK one without the marker that says who wrote it, and so that its values are inverted."""
    data = cmyk()
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]


def with_samsung_trailer(data: bytes, name: bytes = b"Image_UTC_Data", content: bytes = b"1546300800000") -> bytes:
    """A JPEG as panoramas of Samsung's phones are: in place of the end marker come blocks of data, and their table."""
    block = b"\0\0\x01\x0a" + len(name).to_bytes(4, "little") + name + content
    table = b"SEFH" + struct.pack("<IIHHII", 101, 1, 0, 0x0A01, len(block), len(block))
    return data.removesuffix(b"\xff\xd9") + block + table + struct.pack("<I", len(table)) + b"SEFT"


def arithmetic(width: int = 24, height: int = 16) -> bytes:
    """By libjpeg-turbo, which takes the wish from the environment; Pillow can't write it."""
    turbo = load_turbo()
    if turbo is None:
        pytest.skip("needs libturbojpeg: apt-get install libturbojpeg0")
    os.environ["TJ_ARITHMETIC"] = "1"
    try:
        return turbo.encode(np.asarray(picture(width, height)), pixel_format=turbojpeg.TJPF_RGB)
    finally:
        del os.environ["TJ_ARITHMETIC"]


def non_interleaved() -> bytes:
    """A sequential JPEG with one scan per component, put together from three grey ones of the same tables."""
    greys = [encoded(channel, quality=80) for channel in picture().split()]
    head = greys[0][:2] + b"".join(_segments(greys[0], (0xE0, 0xDB, 0xC4)))
    components = b"".join(struct.pack("BBB", number, 0x11, 0) for number in (1, 2, 3))
    frame = struct.pack(">BBHBHHB", 0xFF, 0xC0, 17, 8, 16, 24, 3) + components
    scans = b"".join(_scan(grey, number) for number, grey in enumerate(greys, start=1))
    return head + frame + scans + b"\xff\xd9"


def ycck() -> bytes:
    """The CMYK one, its first three channels now said to be YCbCr."""
    return cmyk().replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\2")


def of_many_scans(count: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again."""
    data = progressive()
    return data[:-2] + data[data.rindex(b"\xff\xda") : -2] * count + b"\xff\xd9"


def with_segment(data: bytes, marker: int, payload: bytes) -> bytes:
    """The JPEG with one more segment right after its start."""
    return data[:2] + bytes((0xFF, marker)) + struct.pack(">H", len(payload) + 2) + payload + data[2:]


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def _segments(data: bytes, markers: Sequence[int]) -> list[bytes]:
    found, position = [], 2
    while data[position + 1] != 0xDA:
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if data[position + 1] in markers:
            found.append(data[position:end])
        position = end
    return found


def _scan(grey: bytes, number: int) -> bytes:
    at = grey.index(b"\xff\xda")
    return b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, number, 0x00, 0, 63, 0) + grey[at + 10 : -2]
