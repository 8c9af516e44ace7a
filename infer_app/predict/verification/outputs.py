"""Decode the rows of a model's output tensor into Outputs."""

import json
from collections.abc import Sequence

import numpy as np

from infer_app.artifact.activation import check_scores, class_scores
from infer_app.artifact.artifact import Artifact
from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import Output
from infer_app.base.size import Size
from infer_app.predict.detection.object_decoder import ObjectDecoder, finite_rows


class OutputDecoder:
    """Decodes the rows of one model, of whatever kind its output is."""

    def __init__(self, artifact: Artifact) -> None:
        manifest = artifact.manifest
        self._spec, self._labels = manifest.output, artifact.labels
        self._objects = None
        if manifest.output.detection:
            self._objects = ObjectDecoder(manifest.output, manifest.recipe, artifact.labels, artifact.head())

    def __call__(self, raw: np.ndarray, pictures: Sequence[Size | None]) -> list[Output | None]:
        """Return one Output for each row of `raw`, (n, D); None for a row with a NaN or an infinity.

        `pictures` are the sizes of the upright pictures, which only a detector needs. Raises ValueError for a score
        that is not between 0 and 1, and what the user's own head raises.
        """
        if self._objects is None:
            if self._spec.kind == "classification":
                check_scores(raw, self._spec.activation)
            return decode_outputs(raw, self._spec, self._labels)
        sizes = [picture for picture in pictures if picture is not None]
        assert len(sizes) == len(raw)
        return self._objects.decode(raw, sizes)


def decode_outputs(raw: np.ndarray, spec: OutputSpec, labels: Sequence[str] = ()) -> list[Output | None]:
    """Return one Output for each row of `raw`, (n, D) float32; None for a row with a NaN or an infinity.

    Without labels a class is named by its index; a score that rounding has moved outside 0 to 1 is clamped. Operations
    are on the whole batch; only values that are kept become Python objects.
    """
    if raw.shape[0] == 0:
        return []
    if spec.kind == "classification":
        return _classification(raw, spec, labels)
    if spec.kind == "regression":
        return _regression(raw)
    return _vectors(raw, spec)


def _classification(raw: np.ndarray, spec: OutputSpec, labels: Sequence[str]) -> list[Output | None]:
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


def _regression(raw: np.ndarray) -> list[Output | None]:
    rows = zip(finite_rows(raw), raw.tolist(), strict=True)
    return [_numbers(values) if finite else None for finite, values in rows]


def _numbers(values: list[float]) -> Output:
    if len(values) == 1:
        return Output(score=values[0])
    return Output(details=json.dumps({"values": values}))


def _vectors(raw: np.ndarray, spec: OutputSpec) -> list[Output | None]:
    with np.errstate(over="ignore"):  # float16 overflows to infinity
        vectors = raw.astype("<f2" if spec.vector_dtype == "float16" else "<f4", order="C", copy=False)
    details = json.dumps({"shape": list(spec.shape or (raw.shape[1],))} if spec.kind == "raw" else {})
    rows = zip(finite_rows(vectors), vectors, strict=True)
    return [
        Output(details=details, vector=row.tobytes(), vector_dtype=spec.vector_dtype, vector_dim=raw.shape[1])
        if finite
        else None
        for finite, row in rows
    ]
