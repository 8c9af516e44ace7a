"""Which of the objects of two models are the same, over the images of a day."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infer_app.database.figures.detections import PredictedImage
from infer_app.domain import DetectedObject
from infer_app.locations import shown as shown_location
from infer_app.models.detection.boxes import match_objects

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
        "measure": MEASURE,
        "images": images,
    }


def _without(objects: Sequence[DetectedObject], matched: set[int]) -> list[DetectedObject]:
    return [one for index, one in enumerate(objects) if index not in matched]
