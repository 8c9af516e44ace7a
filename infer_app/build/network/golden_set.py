"""Choose the images that a model is checked with before every run; they are stored encoded and as pixels."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import ceil
from pathlib import Path
from types import MappingProxyType

import numpy as np
from PIL import Image

from infer_app.artifact.artifact import Preprocess
from infer_app.artifact.recipe import Recipe
from infer_app.base.errors import ModelError, UsageError
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.geometry import MIN_SHRINK
from infer_app.predict.images.transform.to_pixels import reference_transform, transform

MAX_GOLDEN = 8  # images
FEW_GOLDEN = 2  # of a large input: each worker predicts them before its first chunk, which takes seconds an image
GOLDEN_PIXELS = 100_000_000  # of the largest image that is decoded
_SUFFIX = re.compile(r"\.[a-z0-9]{1,5}")
_ORIENTATION = 274  # EXIF tag
_ROTATED = 6  # shown a quarter turn clockwise
_Pixels = np.ndarray


@cache
def synthetic_images() -> Mapping[str, bytes]:
    """Return four encoded images by file name, for models built without golden photos; their pixels never change.

    Together they have smooth colour, edges and noise; they are JPEG and PNG, grey, EXIF-rotated; wide, tall and small.
    """
    images = {
        "gradient.jpg": _jpeg(Image.fromarray(_gradient(500, 375))),
        "grey-rotated.jpg": _jpeg(Image.fromarray(_shapes(320, 480)).convert("L"), orientation=_ROTATED),
        "shapes.png": _encoded(Image.fromarray(_shapes(640, 427)), "PNG"),
        "noise.jpg": _jpeg(Image.fromarray(_noise(301, 260))),
    }
    return MappingProxyType(images)


@cache
def large_image(shorter_side: int) -> bytes:
    """Return a JPEG of about 4:3 whose odd longer side is not divisible by any scale."""
    shapes = Image.fromarray(_shapes(400, 300))
    return _jpeg(shapes.resize((shorter_side * 4 // 3 | 1, shorter_side), Image.Resampling.BICUBIC))


@cache
def deep_image() -> bytes:
    """Return a grey PNG of 16 bits with values from 0 to 65,535."""
    grey = np.linspace(0, 0xFFFF, 256 * 256).reshape(256, 256)
    return _encoded(Image.fromarray(np.rint(grey).astype(np.uint16)), "PNG")


def _gradient(width: int, height: int) -> _Pixels:
    """Make colours that change slowly, with a few waves in them."""
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    channels = (x, y, 0.5 + 0.5 * np.sin(12 * x + 7 * y))
    return _to_bytes(np.stack(channels, axis=-1))


def _shapes(width: int, height: int) -> _Pixels:
    """Make discs of flat colour on a chequered ground, which have hard edges."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.where(((x // 40 + y // 40) % 2 == 0)[..., None], (0.9, 0.85, 0.7), (0.25, 0.3, 0.45))
    random = np.random.default_rng(7)
    for _ in range(6):
        centre_x, centre_y, radius = random.integers((0, 0, 30), (width, height, 110))
        pixels[(x - centre_x) ** 2 + (y - centre_y) ** 2 < radius**2] = random.random(3)
    return _to_bytes(pixels)


def _noise(width: int, height: int) -> _Pixels:
    """Make a gradient with noise in every pixel, which a resize without antialiasing gets wrong."""
    noise = np.random.default_rng(11).normal(0, 0.15, (height, width, 3))
    return _to_bytes(_gradient(width, height) / 255 + noise)


def _to_bytes(pixels: _Pixels) -> _Pixels:
    """Convert 0-1 to uint8."""
    levels: _Pixels = np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)
    return levels


def _jpeg(image: Image.Image, orientation: int | None = None) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[_ORIENTATION] = orientation
    return _encoded(image, "JPEG", quality=92, exif=exif)


def _encoded(image: Image.Image, file_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


@dataclass(frozen=True)
class GoldenSet:
    """The golden images of a model, encoded and as pixels."""

    names: tuple[str, ...]  # relative paths in the artifact
    images: tuple[bytes, ...]  # encoded
    pixels: np.ndarray  # (n, H, W, 3) uint8, decoded by Pillow
    photos: tuple[bytes, ...]  # the images that were given, not made


def make_golden_set(folder: Path | None, recipe: Recipe, preprocess: Preprocess | None) -> GoldenSet:
    """Take the first images of a folder, or images made in code. Raises ModelError if the recipe fails on one.

    With a recipe that shrinks large JPEGs, at least one image is large enough. With a depth, one has 16 bits.
    """
    photos = {} if folder is None else _images_in(folder, recipe)
    encoded = dict(islice((photos or synthetic_images()).items(), max_golden(recipe)))
    decoded = (decode_image(data, recipe, GOLDEN_PIXELS) for data in encoded.values())
    if recipe.decode == "scaled" and not any(picture.scale > 1 for picture in decoded):
        least = (2 * MIN_SHRINK * max(recipe.resize or recipe.size) + 1) / (recipe.crop or 1)
        encoded["large.jpg"] = large_image(ceil(least))  # about the smallest that is shrunk
    if recipe.depth != "full":
        encoded["deep.png"] = deep_image()
    return GoldenSet(
        names=tuple(f"golden/{number}{_suffix(name)}" for number, name in enumerate(encoded, start=1)),
        images=tuple(encoded.values()),
        pixels=np.stack([_pixels_of(name, data, recipe, preprocess) for name, data in encoded.items()]),
        photos=tuple(photos.values()),
    )


def max_golden(recipe: Recipe) -> int:
    """Return the number of golden images of a model, of large inputs fewer."""
    return FEW_GOLDEN if recipe.size.is_large else MAX_GOLDEN


def load_pixels(data: bytes, recipe: Recipe, preprocess: Preprocess | None = None) -> np.ndarray:
    """Decode and transform an encoded image as every run does: (H, W, 3) uint8.

    Raises BadImage if that fails.
    """
    return transform(decode_image(data, recipe, GOLDEN_PIXELS), recipe, preprocess)


def _images_in(folder: Path, recipe: Recipe) -> dict[str, bytes]:
    """Read the first images of a folder, by name; skip files that are not images."""
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", "golden takes a folder of images")
    images: dict[str, bytes] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        if len(images) == max_golden(recipe):
            break
        with suppress(BadImage):
            decode_image(data := path.read_bytes(), recipe, GOLDEN_PIXELS)
            images[path.name] = data
    if not images:
        raise ModelError(f"{folder} has no image that can be decoded", "put a few JPEGs or PNGs there")
    return images


def _pixels_of(name: str, data: bytes, recipe: Recipe, preprocess: Preprocess | None) -> np.ndarray:
    try:
        if recipe.is_own:  # the user's function is its own reference
            return load_pixels(data, recipe, preprocess)
        return reference_transform(decode_image(data, recipe, GOLDEN_PIXELS), recipe)
    except BadImage as bad:
        raise ModelError(f"golden image {name}: {bad.detail}", "check the recipe and the preprocess function") from bad


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if _SUFFIX.fullmatch(suffix) else ""
