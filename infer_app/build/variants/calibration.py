"""Load the user's own images, with which int8 is calibrated and evaluated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

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
MAX_IMAGES = 2_000
MAX_BYTES = 1 << 30  # of their pixels: large inputs are fewer
MAX_FITTING = 200  # calibrate, and as many choose: the others judge
FITTED_FILE = "fitted.txt"  # of int8: the `fitted` of CalibrationImages
_REFERENCE_BATCH = 8  # images
T = TypeVar("T")


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


class DecodedImage(NamedTuple):
    """The checksum of a file, and its pixels."""

    sha256: str
    pixels: np.ndarray  # (H, W, 3) uint8


@dataclass(frozen=True)
class ComparedImages:
    """Images and what the source makes of them."""

    artifact: Artifact
    pixels: np.ndarray  # (n, H, W, 3) uint8

    @classmethod
    def of(cls, artifact: Artifact, images: Sequence[DecodedImage]) -> ComparedImages:
        return cls(artifact, np.stack([one.pixels for one in images]))

    @cached_property
    def expected(self) -> np.ndarray:
        """Compute the source's outputs, (n, D) float32, once they are asked for. It loads torch."""
        from infer_app.predict.runtimes.torchscript import source_rows

        predict = partial(source_rows, load_source(self.artifact), self.artifact.manifest.input_spec)
        return predict_all(predict, self.pixels, _REFERENCE_BATCH)


@dataclass(frozen=True)
class CalibrationImages:
    """The images that calibrate, those that choose among attempts, and those that judge: no image does two of these."""

    calibration: np.ndarray  # (n, H, W, 3) uint8
    choosing: ComparedImages
    judging: ComparedImages
    fitted: tuple[str, ...]  # sha256 of the files of the first two


def load_calibration(artifact: Artifact, calibration: Calibration) -> CalibrationImages:
    """Load the pixels of the folder's images, of files with the same bytes once.

    Raises UsageError if fewer than MIN_IMAGES can be decoded.
    """
    decoded = decode_images(artifact, calibration.files(artifact.manifest.recipe.size), Path.read_bytes)
    images = list({one.sha256: one for one in decoded}.values())
    if len(images) < MIN_IMAGES:
        raise UsageError(
            f"{calibration.folder} has {counted(len(images), 'different image')} that can be decoded, "
            f"calibration needs {MIN_IMAGES}",
            "use a few hundred images like those of a daily run",
        )
    step = max(3, -(-len(images) // MAX_FITTING))
    calibrating, choosing = images[::step], images[1::step]
    return CalibrationImages(
        np.stack([one.pixels for one in calibrating]),
        ComparedImages.of(artifact, choosing),
        ComparedImages.of(artifact, [one for number, one in enumerate(images) if number % step > 1]),
        tuple(one.sha256 for one in (*calibrating, *choosing)),
    )


def decode_images(artifact: Artifact, files: Iterable[T], read: Callable[[T], bytes]) -> list[DecodedImage]:
    """Return what can be read and decoded of the files."""
    recipe, preprocess = artifact.manifest.recipe, artifact.preprocess()
    images = []
    for file in files:
        with suppress(BadImage, OSError):
            data = read(file)
            images.append(DecodedImage(hashlib.sha256(data).hexdigest(), load_pixels(data, recipe, preprocess)))
    return images


def judge_on(artifact: Artifact, model: FixedBatch, images: ComparedImages, min_iou: float = SAME_OBJECT) -> Parity:
    """Compare a model's outputs with the source's, on images that it was not fitted to."""
    actual = predict_all(model, images.pixels, model.batch_size)
    return measure_parity(images.expected, actual, artifact, min_iou)
