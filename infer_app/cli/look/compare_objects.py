"""The part of `infer compare` for models that detect objects: which of A and B are the same."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infer_app.cli.terminal.output import show_table
from infer_app.database.queries.detections import PredictedImage
from infer_app.domain import DetectedObject
from infer_app.locations import shown as shown_location
from infer_app.models.detection.boxes import match_objects
from infer_app.plurals import counted

MIN_IOU = 0.5
MEASURE = "objects that only A or only B has, the most first"


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

    def to_json(self) -> dict[str, Any]:
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
) -> dict[str, Any]:
    """Match the objects of each image that thresholds show, by label and box, and count them by label."""
    tallies = defaultdict[str, ObjectTally](ObjectTally)
    furthest: list[tuple[int, int, dict[str, Any]]] = []  # a heap, the most alike first
    for number, (image_a, image_b) in enumerate(pairs):
        a, b = image_a.shown(thresholds[0]), image_b.shown(thresholds[1])
        matches = match_objects(a, b, MIN_IOU)
        for one in matches:
            tally = tallies[a[one.a].label]
            tally.matched += 1
            tally.iou += one.iou
            tally.score_difference += b[one.b].score - a[one.a].score
        only_a = _without(a, {one.a for one in matches})
        only_b = _without(b, {one.b for one in matches})
        for found in only_a:
            tallies[found.label].only_a += 1
        for found in only_b:
            tallies[found.label].only_b += 1
        if only_a or only_b:
            counts = {"matched": len(matches), "only_a": len(only_a), "only_b": len(only_b)}
            image = {"image_id": image_a.image_id, "location": shown_location(image_a.location), **counts}
            heapq.heappush(furthest, (len(only_a) + len(only_b), -number, image))
            if len(furthest) > limit:
                heapq.heappop(furthest)
    labels = sorted(tallies.items(), key=lambda one: (-one[1].num_objects, one[0]))
    return {
        "min_iou": MIN_IOU,
        "objects": sum(tallies.values(), ObjectTally()).to_json(),
        "labels": [{"label": label} | tally.to_json() for label, tally in labels],
        "measure": MEASURE,
        "images": [image for _, _, image in sorted(furthest, key=lambda one: one[:2], reverse=True)],
    }


def show_objects(comparison: Mapping[str, Any], limit: int) -> None:
    """Print what `compare_objects` returns, with at most `limit` labels."""
    print(
        f"objects by label and box (IoU of at least {comparison['min_iou']}), shown by the thresholds of each model; "
        "the score's difference is B - A"
    )
    labels = [_label_cells(one["label"], one) for one in comparison["labels"][:limit]]
    heads = ("label", "in both", "only A", "only B", "mean IoU", "mean score difference")
    show_table(heads, [*labels, _label_cells("(all)", comparison["objects"])])
    if (more := len(comparison["labels"]) - limit) > 0:
        print(f"and {counted(more, 'label')} more: --limit or --json gives them")
    keys = ("image_id", "location", "matched", "only_a", "only_b")
    if images := [[one[key] for key in keys] for one in comparison["images"]]:
        show_table(("id", "image", "in both", "only A", "only B"), images, f"by {comparison['measure']}")


def _without(objects: Sequence[DetectedObject], matched: set[int]) -> list[DetectedObject]:
    return [one for index, one in enumerate(objects) if index not in matched]


def _label_cells(label: str, counts: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = [f"{counts[key]:,}" for key in ("matched", "only_a", "only_b")]
    means = [counts["mean_iou"], counts["mean_score_difference"]]
    return label, *numbers, *("" if mean is None else f"{mean:.3f}" for mean in means)
