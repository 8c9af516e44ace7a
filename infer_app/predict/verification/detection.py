"""The objects that a detector finds in an image."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.specs import DetectionSpec, OutputSpec
from infer_app.base.errors import ModelChanged, ModelError, PixelsChanged
from infer_app.base.model_variants import variant_of
from infer_app.predict.detection.heads import FAMILIES, comparable_parts
from infer_app.predict.detection.object_decoder import ObjectDecoder, split_outputs
from infer_app.predict.verification.object_parity import (
    Objects,
    compared_score,
    count_found,
    find_missing,
    find_objects,
    measure_agreement,
)
from infer_app.predict.verification.parity import Parity
from infer_app.predict.verification.share import Share
from infer_app.predict.verification.vectors import ComparedRows, Decode, Vectors, failed

OBJECT_SCORE = 0.01  # largest difference of an object's score in fp32, for the same pixels
BEST_OBJECTS = 10  # of an image, whose boxes are compared whatever their scores
FEWEST_BEST = 5  # of all golden images; of fewer, one whose score is at the network's own minimum decides
# How much less of them than at the build may be found, in fp32 and in another dtype: close scores may swap.
BEST_LOST, BEST_LOST_ROUNDED = 0.2, 0.5
LOWEST_SCORE = 1e-3  # of these; rows with less fill up the outputs
_SMALLEST_SCALE = 0.01  # of a part of a detector's outputs; lower scores than this are never stored


class Detection(Vectors):
    """A kind of output that is read by a head."""

    def open_decoder(self, artifact: Artifact) -> Decode:
        manifest = artifact.manifest
        return ObjectDecoder(manifest.output, manifest.recipe, artifact.labels, artifact.head()).decode

    def classes(self, rows: np.ndarray, spec: OutputSpec) -> np.ndarray | None:
        detection = _detection(spec)
        if not detection.takes_activation:
            return None
        return FAMILIES[detection.head].classes(split_outputs(rows, detection.shapes))

    def comparable(self, rows: ComparedRows) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the numbers to compare.

        A detector's rows mix pixels and scores, so each part is divided by the largest number expected in it.
        """
        spec = rows.artifact.manifest.output
        detection = _detection(spec)
        outputs = (split_outputs(one.astype(np.float64), detection.shapes) for one in (rows.expected, rows.actual))
        theirs, ours = (comparable_parts(one, detection, spec.activation) for one in outputs)
        scales = [max(np.abs(part).max(), _SMALLEST_SCALE) for part in theirs]
        first, second = (
            np.concatenate([part / scale for part, scale in zip(parts, scales, strict=True)], 1)
            for parts in (theirs, ours)
        )
        return first, second, 1.0

    def compare(self, rows: ComparedRows, min_iou: float) -> tuple[dict[str, Any], np.ndarray]:
        theirs, ours = (find_objects(rows.artifact, outputs) for outputs in (rows.expected, rows.actual))
        return measure_agreement(theirs, ours, compared_score(_detection(rows.artifact.manifest.output)), min_iou)

    def check_model(self, rows: ComparedRows, variant: str) -> None:
        is_exact = variant_of(variant).is_exact
        if is_exact:
            _check_objects(rows, OBJECT_SCORE, ModelChanged, is_exact=True)
        if compares_best_objects(rows.artifact.manifest.output):
            _check_best_objects(rows, variant, is_exact=is_exact)

    def check_pixels(self, rows: ComparedRows, margin: float, largest: float) -> None:
        _check_objects(rows, margin, PixelsChanged)

    def agreement(self, manifest: Manifest, parity: Parity) -> float:
        """Return the share of objects that is kept; images without any object tell nothing, and give 0."""
        return parity.object_agreement or 0.0

    def share(self, parity: Parity) -> Share | None:
        num_objects = parity.num_objects or 0
        if parity.object_agreement is None:
            return None
        return Share(parity.object_agreement, num_objects, "object", min(num_objects, parity.num_images))

    def describe_kept(self, manifest: Manifest, parity: Parity) -> str:
        return super().describe_kept(manifest, parity) if self.share(parity) else "no objects were found"


def _detection(spec: OutputSpec) -> DetectionSpec:
    assert spec.detection is not None
    return spec.detection


def compares_best_objects(output: OutputSpec) -> bool:
    """Return whether the order of the outputs decides nothing; of other detectors all numbers are compared in place."""
    return output.detection is not None and not (output.detection.suppresses or output.detection.is_own)


def count_best_objects(rows: ComparedRows, *, is_exact: bool) -> tuple[int, int]:
    """Return how many of the best objects are found again, whatever their scores, and how many there are.

    Raises ModelChanged for outputs without a finite value.
    """
    num_found = num_best = 0
    for _, theirs, ours in _object_pairs(rows, ModelChanged, LOWEST_SCORE):
        best = theirs[:BEST_OBJECTS]
        num_best += len(best)
        num_found += count_found(best, ours, OBJECT_SCORE, is_exact=is_exact)
    return num_found, num_best


def _check_objects(rows: ComparedRows, margin: float, error: type[ModelError], *, is_exact: bool = False) -> None:
    """Raise `error` for an object that is expected and not found, or found and not expected."""
    detection, labels = _detection(rows.artifact.manifest.output), rows.artifact.labels
    for number, theirs, ours in _object_pairs(rows, error):
        for first, second, what in ((theirs, ours, "is not found any more"), (ours, theirs, "was not found at build")):
            found = find_missing(first, second, detection, margin, is_exact=is_exact)
            if found is not None:
                index = int(found[5])
                label = labels[index] if index < len(labels) else str(index)
                raise failed(f"an object {label!r} with score {found[4]:.2f} {what}", error, number)


def _object_pairs(
    rows: ComparedRows, error: type[ModelError], min_score: float = 1.0
) -> Iterator[tuple[int, Objects, Objects]]:
    """Yield the number of each image and its objects in both outputs. Raises `error` for outputs that have none."""
    found = (find_objects(rows.artifact, outputs, min_score) for outputs in (rows.expected, rows.actual))
    for number, theirs, ours in zip(rows.numbers, *found, strict=True):
        if theirs is None or ours is None:
            raise failed("outputs are not finite, or the head fails on them", error, number)
        yield number, theirs, ours


def _check_best_objects(rows: ComparedRows, variant: str, *, is_exact: bool) -> None:
    """Raise ModelChanged if fewer of the golden images' best objects are found again than at the build.

    Golden images without any object still have boxes of low scores, which tell other coordinates or classes. Where
    scores are that close, rounding may choose another box, so a few may be missing. A variant of which the build
    measured no share is compared in fp32 only.
    """
    found, num_best = count_best_objects(rows, is_exact=is_exact)
    parity = rows.artifact.manifest.variants.get(variant, {}).get("parity", {})
    kept = parity.get("best_kept", 1.0 if is_exact else 0.0)
    if num_best >= FEWEST_BEST and found < (kept - (BEST_LOST if is_exact else BEST_LOST_ROUNDED)) * num_best:
        what = "boxes, scores and classes" if is_exact else "boxes"
        raise failed(f"of the golden images' {num_best} best objects {found} have the same {what}", ModelChanged)
