"""The user's own images, with which int8 is made and judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from infer_app.errors import UsageError
from infer_app.images.read.bad_image import BadImage
from infer_app.models.artifact.artifact import Artifact, Preprocess
from infer_app.models.runtimes.fixed_batch import as_rows
from infer_app.models.verification.golden import predict_all
from infer_app.models.build.golden_set import load_pixels
from infer_app.models.runtimes.torchscript import load_torchscript, run_source
from infer_app.domain import Recipe

MIN_IMAGES = 20
MAX_IMAGES = 400  # half of them calibrate
_REFERENCE_BATCH = 8  # images


@dataclass(frozen=True)
class Calibration:
    """A folder of images like those to come, and the share of their labels that must stay as they are, 0-1."""

    folder: Path
    min_agreement: float = 0.97

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise UsageError(f"no folder {self.folder}", "--calibrate takes a folder of images like those to come")
        if not 0 < self.min_agreement <= 1:
            raise UsageError(f"an agreement of {self.min_agreement} is not a share", "for example 0.97, or 97%")

    def files(self) -> list[Path]:
        """Up to MAX_IMAGES, evenly spaced by name, so that a folder sorted by class gives of all classes."""
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return found[:: max(1, len(found) // MAX_IMAGES)][:MAX_IMAGES]


@dataclass(frozen=True)
class CalibrationImages:
    """Every second image calibrates, the others judge: no image judges what was fitted to it."""

    fitted: Tensor  # (n, size, size, 3) uint8 RGB
    judging: Tensor  # the same
    expected: Tensor  # (n, D) float32: what the source gives for the judging ones


def load_calibration(artifact: Artifact, calibration: Calibration) -> CalibrationImages:
    """The pixels of the folder's images, and what the source gives for those that judge.

    Raises UsageError where fewer than MIN_IMAGES can be decoded.
    """
    manifest, preprocess = artifact.manifest, artifact.preprocess()
    files = calibration.files()
    pixels = [found for path in files if (found := _pixels(path, manifest.recipe, preprocess)) is not None]
    if len(pixels) < MIN_IMAGES:
        raise UsageError(
            f"{calibration.folder} has {len(pixels)} images that can be decoded, calibration needs {MIN_IMAGES}",
            "some hundred of the images that the model meets every night serve best",
        )
    judging = torch.stack(pixels[1::2])
    source = load_torchscript(artifact.read(manifest.model_file))
    expected = predict_all(
        lambda batch: as_rows(run_source(source, manifest.input_spec, batch)), judging, _REFERENCE_BATCH
    )
    return CalibrationImages(torch.stack(pixels[::2]), judging, expected)


def _pixels(path: Path, recipe: Recipe, preprocess: Preprocess | None) -> Tensor | None:
    try:
        return load_pixels(path.read_bytes(), recipe, preprocess)
    except (BadImage, OSError):
        return None
