"""Where two models disagree over a day."""

from __future__ import annotations

import heapq
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from infer_app.artifact.specs import WITH_LABELS
from infer_app.ask.compare.paired_answers import Overlap, Pair, PairedCrops, count_overlap, paired_images
from infer_app.ask.figures.figures import Figures
from infer_app.ask.figures.similarity import cosine, mean_difference, numbers_of
from infer_app.base.day import Day
from infer_app.base.errors import UsageError
from infer_app.base.locations import shown as shown_location
from infer_app.predict.detection.boxes import object_rows
from infer_app.predict.verification.object_parity import compare_lists
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import read_thresholds
from infer_app.tables.results.model_versions import detector_of, kind_of
from infer_app.tables.rows.results import Part, Result, part_of, read_together
from infer_app.tables.shown_labels import ShownLabels

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
        return {"date": str(self.day), "kind": self.a.kind, **sides, **asdict(self.overlap), **self.details}


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
    model_ids = (a.model_id, b.model_id)
    overlap = count_overlap(project, day, model_ids)
    part, has_labels = part_of(a.kind, a.of), a.kind in WITH_LABELS
    together = read_together(project, day, model_ids, part)
    if part is Part.OBJECTS:
        shown = [ShownLabels(read_thresholds(project.database, one.model)) for one in (a, b)]
        return Comparison(day, a, b, overlap, compare_objects(together, shown, limit))
    crops = PairedCrops(together, MIN_IOU) if a.of else None
    pairs = paired_images(together) if crops is None else crops
    if has_labels:
        details = compare_labels(pairs, "objects" if a.of else "images", limit)
    else:
        details = compare_numbers(pairs, a, b, limit)
    if crops is not None:
        details |= {"objects": crops.to_json()}
    elif has_labels:  # those that were read: a run may write meanwhile
        overlap = replace(overlap, both=details["agree"] + details["disagree"])
    return Comparison(day, a, b, overlap, details)


def _find_version(project: ProjectDatabase, day: Day, name: str) -> ComparedVersion:
    """Return the version that `name` names; of a NAME the first in the order of use that has predictions on the day."""
    for model, model_id in project.versions.models_in_use(name):
        figures = Figures(project, model_id)
        if figures.has_predicted(day):
            manifest = figures.manifest()
            return ComparedVersion(model, model_id, kind_of(manifest) or "classification", detector_of(manifest))
    raise UsageError(
        f"{name} has predicted no image of {day}",
        f"`infer run --date {day} --lookback 0 --model {shlex.quote(name)}` predicts them, `infer status` lists days",
    )


def compare_labels(pairs: Iterable[Pair], unit: str, limit: int) -> dict[str, Any]:
    """Count the pairs with the same label and those of other labels, and list those of which both sides are surest.

    `unit` is what is counted: images or objects.
    """
    num_same, confusions = 0, Counter[tuple[str, str]]()

    def differing() -> Iterator[Pair]:
        nonlocal num_same
        for pair in pairs:
            if pair.a.label == pair.b.label:
                num_same += 1
            else:
                confusions[str(pair.a.label), str(pair.b.label)] += 1
                yield pair

    surest = heapq.nsmallest(limit, differing(), key=lambda one: (-one.least_score, one.image_id, one.object or 0))
    most = heapq.nsmallest(limit, confusions.items(), key=lambda item: (-item[1], item[0]))
    return {
        "agree": num_same,
        "disagree": confusions.total(),
        "confusions": [{"a": a, "b": b, unit: count} for (a, b), count in most],
        "measure": SUREST,
        "images": [
            one.head()
            | {"label_a": one.a.label, "score_a": one.a.score, "label_b": one.b.label, "score_b": one.b.score}
            for one in surest
        ],
    }


def compare_numbers(pairs: Iterable[Pair], a: ComparedVersion, b: ComparedVersion, limit: int) -> dict[str, Any]:
    """Return the mean and the worst difference of numbers or cosine of vectors, and the pairs that are most apart.

    Raises UsageError if none can be compared, since their lengths differ.
    """
    name, measure, sign, worst = _MEASURES.get(a.kind, _COSINE)
    count, incomparable, total = 0, 0, 0.0

    def measured() -> Iterator[dict[str, Any]]:
        nonlocal count, incomparable, total
        for pair in pairs:
            value = measure(pair)
            if value is None:
                incomparable += 1
                continue
            count, total = count + 1, total + value
            yield pair.head() | {"value": value}

    furthest = heapq.nlargest(limit, measured(), key=lambda one: (sign * one["value"], one["image_id"]))
    images = sorted(furthest, key=lambda one: (-sign * one["value"], one["image_id"]))
    if incomparable and not count:
        raise UsageError(
            f"the outputs of {a.model} and {b.model} can't be compared: their lengths differ",
            "compare models whose outputs have one length",
        )
    return {
        "incomparable": incomparable,
        "measure": f"{name.replace('_', ' ')}, the most different first",
        f"mean_{name}": total / count if count else None,
        f"{worst}_{name}": images[0]["value"] if images else None,
        "images": images,
    }


def _difference(pair: Pair) -> float | None:
    return mean_difference(*(numbers_of(one.score, one.output.details) for one in (pair.a, pair.b)))


def _cosine(pair: Pair) -> float | None:
    a, b = pair.a.output, pair.b.output
    if a.vector is None or b.vector is None:
        return None
    return cosine(a.vector, a.vector_dtype or "", b.vector, b.vector_dtype or "")


# A measure with its name; the sign by which it grows with the distance; which is the worst.
_MEASURES = {"regression": ("absolute_difference", _difference, 1, "max")}
_COSINE = ("cosine", _cosine, -1, "min")


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


def compare_objects(images: Iterable[list[Result]], shown: Sequence[ShownLabels], limit: int) -> dict[str, Any]:
    """Match the objects of each image that thresholds show, by label and box, and count them by label."""
    tallies = defaultdict[str, ObjectTally](ObjectTally)

    def differing() -> Iterator[dict[str, Any]]:
        for image_a, image_b in images:
            a, b = shown[0].objects(image_a), shown[1].objects(image_b)
            found = compare_lists(*object_rows(a, b), min_score=0.0, min_iou=MIN_IOU)
            for one in found.kept:
                tallies[a[one.a].label] += ObjectTally(1, 0, 0, one.iou, b[one.b].score - a[one.a].score)
            for number in found.lost:
                tallies[a[number].label].only_a += 1
            for number in found.new:
                tallies[b[number].label].only_b += 1
            if found.lost or found.new:
                counts = {"matched": len(found.kept), "only_a": len(found.lost), "only_b": len(found.new)}
                yield {"image_id": image_a.image_id, "location": shown_location(image_a.location)} | counts

    most = heapq.nlargest(limit, differing(), key=lambda one: one["only_a"] + one["only_b"])
    labels = sorted(tallies.items(), key=lambda one: (-one[1].num_objects, one[0]))
    return {
        "min_iou": MIN_IOU,
        "objects": sum(tallies.values(), ObjectTally()).to_json(),
        "labels": [{"label": label} | tally.to_json() for label, tally in labels],
        "measure": MOST_APART,
        "images": most,
    }
