"""Decode images as the tests of decoders do: up to a million pixels, for a small input."""

import warnings
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageOps

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from infer_app.predict.images.decode.decoder import decode_image, has_turbo
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.geometry import Picture

RECIPE = Recipe("stretch", size=8)
IGNORE = Recipe("stretch", size=8, exif="ignore")
LIMITS = 10**6
needs_turbo = pytest.mark.skipif(not has_turbo(), reason="needs libturbojpeg: apt-get install libturbojpeg0")


def decode(data: bytes, recipe: Recipe = RECIPE, limits: int = LIMITS) -> Picture:
    return decode_image(data, recipe, limits)


def decoded(data: bytes, recipe: Recipe = RECIPE) -> np.ndarray:
    return decode(data, recipe).rgb


def outcome(data: bytes, limits: int = LIMITS) -> Reason | None:
    """Why an image is refused; None: it has pixels."""
    try:
        decode(data, limits=limits)
    except BadImage as refused:
        return refused.reason
    return None


def by_pillow(data: bytes, scale: int = 1) -> np.ndarray:
    """The upright pixels, of a JPEG at this fraction of its size."""
    with warnings.catch_warnings(action="ignore"), Image.open(BytesIO(data)) as image:
        if scale > 1:
            image.draft(image.mode, (image.width // scale, image.height // scale))
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
