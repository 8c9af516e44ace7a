"""Compares a stored row with what its network gives now."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from infer_app.database.figures.similarity import cosine, mean_difference, numbers_of
from infer_app.database.queries.image_history import ModelHistory
from infer_app.domain import Broken, CropOutput, DetectedObject, Output, Prediction
from infer_app.models.artifact.manifest import GOLDEN_OUTPUTS_FILE
from infer_app.models.detection.boxes import match_objects
from infer_app.packages import recorded_packages
from infer_app.replay.predict_again import SAME_BOX, PlanAgain, reason_of

SAME_SCORE = 0.01  # largest difference of a score in fp32
SAME_VECTOR = 0.999  # cosine; pixels of another machine may differ by two levels


class Changed(StrEnum):
    """What is no longer as it was when a row was written."""

    PICTURE = "picture"  # the bytes of its file
    NETWORK = "network"  # the files of the model, or what it gives for its golden images
    DECODER = "decoder"  # the pixels of golden images
    ANSWER = "answer"  # the same network gives another one for the same bytes


class RowComparison:
    """Compares rows of one variant with what it gives now."""

    def __init__(self, plan: PlanAgain, variant: str) -> None:
        self._variant, artifact = plan.variant, plan.artifact
        tolerance = artifact.manifest.tolerance_of(variant)
        self._detection = artifact.manifest.output.detection
        self._margin = max(SAME_SCORE, tolerance.relative)
        self._sha256 = artifact.manifest.variant_sha256(plan.variant)
        golden = np.load(io.BytesIO(artifact.read(GOLDEN_OUTPUTS_FILE)), allow_pickle=False)
        self._scale = float(np.abs(golden).max())  # of the numbers of a regression
        self._cosine = min(SAME_VECTOR, tolerance.cosine)

    def find(self, stored: ModelHistory, now: Prediction | Broken) -> tuple[Changed, str] | None:
        """Return what differs and how, or None."""
        row = stored.prediction or {}
        then, bytes_now = row["sha256"], now.file.sha256
        if then is not None and bytes_now is not None and bytes_now != then:
            return Changed.PICTURE, "its file was replaced since it was predicted"
        detail = f"rejected now, {reason_of(now)}" if isinstance(now, Broken) else self._answer(row, now.output)
        if detail is None:
            return None
        built_anew = stored.run and stored.run["variant_sha256"] not in (None, self._sha256)
        if built_anew:
            return Changed.NETWORK, f"{detail}; {self._variant} was built or calibrated anew since"
        return Changed.ANSWER, f"{detail}; {_what_changed(stored)}"

    def _answer(self, row: Mapping[str, Any], now: Output) -> str | None:
        if now.crops is not None:
            return self._crops(row, now.crops)
        if now.objects is not None:
            return self._objects([one.found for one in row["objects"] or ()], now.objects)
        if now.vector is not None and now.vector_dtype is not None:
            alike = cosine(now.vector, now.vector_dtype, row["vector"], row["vector_dtype"]) if row["vector"] else None
            return None if alike is not None and alike >= self._cosine else f"the cosine of the two vectors is {alike}"
        if now.label is not None:
            return self._classes(row, now)
        then, numbers = numbers_of(row["score"], row["output"]), numbers_of(now.score, now.details)
        apart = mean_difference(then, numbers)
        is_same = apart is not None and apart <= self._margin * self._scale
        return None if is_same else f"stored {then}, now {numbers}"

    def _objects(self, then: Sequence[DetectedObject], now: Sequence[DetectedObject]) -> str | None:
        """Compare the objects that are surely above the lowest score that is stored."""
        assert self._detection is not None
        sure = self._detection.min_score + self._margin
        matches = match_objects(then, now, SAME_BOX)
        same = [match for match in matches if abs(then[match.a].score - now[match.b].score) <= self._margin]
        sides = (
            (then, {match.a for match in same}, "is not found any more"),
            (now, {match.b for match in same}, "is not stored"),
        )
        for side, matched, how in sides:
            for index, one in enumerate(side):
                if one.score >= sure and index not in matched:
                    return f"an object {one.label!r} with score {one.score:.3f} {how}, or with another box or score"
        return None

    def _crops(self, row: Mapping[str, Any], now: Sequence[CropOutput]) -> str | None:
        """Compare what a second network gives for each object that it takes, and the best with that of the image."""
        then = {number: one.made for number, one in enumerate(row["objects"]) if one.made}
        outputs = dict(now)
        for number in sorted(then.keys() | outputs.keys()):
            if number not in outputs:
                return f"object {number} is not taken any more"
            if number not in then:
                return f"object {number} is not stored"
            if detail := self._answer(then[number], outputs[number]):
                return f"object {number}: {detail}"
        labelled = [one for one in then.values() if one["label"] is not None]
        best = max(labelled, key=lambda one: one["score"], default={"label": None, "score": None})
        is_best = (row["label"], row["score"]) == (best["label"], best["score"])
        return None if is_best else f"stored {row['label']} {_number(row['score'])}, its best object is {best['label']}"

    def _classes(self, row: Mapping[str, object], now: Output) -> str | None:
        """Compare the best class and all that are listed; of classes that score alike another may be the best."""
        assert now.label is not None
        assert now.score is not None
        details = json.loads(now.details)
        then = {row["label"]: row["score"]} | _scores(row["output"])  # of several labels only those over the threshold
        scores = {now.label: now.score} | _scores(details)
        is_tie = row["label"] in scores and scores[row["label"]] >= now.score - self._margin
        if (row["label"] != now.label and not is_tie) or not _is_near(row["score"], now.score, self._margin):
            return f"stored {row['label']} {_number(row['score'])}, now {now.label} {_number(now.score)}"
        for label in {**then, **scores}:
            ours, theirs = (side.get(label, _lowest(side, details)) for side in (scores, then))
            if not _is_near(theirs, ours, self._margin):
                return f"stored {label} {_number(theirs)}, now {_number(ours)}"
        return None


def _scores(output: Any) -> dict[Any, Any]:
    """Return the score of each label that a stored output lists."""
    entries = output if isinstance(output, dict) else {}
    listed = entries.get("top") or entries.get("labels") or []
    return {entry.get("label"): entry.get("score") for entry in listed}


def _lowest(scores: Mapping[Any, Any], details: Mapping[str, Any]) -> Any:
    """Return the score that a class which is not listed has at most: it counts as that."""
    return details.get("threshold", min(scores.values(), default=None))


def _is_near(one: Any, other: Any, margin: float) -> bool:
    return one is other is None or (None not in (one, other) and abs(one - other) <= margin)


def _number(score: object) -> str:
    return "without a score" if score is None else f"{score:.4g}"


def _what_changed(stored: ModelHistory) -> str:
    """Return what may explain another answer of the same network: libraries, or the row itself."""
    then, now = stored.run["versions"] if stored.run else {}, recorded_packages()
    changed = [f"{name} {then[name]} then, {now.get(name, 'none')} now" for name in then if then[name] != now.get(name)]
    unchanged = (
        "libraries and processor are those of its run: the row was edited, or something reads the file otherwise"
    )
    return ", ".join(changed) or (unchanged if then else "nothing is recorded of its run")
