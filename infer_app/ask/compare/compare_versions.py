"""Where two models disagree over a day."""

from __future__ import annotations

import heapq
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from infer_app.ask.compare.paired_crops import PairedCrops, compare_labels
from infer_app.ask.figures.detections import Part, PredictedImage, read_together
from infer_app.ask.figures.disagreement import Disagreement, Overlap
from infer_app.ask.figures.figures import Figures
from infer_app.ask.figures.similarity import cosine, mean_difference, numbers_of
from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import UsageError
from infer_app.base.locations import as_location
from infer_app.base.locations import shown as shown_location
from infer_app.predict.detection.boxes import match_objects
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import read_thresholds

SUREST = "min(score of A, score of B), the highest first"
MOST_APART = "objects that only A or only B has, the most first"
MIN_IOU = 0.5  # of one object in A and B


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """A version of a model to compare."""

    model: str
    model_id: str
    kind: str  # of its outputs
    of: str | None = None  # of a second network: the detector whose objects it takes


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of one kind over a day."""

    day: Day
    a: ComparedVersion
    b: ComparedVersion
    overlap: Overlap
    details: dict[str, Any]  # by the kind, as JSON has them

    def to_json(self) -> dict[str, object]:
        sides = {"a": asdict(self.a), "b": asdict(self.b)}
        head = {"date": str(self.day), "kind": self.a.kind, **sides, **asdict(self.overlap)}
        del head["agreeing"]  # of other kinds than classifications it says nothing
        return head | self.details


def compare_versions(project: ProjectDatabase, day: Day, names: tuple[str, str], limit: int) -> Comparison:
    """Compare the predictions of a day by two models, with at most `limit` images.

    Raises UsageError if a model predicted nothing on that day, or the outputs are of two kinds.
    """
    a, b = (_find_version(project, day, name) for name in names)
    if a.model_id == b.model_id:
        raise UsageError(
            f"{names[0]} and {names[1]} are the same version",
            "name two: `infer model list` prints the versions, as NAME@ID",
        )
    if a.kind != b.kind:
        raise UsageError(
            f"{names[0]} gives {a.kind}, {names[1]} gives {b.kind}: they can't be compared",
            "compare two models of one kind: `infer model show NAME` prints it",
        )
    if a.of != b.of:
        takes = [f"{one.model} takes {f'objects of {one.of}' if one.of else 'whole pictures'}" for one in (a, b)]
        raise UsageError(f"{' and '.join(takes)}: they can't be compared", "compare two models that take the same")
    sides = Disagreement(project.database, project.source, day, a.model_id, b.model_id)
    overlap = sides.overlap()
    if a.of:
        together = read_together(project.database, project.source, day, (a.model_id, b.model_id), Part.CROPS)
        crops = PairedCrops(together, MIN_IOU)
        by_label = a.kind == "classification"
        details = compare_labels(crops, limit) if by_label else _measures(crops, a, b, limit)
        details |= {"objects": crops.to_json()} | ({"measure": SUREST} if by_label else {})
    elif a.kind == "detection":
        thresholds = (read_thresholds(project.database, a.model), read_thresholds(project.database, b.model))
        pairs = read_together(project.database, project.source, day, (a.model_id, b.model_id))
        details = compare_objects(pairs, thresholds, limit)
    else:
        details = (
            _labels(sides, overlap, limit) if a.kind == "classification" else _measures(sides.pairs(), a, b, limit)
        )
    return Comparison(day, a, b, overlap, details)


def _find_version(project: ProjectDatabase, day: Day, name: str) -> ComparedVersion:
    """Return the version that `name` names; of a NAME the first in the order of use that has predictions on the day."""
    for model, model_id in project.versions.models_in_use(name):
        figures = Figures(project.database, project.source, model_id)
        if figures.has_predicted(day):
            takes = figures.manifest().get("crop") or {}
            return ComparedVersion(model, model_id, figures.kind or "classification", takes.get("of"))
    raise UsageError(
        f"{name} has predicted no image of {day}",
        f"`infer run --date {day} --lookback 0 --model {shlex.quote(name)}` predicts them, `infer status` lists days",
    )


def _labels(sides: Disagreement, overlap: Overlap, limit: int) -> dict[str, object]:
    return {
        "agree": overlap.agreeing,
        "disagree": overlap.both - overlap.agreeing,
        "confusions": [{"a": a, "b": b, "images": count} for a, b, count in sides.confusions(limit)],
        "measure": SUREST,
        "images": [one | {"location": shown_location(str(one["location"]))} for one in sides.surest(limit)],
    }


def _measures(
    pairs: Iterable[Mapping[str, Any]], a: ComparedVersion, b: ComparedVersion, limit: int
) -> dict[str, object]:
    """Return the mean and the worst difference of numbers or cosine of vectors, and the most different images.

    Of second networks, which have an `object` in each pair, they are objects.
    """
    by_numbers = a.kind == "regression"
    measure, sign = (_difference, 1) if by_numbers else (_cosine, -1)  # sign * measure grows with the distance
    count, incomparable, total = 0, 0, 0.0

    def measured() -> Iterator[dict[str, Any]]:
        nonlocal count, incomparable, total
        for row in pairs:
            value = measure(row)
            if value is None:
                incomparable += 1
                continue
            count, total = count + 1, total + value
            location = shown_location(as_location(row["location"]))
            number = {"object": row["object"]} if "object" in row else {}
            yield {"image_id": row["image_id"], "location": location, **number, "value": value}

    furthest = heapq.nlargest(limit, measured(), key=lambda one: (sign * one["value"], one["image_id"]))
    images = sorted(furthest, key=lambda one: (-sign * one["value"], one["image_id"]))
    if incomparable and not count:
        raise UsageError(
            f"the outputs of {a.model} and {b.model} can't be compared: their lengths differ",
            "compare models whose outputs have one length",
        )
    name = "absolute_difference" if by_numbers else "cosine"
    return {
        "incomparable": incomparable,
        "measure": f"{name.replace('_', ' ')}, the most different first",
        f"mean_{name}": total / count if count else None,
        f"{'max' if by_numbers else 'min'}_{name}": images[0]["value"] if images else None,
        "images": images,
    }


def _difference(row: Mapping[str, Any]) -> float | None:
    a, b = (numbers_of(row[f"score_{side}"], row[f"output_{side}"]) for side in "ab")
    return mean_difference(a, b)


def _cosine(row: Mapping[str, Any]) -> float | None:
    if row["vector_a"] is None or row["vector_b"] is None:
        return None
    return cosine(row["vector_a"], row["vector_dtype_a"], row["vector_b"], row["vector_dtype_b"])


@dataclass(slots=True)
class ObjectTally:
    """Objects of a label that both models have, and that only one of them has."""

    matched: int = 0
    only_a: int = 0
    only_b: int = 0
    iou: float = 0.0  # sums over the matched
    score_difference: float = 0.0  # B's score minus A's

    def __add__(self, other: ObjectTally) -> ObjectTally:
        return ObjectTally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def num_objects(self) -> int:
        return self.matched + self.only_a + self.only_b

    def to_json(self) -> dict[str, object]:
        return {
            "matched": self.matched,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "mean_iou": self.iou / self.matched if self.matched else None,
            "mean_score_difference": self.score_difference / self.matched if self.matched else None,
        }


def compare_objects(
    pairs: Iterable[tuple[PredictedImage, ...]],
    thresholds: tuple[Mapping[str, float], Mapping[str, float]],
    limit: int,
) -> dict[str, object]:
    """Match the objects of each image that thresholds show, by label and box, and count them by label."""
    tallies = defaultdict[str, ObjectTally](ObjectTally)

    def differing() -> Iterator[dict[str, Any]]:
        for image_a, image_b in pairs:
            a, b = image_a.shown(thresholds[0]), image_b.shown(thresholds[1])
            matches = match_objects(a, b, MIN_IOU)
            for one in matches:
                tallies[a[one.a].label] += ObjectTally(1, 0, 0, one.iou, b[one.b].score - a[one.a].score)
            only_a = _without(a, {one.a for one in matches})
            only_b = _without(b, {one.b for one in matches})
            for found in only_a:
                tallies[found.label].only_a += 1
            for found in only_b:
                tallies[found.label].only_b += 1
            if only_a or only_b:
                counts = {"matched": len(matches), "only_a": len(only_a), "only_b": len(only_b)}
                yield {"image_id": image_a.image_id, "location": shown_location(image_a.location)} | counts

    images = heapq.nlargest(limit, differing(), key=lambda one: one["only_a"] + one["only_b"])
    labels = sorted(tallies.items(), key=lambda one: (-one[1].num_objects, one[0]))
    return {
        "min_iou": MIN_IOU,
        "objects": sum(tallies.values(), ObjectTally()).to_json(),
        "labels": [{"label": label} | tally.to_json() for label, tally in labels],
        "measure": MOST_APART,
        "images": images,
    }


def _without(objects: Sequence[DetectedObject], matched: set[int]) -> list[DetectedObject]:
    return [one for index, one in enumerate(objects) if index not in matched]
