"""Scale samples of 16 bits to 8, as the recipe's `depth` has it.

- `full`: the upper 8 bits.
- `window:LOW,HIGH`: LOW and what is below becomes 0, HIGH and what is above 255; between them rounded to the nearest.
- `percentile:LOW,HIGH`: the same, with the percentiles of all samples of the image.
"""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import ImageFile

from infer_app.artifact.recipe import MAX_SAMPLE
from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.geometry import Pixels

DIM = 16  # upper 8 bits below this: at most 12 of the 16 bits are used
Samples = np.ndarray[Any, Any]  # (height, width) or (height, width, channels), 0 to MAX_SAMPLE

# Pillow unpacks colours of 16 bits to their upper bytes. Unpacked as if they had the other byte order, the same data
# gives the lower bytes.
_LOWER = {
    f"{mode};16{order}": f"{mode};16{other}"
    for mode in ("RGB", "RGBA", "RGBX")
    for order, other in (("L", "B"), ("B", "L"), ("N", "B" if sys.byteorder == "little" else "L"))
}


def to_8_bits(samples: Samples, depth: str) -> Pixels:
    """Scale samples from 0 to MAX_SAMPLE to 0 to 255."""
    if depth == "full":
        return (samples >> 8).astype(np.uint8)
    low, high = (float(part) for part in depth.partition(":")[2].split(","))
    if depth.startswith("percentile"):
        low, high = np.percentile(samples, (low, high))
    scaled: Pixels = _table(float(low), float(high))[samples]
    return scaled


@lru_cache(maxsize=1)  # a window is the same for all images
def _table(low: float, high: float) -> Pixels:
    """Return what each sample becomes."""
    scaled = (np.arange(MAX_SAMPLE + 1) - low) * 255 / ((high - low) or 1)
    table: Pixels = np.clip(np.rint(scaled), 0, 255).astype(np.uint8)
    return table


def has_deep_colors(image: ImageFile.ImageFile) -> bool:
    """Return whether an image that is open, but not loaded, has 16 bits per channel, of which Pillow loads 8."""
    return any(";16" in rawmode for rawmode in _rawmodes(image)) and not image.mode.startswith("I")


def load_deep_colors(image: ImageFile.ImageFile, again: ImageFile.ImageFile) -> Samples:
    """Load the samples of an image that was opened twice: (height, width, 3), or 1 for grey with alpha.

    Raises BadImage where Pillow can't.
    """
    rawmodes, upper, lower = set(_rawmodes(again)), slice(3), slice(3)
    if rawmodes == {"LA;16B"}:  # grey and alpha: two samples of 16 bits are unpacked as four of 8
        _unpack_by(again, {"LA;16B": "RGBA"})
        upper, lower = slice(1), slice(1, 2)
    elif rawmodes <= _LOWER.keys():
        _unpack_by(again, _LOWER)
    else:
        detail = "CMYK or premultiplied alpha of 16 bits is read by --set depth=full only; convert it to RGB"
        raise BadImage(Reason.UNSUPPORTED_FORMAT, detail)
    image.load()
    again.load()
    samples: Samples = np.asarray(image)[:, :, upper].astype(np.uint16) << 8
    samples |= np.asarray(again)[:, :, lower]
    return samples


def _rawmodes(image: ImageFile.ImageFile) -> list[str]:
    """Return how each part of the image is unpacked."""
    return [_rawmode(tile.args) for tile in image.tile]


def _rawmode(args: Any) -> str:
    """Return the rawmode of a tile's arguments: all of them, or the first."""
    return args if isinstance(args, str) else str(args[0]) if args else ""


def _unpack_by(image: ImageFile.ImageFile, rawmodes: Mapping[str, str]) -> None:
    """Replace the rawmode of each part of an image that is not loaded yet."""
    for number, tile in enumerate(image.tile):
        other = rawmodes[_rawmode(tile.args)]
        image.tile[number] = tile._replace(
            args=other if isinstance(tile.args, str) else (other, *(tile.args or ())[1:])
        )
