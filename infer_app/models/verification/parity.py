"""Measure how far a variant's outputs are from the expected ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from infer_app.models.artifact.activation import class_scores
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.specs import OutputSpec
from infer_app.models.detection.heads import comparable_parts
from infer_app.models.detection.object_decoder import split_outputs
from infer_app.models.verification.object_parity import SAME_OBJECT, compared_score, find_objects, measure_agreement

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


def measure_parity(
    expected: Tensor, actual: Tensor, artifact: Artifact | None = None, min_iou: float = SAME_OBJECT
) -> Parity:
    """Compare (n, D) outputs, and the scores and objects of the `artifact` if it is a classifier or a detector.

    NaN in either gives NaN figures, which pass no tolerance. Objects are the same if they overlap by `min_iou`.
    """
    output = artifact.manifest.output if artifact else None
    theirs, ours, scale = comparable(expected, actual, output)
    worst = (ours - theirs).abs().max().item()
    figures: dict[str, Any] = {}
    if artifact is not None and output is not None and output.detection is not None:
        objects = find_objects(artifact, expected), find_objects(artifact, actual)
        found = measure_agreement(*objects, compared_score(output.detection), min_iou)
        figures = {"num_objects": found.num_objects, "object_agreement": found.agreement}
        differences = torch.tensor(found.score_differences)
    else:
        figures["label_agreement"] = (theirs.argmax(1) == ours.argmax(1)).double().mean().item()
        differences = _score_differences(theirs, ours, output)
    if len(differences):
        sizes = differences.double().abs()
        figures["worst_score_difference"] = sizes.max().item()
        figures["p99_score_difference"] = sizes.quantile(0.99).item()
    return Parity(
        num_images=expected.shape[0],
        cosine=cosines(theirs, ours).min().item(),
        worst_difference=worst,
        relative_difference=worst / max(scale, 1e-12),
        **{"label_agreement": None} | figures,
    )


def comparable(expected: Tensor, actual: Tensor, output: OutputSpec | None) -> tuple[Tensor, Tensor, float]:
    """Return the numbers to compare, and what their difference is relative to.

    A detector's rows mix pixels and scores, so each part is divided by the largest number expected in it.
    """
    expected, actual = expected.double(), actual.double()
    if output is None or output.detection is None:
        return expected, actual, expected.abs().max().item()
    detection = output.detection
    theirs, ours = (
        comparable_parts(split_outputs(rows, detection.shapes), detection, output.activation)
        for rows in (expected, actual)
    )
    scales = [part.abs().max().clamp_min(_SMALLEST_SCALE) for part in theirs]
    first, second = (
        torch.cat([part / scale for part, scale in zip(parts, scales, strict=True)], 1) for parts in (theirs, ours)
    )
    return first, second, 1.0


def cosines(expected: Tensor, actual: Tensor) -> Tensor:
    """Return the cosine of each row, (n,); 1 for rows of a single number, which have no direction."""
    if expected.shape[1] == 1:
        return torch.where(actual.isfinite(), 1.0, torch.nan).flatten()
    cosines = torch.nn.functional.cosine_similarity(expected.double(), actual.double(), dim=1)
    return cosines.where(expected.any(1) | actual.any(1), 1.0)  # no direction either: a detector that finds nothing


def _score_differences(expected: Tensor, actual: Tensor, output: OutputSpec | None) -> Tensor:
    """Return the difference of each image's expected label's score, (n,); none unless it is a classification."""
    if output is None or output.kind != "classification":
        return torch.empty(0)
    best = expected.argmax(1, keepdim=True)
    theirs, ours = (class_scores(rows, output.activation).gather(1, best) for rows in (expected, actual))
    return (ours - theirs).flatten()
