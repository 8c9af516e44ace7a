"""Define the input of every strategy: the same files, and two readers from a file to the model's pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageOps

from infer_app.artifact.artifact import Artifact
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import reference_transform, transform

if TYPE_CHECKING:
    from infer_app.base.settings.load import LoadedSettings

BATCH_SIZE = 16  # images, in every strategy

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (H, W, 3), or (n, H, W, 3)
Floats = np.ndarray[Any, np.dtype[np.float32]]  # (3, H, W), or (n, 3, H, W), normalised


@dataclass(frozen=True)
class PixelReaders:
    """Two ways to read a file to the model's input; small enough to be pickled for a worker."""

    artifact: Artifact
    read_limits: ReadLimits
    max_pixels: int

    def with_pillow(self, path: str) -> Pixels:
        """Return the model's pixels as most scripts read them."""
        recipe = self.artifact.manifest.recipe
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image) if recipe.exif == "apply" else image
            rgb = np.array(upright.convert("RGB"))
        if recipe.kind == "custom":
            return self._transform(rgb)
        return reference_transform(rgb, recipe)

    def with_turbo(self, path: str) -> Pixels:
        """Return the model's pixels as a run reads them: libjpeg-turbo, then a resize of uint8.

        They are within 2 levels of those of `with_pillow`.
        """
        return self.pixels_of(read_image(path, self.read_limits).data)

    def pixels_of(self, data: bytes) -> Pixels:
        """Return the model's pixels of an encoded image, as a run decodes it."""
        return self._transform(decode_image(data, self.artifact.manifest.recipe, self.max_pixels))

    def normalised(self, pixels: Pixels) -> Floats:
        """Normalise the pixels of one image or of a batch, for a model that doesn't do so itself."""
        spec = self.artifact.manifest.input_spec
        mean, std = np.array(spec.mean, np.float32), np.array(spec.std, np.float32)
        floats: Floats = (pixels.astype(np.float32) / np.float32(255) - mean) / std
        return np.moveaxis(floats, -1, -3)

    @cached_property
    def _preprocess(self) -> Any:
        return self.artifact.preprocess()

    def _transform(self, picture: Picture | Pixels) -> Pixels:
        return transform(picture, self.artifact.manifest.recipe, self._preprocess)


@dataclass(frozen=True)
class Workload:
    """The files, their readers, and how many processes or threads may be used."""

    paths: Sequence[str]
    readers: PixelReaders
    num_workers: int
    loaded: LoadedSettings

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.readers.artifact.manifest.recipe.size.shape

    @property
    def timeout_s(self) -> float:
        return self.loaded.images.timeout_s

    def batches(self) -> Iterator[Sequence[str]]:
        """Yield BATCH_SIZE paths at a time; the last batch may be shorter."""
        return (self.paths[first : first + BATCH_SIZE] for first in range(0, len(self.paths), BATCH_SIZE))
