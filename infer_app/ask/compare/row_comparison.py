"""Compares a stored row with what its network gives now."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from infer_app.ask.compare.predict_again import PlanAgain
from infer_app.ask.figures.similarity import mean_difference, numbers_of, vector_of
from infer_app.base.domain import Broken, CropOutput, DetectedObject, FileFacts, Output, Prediction
from infer_app.base.packages import recorded_packages
from infer_app.predict.detection.boxes import match_objects, object_rows
from infer_app.predict.verification.golden import golden_outputs
from infer_app.predict.verification.object_parity import compare_lists
from infer_app.tables.rows.image_history import ModelHistory, StoredObject
from infer_app.tables.rows.results import PredictedCrop, Result

SAME_BOX = 0.9  # intersection over union of an object that was found again
SAME_SCORE = 0.01  # largest difference of a score in fp32
SAME_VECTOR = 0.999  # cosine; pixels of another machine may differ by two levels
Answer: TypeAlias = Result | PredictedCrop  # what is stored, of an image or of an object
_LISTS = {"top", "labels", "values"}  # of an output, whose numbers are compared one by one


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
        self._scale = float(np.abs(golden_outputs(artifact)).max())  # of the numbers of a regression
        self._cosine = min(SAME_VECTOR, tolerance.cosine)

    def find(self, row: Result, stored: ModelHistory, now: Prediction | Broken) -> tuple[Changed, str] | None:
        """Return what differs and how, or None."""
        then, file = row.file, now.file
        same = (then.sha256, file.sha256) if file.sha256 else (then.size, file.size)  # an empty file is not read
        if None not in same and same[0] != same[1]:
            return Changed.PICTURE, "its file was replaced since it was predicted"
        if isinstance(now, Broken):
            detail: str | None = f"rejected now, {now.problem}"
        else:
            detail = _facts(then, file) or self._answer(row, now.output, stored.objects or ())
        if detail is None:
            return None
        built_anew = stored.run and stored.run["variant_sha256"] not in (None, self._sha256)
        if built_anew:
            return Changed.NETWORK, f"{detail}; {self._variant} was built or calibrated anew since"
        return Changed.ANSWER, f"{detail}; {_what_changed(stored)}"

    def _answer(self, row: Answer, now: Output, objects: Sequence[StoredObject] = ()) -> str | None:
        if now.crops is not None:
            return self._crops(row, objects, now.crops)
        if now.objects is not None:
            return self._objects([one.found for one in objects], now.objects)
        return self._output(row, now) or _details(row, now)

    def _output(self, row: Answer, now: Output) -> str | None:
        if now.vector is not None:
            return self._vectors(row, now)
        if now.label is not None:
            return self._classes(row, now)
        then, numbers = numbers_of(row.score, row.output.text), numbers_of(now.score, now.details)
        apart = mean_difference(then, numbers)
        is_same = apart is not None and apart <= self._margin * self._scale
        return None if is_same else f"stored {then}, now {numbers}"

    def _vectors(self, row: Answer, now: Output) -> str | None:
        """Compare two vectors by their distance, as a share of the longer one: by direction and by length."""
        assert now.vector is not None
        numbers = vector_of(now.vector, now.vector_dtype).astype(float)
        stored = row.output
        then = vector_of(stored.vector or b"", stored.vector_dtype).astype(float)
        of_type = (stored.vector_dtype, stored.vector_dim) == (now.vector_dtype, now.vector_dim)
        if then.shape != numbers.shape or not of_type:
            return f"stored {then.size} {stored.vector_dtype}, now {numbers.size} {now.vector_dtype}"
        length = max(np.linalg.norm(then), np.linalg.norm(numbers))
        apart = float(np.linalg.norm(then - numbers))
        most = math.sqrt(2 - 2 * self._cosine)  # of two vectors of one length with this cosine
        return None if apart <= most * length else f"the vectors are {apart / length:.3g} of their length apart"

    def _objects(self, then: Sequence[DetectedObject], now: Sequence[DetectedObject]) -> str | None:
        """Compare the objects that are surely among those that are stored."""
        assert self._detection is not None
        sure = self._detection.min_score + self._margin
        found = compare_lists(*object_rows(then, now), sure, SAME_BOX, self._margin)
        sides = (then, found.lost, now, "is not found any more"), (now, found.new, then, "is not stored")
        for side, numbers, other, how in sides:
            for one in (side[number] for number in numbers):
                if not self._may_be_cut_off(one, other):
                    return f"an object {one.label!r} with score {one.score:.3f} {how}, or with another box or score"
        return None

    def _may_be_cut_off(self, one: DetectedObject, objects: Sequence[DetectedObject]) -> bool:
        """Return whether an object may lack in a list since that is full of others which score no less than it."""
        assert self._detection is not None
        is_full = len(objects) >= self._detection.max_objects
        return is_full and one.score < objects[-1].score + self._margin

    def _crops(self, row: Answer, stored: Sequence[StoredObject], now: Sequence[CropOutput]) -> str | None:
        """Compare what a second network gives for each object that it takes, and the best with that of the image."""
        then = {number: one.made for number, one in enumerate(stored) if one.made}
        outputs = {one.object: one.output for one in now}
        for number in sorted(then.keys() | outputs.keys()):
            if number not in outputs:
                return f"object {number} is not taken any more"
            if number not in then:
                return f"object {number} is not stored"
            if detail := self._answer(then[number], outputs[number]):
                return f"object {number}: {detail}"
        labelled = [one[:2] for one in then.values() if one.label is not None]
        label, score = max(labelled, key=lambda one: one[1] or 0.0, default=(None, None))
        is_best = (row.label, row.score) == (label, score)
        return None if is_best else f"stored {row.label} {_number(row.score)}, its best object is {label}"

    def _classes(self, row: Answer, now: Output) -> str | None:
        """Compare the best class and all that are listed; of classes that score alike another may be the best."""
        assert now.label is not None
        assert now.score is not None
        details = json.loads(now.details)
        then, scores = _scores(row.output.details), _scores(details)
        ties = [now.label, *(label for (label, _), score in scores.items() if score >= now.score - self._margin)]
        is_tie = row.label in ties
        if (row.label != now.label and not is_tie) or not _is_near(row.score, now.score, self._margin):
            return f"stored {row.label} {_number(row.score)}, now {now.label} {_number(now.score)}"
        names = {index: label for label, index in scores}
        for label, index in then:
            if names.get(index, label) != label:
                return f"stored {label} as class {index}, which is {names[index]}"
        for key in {**then, **scores}:
            ours, theirs = (side.get(key, _lowest(side, details)) for side in (scores, then))
            if not _is_near(theirs, ours, self._margin):
                return f"stored {key[0]} {_number(theirs)}, now {_number(ours)}"
        return None


def _facts(then: FileFacts, now: FileFacts) -> str | None:
    """Return which fact of the same bytes is another one than the row has."""
    sides = ((one.size, *(one.picture or (None, None))) for one in (then, now))
    for name, stored, ours in zip(("size", "width", "height"), *sides, strict=True):
        if None not in (ours, stored) and ours != stored:
            return f"stored {name} {stored}, now {ours}"
    return None


def _details(row: Answer, now: Output) -> str | None:
    """Return which of a label, a score and what else an output has is there on one side alone, or not the same."""
    for name in ("label", "score"):
        if (getattr(row, name) is None) != (getattr(now, name) is None):
            return f"stored {name} {getattr(row, name)}, now {getattr(now, name)}"
    then, ours = (
        {key: None if key in _LISTS else value for key, value in one.items()}
        for one in (row.output.details, json.loads(now.details))
    )
    return None if then == ours else f"stored {json.dumps(then)}, now {json.dumps(ours)}"


def _scores(output: Any) -> dict[tuple[Any, Any], Any]:
    """Return the score of each class that an output lists, by label and index."""
    entries = output if isinstance(output, dict) else {}
    listed = entries.get("top") or entries.get("labels") or []
    return {(one.get("label"), one.get("index")): one.get("score") for one in listed}


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


def pair_answers(row: Result, stored: Sequence[StoredObject], now: Prediction | Broken) -> Iterator[tuple[str, str]]:
    """Yield what is stored beside what is given now, of an image or of each object."""
    if isinstance(now, Broken):
        yield _stored_text(row), f"rejected, {now.problem}"
        return
    output = now.output
    if output.crops is not None:
        then = {number: _stored_text(one.made) for number, one in enumerate(stored) if one.made}
        made = {crop.object: crop.output for crop in output.crops}
        outputs = {place: _text(one.label, one.score, one.details, one.vector_dim) for place, one in made.items()}
        for number in sorted(then.keys() | outputs.keys()):
            yield f"object {number}: {then.get(number, 'nothing')}", outputs.get(number, "not taken")
    elif output.objects is not None:
        found = [one.found for one in stored]
        again = {match.a: match.b for match in match_objects(found, output.objects, SAME_BOX)}
        given = list(map(_object_text, output.objects))
        for number, one in enumerate(found):
            yield f"object {number}: {_object_text(one)}", given[again[number]] if number in again else "none"
        yield from (("nothing", text) for number, text in enumerate(given) if number not in again.values())
    else:
        yield _stored_text(row), _text(output.label, output.score, output.details, output.vector_dim)


def _stored_text(row: Answer) -> str:
    return _text(row.label, row.score, row.output.text, row.output.vector_dim)


def _text(label: str | None, score: float | None, details: Any, vector_dim: int | None) -> str:
    numbers = [] if label is not None or vector_dim else numbers_of(score, details)
    values = [score] if label is not None and score is not None else numbers
    vector = [f"a vector of {vector_dim:,}"] if vector_dim else []
    return " ".join([*([] if label is None else [label]), *(f"{one:.6g}" for one in values), *vector]) or "no label"


def _object_text(one: DetectedObject) -> str:
    return f"{one.label} {one.score:.6g} at {one.x:.3f} {one.y:.3f} {one.width:.3f} {one.height:.3f}"
