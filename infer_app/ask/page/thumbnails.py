"""Thumbnails, made in a separate process: a file that crashes or hangs a decoder loses only its thumbnail."""

import io
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from PIL import Image, ImageFile

from infer_app.base.domain import ReasonFact, reasons_with
from infer_app.base.errors import InferError
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.decode.decoder import open_image, rgb_of
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.workers.isolated_call import run_in_process

SIZE = 160  # pixels, the longer side
SIZE_WITH_BOXES = 320
QUALITY = 72
MAX_BYTES = 16_000  # of one of SIZE; a larger one is encoded again at a lower quality
MAX_ALL_BYTES = 750_000  # base64 adds a third, and the page stays under 1.5 MB
GROUP = 12  # images per process; if it dies, each half is tried in a process of its own
GROUP_TIMEOUT_S = 15.0
ALL_TIMEOUT_S = 60.0
AROUND = 0.1  # of an object: the share of its box that is shown beyond each edge
NOT_SHOWN = reasons_with(ReasonFact.NOT_SHOWN)


class PictureOfObject(NamedTuple):
    """An object of a picture, to be shown without the rest. Its box is a share, 0-1, of the upright picture."""

    location: str
    x: float
    y: float
    width: float
    height: float


Pictured = str | PictureOfObject  # what a thumbnail is made of: the location of a whole picture, or an object


@dataclass(frozen=True)
class ThumbnailLimits:
    """Limits for reading and decoding, as in a run."""

    read: ReadLimits
    max_pixels: int
    group_timeout_s: float = GROUP_TIMEOUT_S
    all_timeout_s: float = ALL_TIMEOUT_S
    size: int = SIZE
    max_bytes: int = MAX_BYTES
    max_all_bytes: int = MAX_ALL_BYTES


class Thumbnail(NamedTuple):
    """A small JPEG of a picture."""

    jpeg: bytes
    sha256: str | None = None  # of the file that it was made of

    def is_of(self, sha256: str | None) -> bool:
        """Return whether it was made of the bytes of this sha256, as far as both are known."""
        return None in (sha256, self.sha256) or sha256 == self.sha256


def make_thumbnails(pictured: Sequence[Pictured], limits: ThumbnailLimits) -> dict[Pictured, Thumbnail]:
    """Return the thumbnails that can be made, within `max_all_bytes` and `all_timeout_s`."""
    deadline = time.monotonic() + limits.all_timeout_s
    wanted = list(dict.fromkeys(pictured))
    made: dict[Pictured, Thumbnail] = {}
    for first in range(0, len(wanted), GROUP):
        made |= _make_group(wanted[first : first + GROUP], limits, deadline)
    return _within(made, limits.max_all_bytes)


def _make_group(pictured: list[Pictured], limits: ThumbnailLimits, deadline: float) -> dict[Pictured, Thumbnail]:
    """Make the thumbnails of a group; if the process dies or hangs, bisect until the faulty image is alone."""
    left = deadline - time.monotonic()
    if left <= 0:
        return {}
    try:
        return run_in_process(thumbnails_of, pictured, limits, timeout_s=min(left, limits.group_timeout_s))
    except InferError:
        if len(pictured) == 1:
            return {}
    half = len(pictured) // 2
    return _make_group(pictured[:half], limits, deadline) | _make_group(pictured[half:], limits, deadline)


def thumbnails_of(pictured: Sequence[Pictured], limits: ThumbnailLimits) -> dict[Pictured, Thumbnail]:
    """Make thumbnails in this process, whose global settings of Pillow are changed."""
    warnings.simplefilter("ignore")
    ImageFile.LOAD_TRUNCATED_IMAGES = True  # show what a truncated file contains
    Image.MAX_IMAGE_PIXELS = None  # `max_pixels` is checked instead
    made = ((one, _thumbnail(one, limits)) for one in pictured)
    return {one: thumbnail for one, thumbnail in made if thumbnail}


def _thumbnail(pictured: Pictured, limits: ThumbnailLimits) -> Thumbnail | None:
    try:
        file = read_image(pictured if isinstance(pictured, str) else pictured.location, limits.read)
        with open_image(file.data) as image:
            if image.width * image.height > limits.max_pixels:
                return None
            size = limits.size if isinstance(pictured, str) else SIZE
            jpeg = _as_jpeg(_small(image, pictured, size), limits.max_bytes)
            return Thumbnail(jpeg, file.facts.sha256) if jpeg else None
    except (BadImage, MemoryError):
        return None
    except Exception:  # decoders raise whatever the damage leads to
        return None


def _small(image: Image.Image, pictured: Pictured, size: int) -> Image.Image:
    """Shrink the pixels that the model gets, upright, to at most `size` on the longer side."""
    share = 1.0 if isinstance(pictured, str) else max(pictured.width, pictured.height, 0.01)
    image.draft("RGB", (math.ceil(2 * size / share),) * 2)
    small = Image.fromarray(rgb_of(image))
    if isinstance(pictured, PictureOfObject):
        small = small.crop(_edges(pictured, small.width, small.height))
    small.thumbnail((size, size), reducing_gap=2.0)
    return small


def _edges(part: PictureOfObject, width: int, height: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of an object with what is AROUND it, in pixels of the picture."""
    edges = []
    for start, length, pixels in ((part.x, part.width, width), (part.y, part.height, height)):
        first = min(pixels - 1, max(0, math.floor((start - AROUND * length) * pixels)))
        edges.append((first, max(first + 1, min(pixels, math.ceil((start + (1 + AROUND) * length) * pixels)))))
    (left, right), (top, bottom) = edges
    return left, top, right, bottom


def _as_jpeg(image: Image.Image, max_bytes: int) -> bytes | None:
    """Encode without metadata; None if it is too large even at half the quality."""
    for quality in (QUALITY, QUALITY // 2):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= max_bytes:
            return buffer.getvalue()
    return None


def _within(made: Mapping[Pictured, Thumbnail], max_bytes: int) -> dict[Pictured, Thumbnail]:
    kept: dict[Pictured, Thumbnail] = {}
    for one, thumbnail in made.items():
        if sum(len(other.jpeg) for other in kept.values()) + len(thumbnail.jpeg) <= max_bytes:
            kept[one] = thumbnail
    return kept
