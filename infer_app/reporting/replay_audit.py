"""Audit of stored rows: a random share of them is predicted again, and must be what it was."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from infer_app.boxes import match_objects
from infer_app.database.listing.source import find_locations
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.queries.prediction_sample import (
    Amount,
    StoredPrediction,
    choose,
    list_keys,
    read_predictions,
)
from infer_app.day import Day
from infer_app.domain import NOT_READ, Broken, DetectedObject, ImageRef, Output, Prediction
from infer_app.errors import ModelError, UsageError
from infer_app.locations import shown as shown_location
from infer_app.model_names import Version
from infer_app.models.artifact.manifest import GOLDEN_OUTPUTS_FILE
from infer_app.reporting.replay import SAME_BOX, PlanAgain, find_version, plan_again, reason_of
from infer_app.reporting.similarity import cosine, mean_difference, numbers_of
from infer_app.settings.load import LoadedSettings
from infer_app.versions import recorded_versions

SAME_SCORE = 0.01  # largest difference of a score in full precision
SAME_VECTOR = 0.999  # cosine; pixels of another machine may differ by two levels
CONFIDENCE = 0.99  # that the sample would have had a wrong row


class Cause(StrEnum):
    """What is no longer as it was when a row was written."""

    PICTURE = "picture"  # the bytes of its file
    NETWORK = "network"  # the files of the model
    ANSWER = "answer"  # the same network gives another one for the same bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored row that is not what its network gives for its picture."""

    image_id: str
    location: str | None
    model: str
    model_id: str
    cause: Cause
    detail: str


@dataclass(slots=True)
class ReplayAudit:
    """What became of the rows that were predicted again."""

    num_rows: int  # stored, of which some were chosen
    num_chosen: int
    num_compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    not_compared: Counter[str] = field(default_factory=Counter)  # by why

    @property
    def undetected_share(self) -> float | None:
        """Return the share of wrong rows that a sample of this size has one of with 99 % probability; None: no row.

        Of n rows none is wrong with probability (1 - share)^n, or less if n is not small against all rows.
        """
        if not self.num_compared:
            return None
        is_all = self.num_compared == self.num_rows
        return 0.0 if is_all else float(1 - (1 - CONFIDENCE) ** (1 / self.num_compared))

    def to_json(self) -> dict[str, Any]:
        return {
            "num_rows": self.num_rows,
            "num_chosen": self.num_chosen,
            "num_compared": self.num_compared,
            "undetected_share": self.undetected_share,
            "differences": [asdict(one) for one in self.differences],
            "not_compared": dict(self.not_compared),
        }


def audit_by_replay(
    loaded: LoadedSettings, project: ProjectDatabase, versions: Sequence[Version], amount: Amount, day: Day | None
) -> ReplayAudit:
    """Predict a random share of the stored rows again, of a day or of all, and compare them.

    Raises what opening an executor raises, except for models that are not there, not as they were built, or that can't
    run here: that is told of their rows.
    """
    names = {model_id: name for name, model_id in versions}
    keys, num_rows = choose(list_keys(project.database, project.source, list(names), day), amount)
    audit = ReplayAudit(num_rows, len(keys))
    groups = defaultdict[tuple[str, str], list[StoredPrediction]](list)
    for one in read_predictions(project.database, keys):
        groups[one.row.model_id, one.row.variant].append(one)
    for (model_id, variant), rows in groups.items():
        _audit_group(loaded, project, audit, (names[model_id], model_id), variant, rows)
    return audit


def _audit_group(
    loaded: LoadedSettings,
    project: ProjectDatabase,
    audit: ReplayAudit,
    version: Version,
    variant: str,
    rows: Sequence[StoredPrediction],
) -> None:
    """Compare the rows of one variant of one version."""
    locations = find_locations(project.source, [one.row.image_id for one in rows])
    refs, listed = list[ImageRef](), list[StoredPrediction]()
    for one in rows:
        found = locations.get(one.row.image_id, [])
        if len(found) != 1:
            audit.not_compared["several images have its id" if found else "the source no longer lists the image"] += 1
            continue
        refs.append(ImageRef(one.row.image_id, found[0]))
        listed.append(one)
    if not refs:
        return
    try:
        artifact = find_version(loaded, version)
        plan = plan_again(loaded, artifact, variant, loaded.run.workers)
    except (ModelError, UsageError) as error:
        audit.not_compared[error.message] += len(refs)
        return
    try:
        results = plan.predict(refs)
    except ModelError as error:  # a file is not that of the build, or golden images are predicted otherwise
        audit.num_compared += len(refs)
        audit.differences += [_difference(ref, version, Cause.NETWORK, error.message) for ref in refs]
        return
    comparison = RowComparison(plan, variant)
    for ref, one in zip(refs, listed, strict=True):
        now = results[ref.image_id]
        if isinstance(now, Broken) and now.reason in NOT_READ:
            audit.not_compared[f"its file can't be read: {now.reason}"] += 1
            continue
        audit.num_compared += 1
        if difference := comparison.find(one, now):
            audit.differences.append(_difference(ref, version, *difference))


def _difference(ref: ImageRef, version: Version, cause: Cause, detail: str) -> Difference:
    return Difference(ref.image_id, shown_location(ref.location), *version, cause, detail)


class RowComparison:
    """Compares rows of one variant with what it gives now."""

    def __init__(self, plan: PlanAgain, variant: str) -> None:
        self._plan, artifact = plan, plan.artifact
        tolerance = artifact.manifest.tolerance_of(variant)
        self._detection = artifact.manifest.output.detection
        self._margin = max(SAME_SCORE, tolerance.relative)
        golden = np.load(io.BytesIO(artifact.read(GOLDEN_OUTPUTS_FILE)), allow_pickle=False)
        self._scale = float(np.abs(golden).max())  # of the numbers of a regression
        self._cosine = min(SAME_VECTOR, tolerance.cosine)

    def find(self, stored: StoredPrediction, now: Prediction | Broken) -> tuple[Cause, str] | None:
        """Return what differs and how, or None."""
        then, bytes_now = stored.row.sha256, now.file.sha256
        if then is not None and bytes_now is not None and bytes_now != then:
            return Cause.PICTURE, "its file was replaced since it was predicted"
        detail = f"rejected now, {reason_of(now)}" if isinstance(now, Broken) else self._answer(stored, now.output)
        if detail is None:
            return None
        return Cause.ANSWER, f"{detail}; {_what_changed(stored, self._plan)}"

    def _answer(self, stored: StoredPrediction, now: Output) -> str | None:
        row = stored.row
        if now.objects is not None:
            return self._objects(stored.objects or (), now.objects)
        if now.vector is not None and now.vector_dtype is not None:
            alike = cosine(now.vector, now.vector_dtype, row.vector, row.vector_dtype) if row.vector else None
            return None if alike is not None and alike >= self._cosine else f"the cosine of the two vectors is {alike}"
        if now.label is not None:
            return self._classes(row, now)
        then, numbers = numbers_of(row.score, row.output), numbers_of(now.score, now.details)
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

    def _classes(self, row: Any, now: Output) -> str | None:
        """Compare the best class and all that are listed; of classes that score alike another may be the best."""
        assert now.label is not None
        assert now.score is not None
        details = json.loads(now.details)
        then, scores = _scores(row.output), _scores(details) | {now.label: now.score}
        is_tie = row.label in scores and scores[row.label] >= now.score - self._margin
        if (row.label != now.label and not is_tie) or not _is_near(row.score, now.score, self._margin):
            return f"stored {row.label} {_number(row.score)}, now {now.label} {_number(now.score)}"
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


def _number(score: Any) -> str:
    return "without a score" if score is None else f"{score:.4g}"


def _what_changed(stored: StoredPrediction, plan: PlanAgain) -> str:
    """Return what may explain another answer of the same network: libraries, variant, or the row itself."""
    then, now = stored.run.versions if stored.run else {}, recorded_versions()
    changed = [f"{name} {then[name]} then, {now.get(name, 'none')} now" for name in then if then[name] != now.get(name)]
    changed += [f"in {plan.variant} instead of {plan.instead_of}"] if plan.instead_of else []
    unchanged = (
        "libraries and processor are those of its run: the row was edited, or something reads the file otherwise"
    )
    return ", ".join(changed) or (unchanged if then else "nothing is recorded of its run")
