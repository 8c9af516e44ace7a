"""Where two models disagree over a day."""

from __future__ import annotations

import heapq
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from infer_app.answers.object_comparison import compare_objects
from infer_app.database.figures.detections import read_together
from infer_app.database.figures.disagreement import Disagreement, Overlap
from infer_app.database.figures.figures import Figures
from infer_app.database.figures.similarity import cosine, mean_difference, numbers_of
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.queries.thresholds import read_thresholds
from infer_app.day import Day
from infer_app.errors import UsageError
from infer_app.locations import as_location
from infer_app.locations import shown as shown_location

SUREST = "min(score of A, score of B), the highest first"


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """A version of a model to compare."""

    model: str
    model_id: str
    kind: str  # of its outputs


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of one kind over a day."""

    day: Day
    a: ComparedVersion
    b: ComparedVersion
    overlap: Overlap
    details: dict[str, Any]  # by the kind, as JSON has them

    def to_json(self) -> dict[str, Any]:
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
    sides = Disagreement(project.database, project.source, day, a.model_id, b.model_id)
    overlap = sides.overlap()
    if a.kind == "detection":
        thresholds = (read_thresholds(project.database, a.model), read_thresholds(project.database, b.model))
        pairs = read_together(project.database, project.source, day, (a.model_id, b.model_id))
        details = compare_objects(pairs, thresholds, limit)
    else:
        details = _labels(sides, overlap, limit) if a.kind == "classification" else _measures(sides, a, b, limit)
    return Comparison(day, a, b, overlap, details)


def _find_version(project: ProjectDatabase, day: Day, name: str) -> ComparedVersion:
    """Return the version that `name` names; of a NAME the first in the order of use that has predictions on the day."""
    for model, model_id in project.day_queries.models_in_use(name):
        figures = Figures(project.database, project.source, model_id)
        if figures.has_predicted(day):
            return ComparedVersion(model, model_id, figures.output_kind() or "classification")
    raise UsageError(
        f"{name} has predicted no image of {day}",
        f"`infer run --date {day} --lookback 0 --model {shlex.quote(name)}` predicts them, `infer status` lists days",
    )


def _labels(sides: Disagreement, overlap: Overlap, limit: int) -> dict[str, Any]:
    return {
        "agree": overlap.agreeing,
        "disagree": overlap.both - overlap.agreeing,
        "confusions": [{"a": a, "b": b, "images": count} for a, b, count in sides.confusions(limit)],
        "measure": SUREST,
        "images": [asdict(pair) | {"location": shown_location(pair.location)} for pair in sides.surest(limit)],
    }


def _measures(sides: Disagreement, a: ComparedVersion, b: ComparedVersion, limit: int) -> dict[str, Any]:
    """Return the mean and the worst difference of numbers or cosine of vectors, and the most different images."""
    by_numbers = a.kind == "regression"
    measure, sign = (_difference, 1) if by_numbers else (_cosine, -1)  # sign * measure grows with the distance
    count, incomparable, total = 0, 0, 0.0

    def measured() -> Iterator[dict[str, Any]]:
        nonlocal count, incomparable, total
        for row in sides.pairs():
            value = measure(row)
            if value is None:
                incomparable += 1
                continue
            count, total = count + 1, total + value
            location = shown_location(as_location(row["location"]))
            yield {"image_id": row["image_id"], "location": location, "value": value}

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


def _difference(row: dict[str, Any]) -> float | None:
    a, b = (numbers_of(row[f"score_{side}"], row[f"output_{side}"]) for side in "ab")
    return mean_difference(a, b)


def _cosine(row: dict[str, Any]) -> float | None:
    if row["vector_a"] is None or row["vector_b"] is None:
        return None
    return cosine(row["vector_a"], row["vector_dtype_a"], row["vector_b"], row["vector_dtype_b"])
