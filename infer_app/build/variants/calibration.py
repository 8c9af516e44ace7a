"""Load the user's own images, with which int8 is calibrated and evaluated."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.base.errors import UsageError
from infer_app.base.printing import counted
from infer_app.base.size import Size
from infer_app.build.network.golden_set import load_pixels
from infer_app.build.network.source_kinds import load_source
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.verification.agreement import measure_parity
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.object_parity import SAME_OBJECT
from infer_app.predict.verification.parity import Parity

MIN_IMAGES = 20
MAX_IMAGES = 600
MAX_BYTES = 1 << 30  # of their pixels: large inputs are fewer
MAX_CALIBRATING = 200  # the others evaluate: what is kept of 400 images is known to half a percent
_REFERENCE_BATCH = 8  # images


@dataclass(frozen=True)
class Calibration:
    """A folder of representative images, and the share of labels or objects to keep, 0-1; None: by the output."""

    folder: Path
    min_agreement: float | None = None

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise UsageError(f"no folder {self.folder}", "--calibrate takes a folder of images like those to come")

    def files(self, size: Size) -> list[Path]:
        """Return up to MAX_IMAGES files, evenly spaced by name, so that a folder sorted by class gives all classes.

        There are fewer if their pixels, of this size, would take more than MAX_BYTES.
        """
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        count = min(len(found), MAX_IMAGES, max(MIN_IMAGES, MAX_BYTES // size.num_bytes))
        return [found[number * len(found) // count] for number in range(count)]


@dataclass(frozen=True)
class CalibrationImages:
    """The images that calibrate, and those that evaluate: no image does both."""

    calibration: np.ndarray  # (n, H, W, 3) uint8
    evaluation: np.ndarray  # (n, H, W, 3) uint8
    expected: np.ndarray  # (n, D) float32: the source's outputs for `evaluation`


def load_calibration(artifact: Artifact, calibration: Calibration) -> CalibrationImages:
    """Load the pixels of the folder's images, and compute the source's outputs for those that evaluate.

    Raises UsageError if fewer than MIN_IMAGES can be decoded.
    """
    manifest, preprocess = artifact.manifest, artifact.preprocess()
    pixels = []
    for path in calibration.files(manifest.recipe.size):
        with suppress(BadImage, OSError):
            pixels.append(load_pixels(path.read_bytes(), manifest.recipe, preprocess))
    if len(pixels) < MIN_IMAGES:
        raise UsageError(
            f"{calibration.folder} has {counted(len(pixels), 'image')} that can be decoded, "
            f"calibration needs {MIN_IMAGES}",
            "use a few hundred images like those of a daily run",
        )
    step = max(2, -(-len(pixels) // MAX_CALIBRATING))
    evaluation = np.stack([one for number, one in enumerate(pixels) if number % step])
    return CalibrationImages(np.stack(pixels[::step]), evaluation, expected_outputs(artifact, evaluation))


def expected_outputs(artifact: Artifact, pixels: np.ndarray) -> np.ndarray:
    """Return the source's outputs for (n, H, W, 3) uint8: (n, D) float32. It loads torch."""
    from infer_app.predict.runtimes.torchscript import source_rows

    source, spec = load_source(artifact), artifact.manifest.input_spec
    return predict_all(partial(source_rows, source, spec), pixels, _REFERENCE_BATCH)


def judge_on(artifact: Artifact, model: FixedBatch, images: CalibrationImages, min_iou: float = SAME_OBJECT) -> Parity:
    """Compare a model's outputs with the source's, on images that it was not fitted to."""
    actual = predict_all(model, images.evaluation, model.batch_size)
    return measure_parity(images.expected, actual, artifact, min_iou)
