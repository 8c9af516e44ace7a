"""A label of an image with its score, or several."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from infer_app.artifact.activation import check_scores, class_scores
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import Output
from infer_app.base.errors import PixelsChanged
from infer_app.predict.detection.object_decoder import finite_rows
from infer_app.predict.verification.parity import Parity
from infer_app.predict.verification.share import Share
from infer_app.predict.verification.vectors import ComparedRows, Vectors, failed


class Classification(Vectors):
    """A kind of output that has a score for each class."""

    min_agreement = 0.99

    def decode(self, raw: np.ndarray, spec: OutputSpec, labels: Sequence[str] = ()) -> list[Output | None]:
        """Return one Output for each row.

        Without labels a class is named by its index; a score that rounding has moved outside 0 to 1 is clamped. Raises
        ValueError for another score that is not between 0 and 1.
        """
        check_scores(raw, spec.activation)
        scores = class_scores(raw, spec.activation)
        best = _best_classes(scores, 1 if spec.is_multi_label else min(spec.top_k, raw.shape[1]))
        values = np.take_along_axis(scores, best, 1).clip(0, 1)
        rows = zip(finite_rows(raw), values.tolist(), best.tolist(), scores, strict=True)
        outputs: list[Output | None] = []
        for finite, values, indices, row in rows:
            if not finite:
                outputs.append(None)
                continue
            top = {"top": _entries(indices, values, labels)}
            details = _over_threshold(row, spec, labels) if spec.is_multi_label else top
            outputs.append(Output(label=_label(indices[0], labels), score=values[0], details=json.dumps(details)))
        return outputs

    def classes(self, rows: np.ndarray, spec: OutputSpec) -> np.ndarray:
        return rows

    def compare(self, rows: ComparedRows, min_iou: float) -> tuple[dict[str, Any], np.ndarray]:
        activation, best = rows.artifact.manifest.output.activation, rows.expected.argmax(1)[:, None]
        scores = (class_scores(outputs.astype(np.float64), activation) for outputs in (rows.expected, rows.actual))
        theirs, ours = (np.take_along_axis(of_classes, best, 1) for of_classes in scores)
        return super().compare(rows, min_iou)[0], (ours - theirs).ravel()

    def check_pixels(self, rows: ComparedRows, margin: float, largest: float) -> None:
        activation, labels = rows.artifact.manifest.output.activation, rows.artifact.labels
        best = (class_scores(outputs, activation).argmax(1).tolist() for outputs in (rows.expected, rows.actual))
        for number, raw, found, *pair in zip(rows.numbers, rows.expected, rows.actual, *best, strict=True):
            theirs, ours = (_label(index, labels) for index in pair)
            if not np.isfinite([raw, found]).all():
                raise failed("outputs are not finite", PixelsChanged, number)
            if theirs != ours and raw.max() - raw[found.argmax()] > margin * largest:
                raise failed(f"labelled {ours!r} instead of {theirs!r}", PixelsChanged, number)

    def agreement(self, manifest: Manifest, parity: Parity) -> float:
        return parity.label_agreement or 0.0

    def share(self, parity: Parity) -> Share | None:
        return Share(parity.label_agreement or 0.0, parity.num_images, "label")


def _best_classes(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the highest scores of each row, the best first and of equal ones the first: (n, count)."""
    found = np.sort(np.argpartition(-scores, count - 1, axis=1)[:, :count], 1)
    order = np.argsort(-np.take_along_axis(scores, found, 1), axis=1, kind="stable")
    best: np.ndarray = np.take_along_axis(found, order, 1)
    return best


def _over_threshold(scores: np.ndarray, spec: OutputSpec, labels: Sequence[str]) -> dict[str, object]:
    over = np.flatnonzero(scores >= spec.threshold)
    over = over[np.argsort(-scores[over], kind="stable")]
    return {"labels": _entries(over.tolist(), scores[over].clip(0, 1).tolist(), labels), "threshold": spec.threshold}


def _entries(indices: list[int], scores: list[float], labels: Sequence[str]) -> list[dict[str, object]]:
    return [
        {"label": _label(index, labels), "index": index, "score": score}
        for index, score in zip(indices, scores, strict=True)
    ]


def _label(index: int, labels: Sequence[str]) -> str:
    return labels[index] if labels else str(index)
