"""Choose the images that a model is checked with before every run; they are stored encoded and as pixels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import torch
from torch import Tensor

from infer_app.domain import Recipe
from infer_app.errors import ModelError, UsageError
from infer_app.images.decode.decoder import DecodeLimits, decode_image
from infer_app.images.decode.gpu_decoder import suits_gpu
from infer_app.images.read.bad_image import BadImage
from infer_app.images.transform.geometry import MIN_SHRINK
from infer_app.images.transform.to_pixels import reference_transform, transform
from infer_app.models.artifact.artifact import Preprocess
from infer_app.models.build.golden_images import large_image, synthetic_images

MAX_GOLDEN = 8  # images
GOLDEN_LIMITS = DecodeLimits(max_pixels=100_000_000)

_SUFFIX = re.compile(r"\.[a-z0-9]{1,5}")


@dataclass(frozen=True)
class GoldenSet:
    """The golden images of a model, encoded and as pixels."""

    names: tuple[str, ...]  # relative paths in the artifact
    images: tuple[bytes, ...]  # encoded
    pixels: Tensor  # (n, size, size, 3) uint8 RGB, decoded by Pillow
    photos: tuple[bytes, ...]  # the images that were given, not made


def make_golden_set(folder: Path | None, recipe: Recipe, preprocess: Preprocess | None) -> GoldenSet:
    """Take the first images of a folder, or images made in code. Raises ModelError if the recipe fails on one.

    With a recipe that shrinks large JPEGs, at least one image is large enough. With one that decodes on a GPU, at least
    one is decoded there, unless the model's input is too small for any.
    """
    photos = {} if folder is None else _images_in(folder, recipe)
    encoded = dict(photos or synthetic_images())
    if recipe.decode == "scaled" and not any(_is_shrunk(data, recipe) for data in encoded.values()):
        encoded["large.jpg"] = large_image(_large_side(recipe))
    if recipe.decode == "gpu" and not any(suits_gpu(data, recipe, GOLDEN_LIMITS) for data in encoded.values()):
        encoded["gradient.jpg"] = synthetic_images()["gradient.jpg"]
    return GoldenSet(
        names=tuple(f"golden/{number}{_suffix(name)}" for number, name in enumerate(encoded, start=1)),
        images=tuple(encoded.values()),
        pixels=torch.stack([_pixels_of(name, data, recipe, preprocess) for name, data in encoded.items()]),
        photos=tuple(photos.values()),
    )


def load_pixels(data: bytes, recipe: Recipe, preprocess: Preprocess | None = None) -> Tensor:
    """Decode and transform an encoded image as every run does: (size, size, 3) uint8.

    Raises BadImage if that fails.
    """
    return transform(decode_image(data, recipe, GOLDEN_LIMITS), recipe, preprocess)


def _images_in(folder: Path, recipe: Recipe) -> dict[str, bytes]:
    """Read the first images of a folder, by name; skip files that are not images."""
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", "--golden takes a folder of images")
    images: dict[str, bytes] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        if len(images) == MAX_GOLDEN:
            break
        if _is_image(data := path.read_bytes(), recipe):
            images[path.name] = data
    if not images:
        raise ModelError(f"{folder} has no image that can be decoded", "put a few JPEGs or PNGs there")
    return images


def _is_image(data: bytes, recipe: Recipe) -> bool:
    try:
        decode_image(data, recipe, GOLDEN_LIMITS)
    except BadImage:
        return False
    return True


def _is_shrunk(data: bytes, recipe: Recipe) -> bool:
    return decode_image(data, recipe, GOLDEN_LIMITS).scale > 1


def _large_side(recipe: Recipe) -> int:
    """Return the shorter side of about the smallest picture that is shrunk."""
    return ceil((2 * MIN_SHRINK * (recipe.resize or recipe.size) + 1) / (recipe.crop or 1))


def _pixels_of(name: str, data: bytes, recipe: Recipe, preprocess: Preprocess | None) -> Tensor:
    try:
        if recipe.kind == "custom":  # the user's function is its own reference
            return load_pixels(data, recipe, preprocess)
        return torch.from_numpy(reference_transform(decode_image(data, recipe, GOLDEN_LIMITS), recipe))
    except BadImage as bad:
        raise ModelError(f"golden image {name}: {bad.detail}", "check the recipe and the preprocess function") from bad


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if _SUFFIX.fullmatch(suffix) else ""
