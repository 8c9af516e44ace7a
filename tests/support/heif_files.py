"""HEIC and AVIF files made in code; HEIC only where pillow-heif is installed, which has an encoder."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

from tests.support.jpegs import encoded


def heic(
    first: Image.Image, *others: Image.Image, bits: int = 8, exif: bytes | None = None, quality: int = 95
) -> bytes:
    """RGB pictures, the first of which is the primary one; an orientation in `exif` becomes the container's too."""
    import pillow_heif

    file = pillow_heif.HeifFile()
    for image in (first, *others):
        if bits == 8:
            file.add_from_pillow(image)
        else:
            file.add_frombytes("RGB;16", image.size, (np.asarray(image).astype(np.uint16) * 257).tobytes())
    pillow_heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    buffer = BytesIO()
    file.save(buffer, quality=quality, chroma=444, exif=exif, primary_index=0)
    return buffer.getvalue()


def avif(first: Image.Image, *others: Image.Image, exif: bytes = b"", quality: int = 95) -> bytes:
    several = {"save_all": True, "append_images": others} if others else {}
    return encoded(first, "AVIF", quality=quality, subsampling="4:4:4", exif=exif, max_threads=1, **several)
