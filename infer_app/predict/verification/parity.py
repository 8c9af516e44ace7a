"""Measure how far a variant's outputs are from the expected ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from infer_app.artifact.activation import class_scores
from infer_app.artifact.artifact import Artifact
from infer_app.artifact.specs import OutputSpec
from infer_app.predict.detection.heads import comparable_parts
from infer_app.predict.detection.object_decoder import split_outputs
from infer_app.predict.verification.object_parity import SAME_OBJECT, compared_score, find_objects, measure_agreement

_SHORTEST = 1e-8  # length of a row, so that none is divided by 0
_SMALLEST_SCALE = 0.01  # of a part of a detector's outputs; lower scores than this are never stored


@dataclass(frozen=True)
class Parity:
    """How near outputs are to the expected ones."""

    num_images: int
    cosine: float  # of the worst image
    label_agreement: float | None  # share of images whose largest output is the same, 0-1; None for detectors
    worst_difference: float  # absolute; of a detector relative to the largest of its part of the outputs
    relative_difference: float  # worst_difference divided by the largest expected output
    worst_score_difference: float | None = None  # of the expected label or objects, 0-1; None without classes
    p99_score_difference: float | None = None  # its 99th percentile
    num_objects: int | None = None  # expected from COMPARED_SCORE on; None unless the model detects objects
    object_agreement: float | None = None  # share that is kept, or 1 less the share that is new; None: no objects
    best_kept: float | None = None  # share of the golden images' best objects; None: too few, or not compared

    def to_json(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Parity:
        return cls(**{"label_agreement": None, **values})


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are not finite
def measure_parity(
    expected: np.ndarray, actual: np.ndarray, artifact: Artifact | None = None, min_iou: float = SAME_OBJECT
) -> Parity:
    """Compare (n, D) outputs, and the scores and objects of the `artifact` if it is a classifier or a detector.

    NaN in either gives NaN figures, which pass no tolerance. Objects are the same if they overlap by `min_iou`.
    """
    output = artifact.manifest.output if artifact else None
    theirs, ours, scale = comparable(expected, actual, output)
    worst = float(np.abs(ours - theirs).max())
    figures: dict[str, Any] = {}
    if artifact is not None and output is not None and output.detection is not None:
        objects = find_objects(artifact, expected), find_objects(artifact, actual)
        found = measure_agreement(*objects, compared_score(output.detection), min_iou)
        figures = {"num_objects": found.num_objects, "object_agreement": found.agreement}
        differences = np.array(found.score_differences)
    else:
        figures["label_agreement"] = float((theirs.argmax(1) == ours.argmax(1)).mean())
        differences = _score_differences(theirs, ours, output)
    if len(differences):
        sizes = np.abs(differences.astype(np.float64))
        figures["worst_score_difference"] = float(sizes.max())
        figures["p99_score_difference"] = float(np.quantile(sizes, 0.99))
    return Parity(
        num_images=expected.shape[0],
        cosine=float(cosines(theirs, ours).min()),
        worst_difference=worst,
        relative_difference=worst / max(scale, 1e-12),
        **{"label_agreement": None} | figures,
    )


@np.errstate(over="ignore", invalid="ignore")
def comparable(
    expected: np.ndarray, actual: np.ndarray, output: OutputSpec | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the numbers to compare, and what their difference is relative to.

    A detector's rows mix pixels and scores, so each part is divided by the largest number expected in it.
    """
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    if output is None or output.detection is None:
        return expected, actual, float(np.abs(expected).max())
    detection = output.detection
    theirs, ours = (
        comparable_parts(split_outputs(rows, detection.shapes), detection, output.activation)
        for rows in (expected, actual)
    )
    scales = [max(np.abs(part).max(), _SMALLEST_SCALE) for part in theirs]
    first, second = (
        np.concatenate([part / scale for part, scale in zip(parts, scales, strict=True)], 1) for parts in (theirs, ours)
    )
    return first, second, 1.0


@np.errstate(over="ignore", invalid="ignore")
def cosines(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Return the cosine of each row, (n,); 1 for rows of a single number, which have no direction."""
    if expected.shape[1] == 1:
        return np.where(np.isfinite(actual), 1.0, np.nan).ravel()
    a, b = expected.astype(np.float64), actual.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1).clip(_SHORTEST) * np.linalg.norm(b, axis=1).clip(_SHORTEST)
    # No direction either: a detector that finds nothing.
    return np.where(a.any(1) | b.any(1), (a * b).sum(1) / lengths, 1.0)


def _score_differences(expected: np.ndarray, actual: np.ndarray, output: OutputSpec | None) -> np.ndarray:
    """Return the difference of each image's expected label's score, (n,); none unless it is a classification."""
    if output is None or output.kind != "classification":
        return np.empty(0)
    best = expected.argmax(1)[:, None]
    theirs, ours = (np.take_along_axis(class_scores(rows, output.activation), best, 1) for rows in (expected, actual))
    differences: np.ndarray = ours - theirs
    return differences.ravel()
