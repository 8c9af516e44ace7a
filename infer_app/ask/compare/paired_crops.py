"""The objects that two second networks took of the same images, side by side."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from infer_app.ask.figures.detections import PredictedCrop, PredictedImage
from infer_app.base.locations import shown as shown_location
from infer_app.predict.detection.boxes import match_objects

Pair = dict[str, Any]  # image_id, location, object (A's number), and fields of both predictions with _a and _b


class PairedCrops:
    """Yields what both networks gave for each object, and counts the objects meanwhile.

    Of one result of the detector an object is the same if its number is. Where the two took objects of two versions of
    the detector, it is that of the same label whose box overlaps enough.
    """

    def __init__(self, images: Iterable[tuple[PredictedImage, ...]], min_iou: float) -> None:
        self._images = images
        self._min_iou = min_iou
        self.both = self.only_a = self.only_b = 0

    def __iter__(self) -> Iterator[Pair]:
        for image_a, image_b in self._images:
            of_image = {"image_id": image_a.image_id, "location": shown_location(image_a.location)}
            for number, a, b in self._pairs(image_a, image_b):
                yield of_image | {"object": number} | _fields(a, "a") | _fields(b, "b")

    def to_json(self) -> dict[str, int]:
        return {"both": self.both, "only_a": self.only_a, "only_b": self.only_b}

    def _pairs(self, a: PredictedImage, b: PredictedImage) -> Iterator[tuple[int, PredictedCrop, PredictedCrop]]:
        same, left = self._same(a, b), dict(enumerate(b.crops))
        for number, crop in enumerate(a.crops):
            other = left.pop(same[number], None) if number in same else None
            if crop and other:
                self.both += 1
                yield number, crop, other
            self.only_a += bool(crop and not other)
            self.only_b += bool(other and not crop)
        self.only_b += sum(crop is not None for crop in left.values())

    def _same(self, a: PredictedImage, b: PredictedImage) -> dict[int, int]:
        """Return the numbers of B's objects by those of A's."""
        if a.objects == b.objects:
            return {number: number for number in range(len(a.objects))}
        return {match.a: match.b for match in match_objects(a.objects, b.objects, self._min_iou)}


def compare_labels(pairs: PairedCrops, limit: int) -> dict[str, object]:
    """Count the objects with the same label and the pairs of others, and list those of which both are surest."""
    confusions = Counter[tuple[str, str]]()

    def differing() -> Iterator[Pair]:
        for pair in pairs:
            if pair["label_a"] != pair["label_b"]:
                confusions[pair["label_a"], pair["label_b"]] += 1
                yield {key: value for key, value in pair.items() if not key.startswith(("output_", "vector_"))}

    surest = heapq.nlargest(limit, differing(), key=lambda one: min(one["score_a"], one["score_b"]))
    most = heapq.nsmallest(limit, confusions.items(), key=lambda item: (-item[1], item[0]))
    return {
        "agree": pairs.both - confusions.total(),
        "disagree": confusions.total(),
        "confusions": [{"a": a, "b": b, "objects": count} for (a, b), count in most],
        "images": surest,
    }


def _fields(crop: PredictedCrop, side: str) -> Pair:
    output = crop.output
    stored = {"output": output.details, "vector": output.vector, "vector_dtype": output.vector_dtype}
    values: Pair = {"label": crop.label, "score": crop.score} | stored
    return {f"{name}_{side}": value for name, value in values.items()}
