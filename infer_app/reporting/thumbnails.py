"""Thumbnails, made in a separate process: a file that crashes or hangs a decoder loses only its thumbnail."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from PIL import Image, ImageFile

from infer_app.domain import ReasonFact, reasons_with
from infer_app.errors import InferError
from infer_app.images.decode.decoder import open_image, rgb_of
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.read.read_image import read_image
from infer_app.workers.isolated_call import run_in_process

SIZE = 160  # pixels, the longer side
SIZE_WITH_BOXES = 320
QUALITY = 72
MAX_BYTES = 16_000  # of one of SIZE; a larger one is encoded again at a lower quality
MAX_ALL_BYTES = 750_000  # base64 adds a third, and the page stays under 1.5 MB
GROUP = 12  # images per process; if it dies, each half is tried in a process of its own
GROUP_TIMEOUT_S = 15.0
ALL_TIMEOUT_S = 60.0
NOT_SHOWN = reasons_with(ReasonFact.NOT_SHOWN)


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


def make_thumbnails(locations: Sequence[str], limits: ThumbnailLimits) -> dict[str, Thumbnail]:
    """Return thumbnails by location, without those that can't be made, within `max_all_bytes` and `all_timeout_s`."""
    deadline = time.monotonic() + limits.all_timeout_s
    wanted = list(dict.fromkeys(locations))
    made: dict[str, Thumbnail] = {}
    for first in range(0, len(wanted), GROUP):
        made |= _make_group(wanted[first : first + GROUP], limits, deadline)
    return _within(made, limits.max_all_bytes)


def _make_group(locations: list[str], limits: ThumbnailLimits, deadline: float) -> dict[str, Thumbnail]:
    """Make the thumbnails of a group; if the process dies or hangs, bisect until the faulty image is alone."""
    left = deadline - time.monotonic()
    if left <= 0:
        return {}
    try:
        return run_in_process(thumbnails_of, locations, limits, timeout_s=min(left, limits.group_timeout_s))
    except InferError:
        if len(locations) == 1:
            return {}
    half = len(locations) // 2
    return _make_group(locations[:half], limits, deadline) | _make_group(locations[half:], limits, deadline)


def thumbnails_of(locations: Sequence[str], limits: ThumbnailLimits) -> dict[str, Thumbnail]:
    """Make thumbnails in this process, whose global settings of Pillow are changed."""
    warnings.simplefilter("ignore")
    ImageFile.LOAD_TRUNCATED_IMAGES = True  # show what a truncated file contains
    Image.MAX_IMAGE_PIXELS = None  # `max_pixels` is checked instead
    made = ((location, _thumbnail(location, limits)) for location in locations)
    return {location: thumbnail for location, thumbnail in made if thumbnail}


def _thumbnail(location: str, limits: ThumbnailLimits) -> Thumbnail | None:
    try:
        file = read_image(location, limits.read)
        with open_image(file.data) as image:
            if image.width * image.height > limits.max_pixels:
                return None
            jpeg = _as_jpeg(_small(image, limits.size), limits.max_bytes)
            return Thumbnail(jpeg, file.facts.sha256) if jpeg else None
    except (BadImage, MemoryError):
        return None
    except Exception:  # decoders raise whatever the damage leads to
        return None


def _small(image: Image.Image, size: int) -> Image.Image:
    """Shrink the pixels that the model gets, upright, to at most `size` on the longer side."""
    image.draft("RGB", (2 * size, 2 * size))
    small = Image.fromarray(rgb_of(image))
    small.thumbnail((size, size), reducing_gap=2.0)
    return small


def _as_jpeg(image: Image.Image, max_bytes: int) -> bytes | None:
    """Encode without metadata; None if it is too large even at half the quality."""
    for quality in (QUALITY, QUALITY // 2):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= max_bytes:
            return buffer.getvalue()
    return None


def _within(made: dict[str, Thumbnail], max_bytes: int) -> dict[str, Thumbnail]:
    kept: dict[str, Thumbnail] = {}
    for location, thumbnail in made.items():
        if sum(len(one.jpeg) for one in kept.values()) + len(thumbnail.jpeg) <= max_bytes:
            kept[location] = thumbnail
    return kept
