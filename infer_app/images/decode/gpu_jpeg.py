"""Which files are left to a GPU to decode; the CPU decodes all others, and says what is wrong with them."""

from __future__ import annotations

from infer_app.domain import Recipe
from infer_app.images.decode.decoder import DecodeLimits
from infer_app.images.decode.formats import is_jpeg
from infer_app.images.decode.jpeg_structure import JpegHeader, is_one_scan_to_the_end, parse_jpeg_header
from infer_app.images.read.bad_image import BadImage
from infer_app.images.transform.geometry import geometry_of
from infer_app.images.transform.to_pixels import starts_horizontally

MIN_BYTES = 4096  # less is decoded in a fraction of a millisecond, and every damage noticed
MAX_PIXELS = 16 << 20  # a slot of them is 3 GB of the GPU's memory
_BASELINE = 0xC0


def suits_gpu(data: bytes, recipe: Recipe, limits: DecodeLimits) -> bool:
    """Whether a GPU may decode it: a baseline JPEG, grey or YCbCr, upright, whole, no larger than a row of pixels.

    Stricter than what a GPU can do, since its decoder notices little of what is broken: of a progressive JPEG the last
    scans may be missing without a trace. Only the structure is looked at, which takes a tenth of a millisecond.
    """
    if not MIN_BYTES <= len(data) <= 3 * recipe.size**2 or not is_jpeg(data):
        return False
    try:
        header = parse_jpeg_header(data)
        return (
            _is_plain(header, recipe)
            and header.width * header.height <= min(limits.max_pixels, MAX_PIXELS)
            and _is_resized_alike(header, recipe)
            and is_one_scan_to_the_end(data)
        )
    except BadImage:
        return False


def _is_plain(header: JpegHeader, recipe: Recipe) -> bool:
    return (
        header.sof == _BASELINE
        and header.is_one_sequential_scan
        and header.num_components in (1, 3)
        and header.component_ids != b"RGB"
        and header.adobe_transform in (None, 1)
        and (header.orientation == 1 or recipe.exif == "ignore")
    )


def _is_resized_alike(header: JpegHeader, recipe: Recipe) -> bool:
    """Whether resizing in the one order that a GPU is given is what Pillow does."""
    source, resized, _ = geometry_of(header.width, header.height, recipe)
    return recipe.interpolation != "bicubic" or starts_horizontally(source.width, source.height, resized)
