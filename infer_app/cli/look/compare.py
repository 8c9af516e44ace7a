"""`infer compare`: where two models disagree over a day."""

from __future__ import annotations

import heapq
import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infer_app.cli.look.compare_objects import compare_objects, show_objects
from infer_app.cli.terminal.output import show_table
from infer_app.database.project_database import ProjectDatabase, open_project_database
from infer_app.database.queries.detections import read_together
from infer_app.database.queries.disagreement import Disagreement, Overlap, Pair
from infer_app.database.queries.figures import Figures
from infer_app.database.queries.thresholds import read_thresholds
from infer_app.day import Day, parse_date
from infer_app.errors import UsageError
from infer_app.locations import as_location
from infer_app.locations import shown as shown_location
from infer_app.reporting.similarity import cosine, mean_difference, numbers_of
from infer_app.settings.load import load_settings

SUREST = "min(score of A, score of B), the highest first"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a model to compare."""

    model: str
    model_id: str
    kind: str  # of its outputs


def compare(date: str, names: tuple[str, str], limit: int, as_json: bool, config: Path | None) -> None:
    """Print where two models disagree.

    Raises UsageError if a model predicted nothing on that day, or the outputs are of two kinds.
    """
    loaded = load_settings(config)
    zone = loaded.run.time_zone
    day = Day.of(parse_date(date, zone), zone)
    with open_project_database(loaded, read_only=True) as project:
        a, b = (_version(project, day, name) for name in names)
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
            comparison = compare_objects(pairs, thresholds, limit)
        elif a.kind == "classification":
            comparison = _compare_labels(sides, overlap, limit)
        else:
            comparison = _measure(sides, a, b, limit)
    head = {"date": str(day), "kind": a.kind, "a": asdict(a), "b": asdict(b), **asdict(overlap)}
    del head["agreeing"]  # of other kinds than classifications it says nothing
    if as_json:
        print(json.dumps(head | comparison))
    else:
        _print(day, a, b, overlap, comparison, limit)


def _version(project: ProjectDatabase, day: Day, name: str) -> Version:
    """Return the version that `name` names; of a NAME the first in the order of use that has predictions on the day."""
    for model, model_id in project.day_queries.models_in_use(name):
        figures = Figures(project.database, project.source, model_id)
        if figures.count_predicted(day):
            kind = figures.manifest().get("output", {}).get("kind", "classification")
            return Version(model, model_id, kind)
    raise UsageError(
        f"{name} has predicted no image of {day}",
        f"`infer run --date {day} --lookback 0 --model {shlex.quote(name)}` predicts them, `infer status` lists days",
    )


def _compare_labels(sides: Disagreement, overlap: Overlap, limit: int) -> dict[str, Any]:
    confusions = [{"a": a, "b": b, "images": count} for a, b, count in sides.confusions(limit)]
    return {
        "agree": overlap.agreeing,
        "disagree": overlap.both - overlap.agreeing,
        "confusions": confusions,
        "measure": SUREST,
        "images": [asdict(pair) | {"location": shown_location(pair.location)} for pair in sides.surest(limit)],
    }


def _measure(sides: Disagreement, a: Version, b: Version, limit: int) -> dict[str, Any]:
    """Return the mean and the worst difference of numbers or cosine of vectors, and the most different images."""
    by_numbers = a.kind == "regression"
    measure, sign = (_difference, 1) if by_numbers else (_cosine, -1)  # sign * measure grows with the distance
    count, incomparable, total = 0, 0, 0.0
    furthest: list[tuple[float, str, dict[str, Any]]] = []  # a heap, the smallest distance first
    for row in sides.pairs():
        value = measure(row)
        if value is None:
            incomparable += 1
            continue
        count, total = count + 1, total + value
        pair = {"image_id": row["image_id"], "location": shown_location(as_location(row["location"])), "value": value}
        heapq.heappush(furthest, (sign * value, row["image_id"], pair))
        if len(furthest) > limit:
            heapq.heappop(furthest)
    if incomparable and not count:
        raise UsageError(
            f"the outputs of {a.model} and {b.model} can't be compared: their lengths differ",
            "compare models whose outputs have one length",
        )
    images = [pair for _, _, pair in sorted(furthest, key=lambda one: (-one[0], one[1]))]
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


def _print(day: Day, a: Version, b: Version, overlap: Overlap, comparison: dict[str, Any], limit: int) -> None:
    print(f"{day}: A is {a.model} {a.model_id}, B is {b.model} {b.model_id}")
    only = f"only A {overlap.only_a:,}, only B {overlap.only_b:,}, neither {overlap.neither:,}"
    if a.kind == "classification":
        share = f" ({comparison['agree'] / overlap.both:.1%})" if overlap.both else ""
        agreement = f"agree {comparison['agree']:,}{share}, disagree {comparison['disagree']:,}"
        print(f"both predicted {overlap.both:,}: {agreement}; {only}")
        cells = [(one["a"], one["b"], f"{one['images']:,}") for one in comparison["confusions"]]
        if cells:
            show_table(("A predicts", "B predicts", "images"), cells, "most frequent pairs")
            pairs = [_pair_cells(Pair(**one)) for one in comparison["images"]]
            show_table(
                ("id", "image", "A predicts", "score", "B predicts", "score"), pairs, f"by {comparison['measure']}"
            )
        return
    if a.kind == "detection":
        print(f"both predicted {overlap.both:,}; {only}")
        show_objects(comparison, limit)
        return
    aside = f", {comparison['incomparable']:,} of them can't be compared" if comparison["incomparable"] else ""
    print(f"both predicted {overlap.both:,}{aside}; {only}")
    figures = {
        key.replace("_", " "): value for key, value in comparison.items() if key.startswith(("mean_", "max_", "min_"))
    }
    print(", ".join(f"{name} {_number(value)}" for name, value in figures.items()))
    cells = [(one["image_id"], one["location"], _number(one["value"])) for one in comparison["images"]]
    if cells:
        show_table(("id", "image", "value"), cells, f"by {comparison['measure']}")


def _pair_cells(pair: Pair) -> tuple[str, ...]:
    return (
        pair.image_id,
        pair.location,
        pair.label_a or "",
        _number(pair.score_a),
        pair.label_b or "",
        _number(pair.score_b),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
