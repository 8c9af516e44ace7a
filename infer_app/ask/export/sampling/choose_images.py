"""Choose images to label next. Memory is bounded by their number, however many there are to choose from."""

import hashlib
import heapq
from collections.abc import Callable, Mapping
from datetime import date
from itertools import count
from math import inf

from infer_app.artifact.specs import WITH_LABELS
from infer_app.ask.export.exported_images import DatedImages, Export
from infer_app.base.errors import UsageError
from infer_app.base.locations import stored_location
from infer_app.tables.queries.thresholds import find_threshold
from infer_app.tables.rows.results import Part, PredictedCrop, Result

UNCERTAIN, RANDOM, LABEL = WAYS = ("uncertain", "random", "label")
DEFAULT_THRESHOLD = 0.5  # of a label without one: scores near it are uncertain

Chosen = list[tuple[date, Result]]


def choose_images(images: DatedImages, by: str, num_images: int, export: Export, seed: int) -> Chosen:
    """Return up to `num_images` of the images of an export: the most uncertain first, others in order of time.

    Raises UsageError for an unknown way, and for one that the model's outputs don't allow.
    """
    model = export.model
    if by not in WAYS:
        raise UsageError(f"--by {by} is unknown", f"choose one of: {', '.join(WAYS)}")
    if by != RANDOM and model.kind not in WITH_LABELS:
        raise UsageError(f"{model.name} gives {model.kind} outputs, which have no labels", "choose by --by random")
    if by == UNCERTAIN:
        return heapq.nsmallest(num_images, images, key=lambda dated: _uncertainty(dated[1], export))
    if by == LABEL:
        return _choose_evenly(images, num_images, seed, lambda image: _labels_of(image, export))
    numbered = ((_hash(dated[1], seed), index, dated) for index, dated in enumerate(images))
    chosen = heapq.nsmallest(num_images, numbered, key=lambda one: one[:2])
    return [dated for _, _, dated in sorted(chosen, key=lambda one: one[1])]


def keep_one_per_event(read: Callable[[], DatedImages], by: str, export: Export, seed: int) -> DatedImages:
    """Yield the images in their order, of each event one: the most uncertain, or one by chance; no copies.

    They are read twice; the number of an image of each event is in memory.
    """
    best = dict[int, tuple[float, int]]()
    for _, image, capture in export.with_captures(read()):
        if capture and capture.event is not None:
            rank = _uncertainty(image, export) if by == UNCERTAIN else _hash(image, seed)
            own = rank, image.picture
            best[capture.event] = min(own, best.get(capture.event, own))
    kept = {number for _, number in best.values()}
    for day, image, capture in export.with_captures(read()):
        if image.picture in kept or capture is None or (capture.event is None and not capture.is_copy):
            yield day, image


def _uncertainty(image: Result, export: Export) -> float:
    """Return the margin of an image; of a second network the least one of the objects that are shown."""
    if export.detector:
        reaches = export.detector.shown.reaches
        found = zip(image.objects, image.crops, strict=True)
        crops = (crop for one, crop in found if crop and reaches(one.label, one.score))
        return min((_labels_margin(crop, export.shown.thresholds) for crop in crops), default=inf)
    margin = _objects_margin if export.model.part is Part.OBJECTS else _labels_margin
    return margin(image, export.shown.thresholds)


def _objects_margin(image: Result, thresholds: Mapping[str, float]) -> float:
    """Return the least distance of an object's score from its threshold; the largest number without an object."""
    margins = (abs(one.score - find_threshold(thresholds, one.label, DEFAULT_THRESHOLD)) for one in image.objects)
    return min(margins, default=inf)


def _labels_margin(image: Result | PredictedCrop, thresholds: Mapping[str, float]) -> float:
    """Return the difference of the two best scores, of a single one itself; of labels that are apart as for objects."""
    details = image.output.details
    if "labels" in details:
        default = details.get("threshold", DEFAULT_THRESHOLD)
        listed = details["labels"] or [{"label": image.label, "score": image.score}]  # the best one, if none is listed
        return min(abs(float(one["score"]) - find_threshold(thresholds, one["label"], default)) for one in listed)
    best = [one["score"] for one in details.get("top", ())][:2] or [image.score or 0.0]
    return float(best[0] - best[1] if len(best) > 1 else best[0])


def _labels_of(image: Result, export: Export) -> list[str]:
    """Return the labels that are shown of an image, or one empty label: images with nothing are chosen too."""
    if export.model.has_objects:
        found = zip(*export.show(image), strict=True)
        labels = [one.label if crop is None or crop.label is None else crop.label for one, crop in found]
    else:
        labels = [one["label"] for one in export.shown.chosen(image)]
    return list(dict.fromkeys(labels)) or [""]


def _choose_evenly(images: DatedImages, num_images: int, seed: int, labels_of: Callable[[Result], list[str]]) -> Chosen:
    """Choose as many images of each label as there are, or equally many; an image counts for its rarest label so far.

    One more image than wanted makes the largest label lose the one with the highest hash.
    """
    index = count()
    kept: dict[str, list[tuple[int, int, tuple[date, Result]]]] = {}  # heaps, the highest hash first
    num_kept = 0
    for dated in images:
        label = min(labels_of(dated[1]), key=lambda one: len(kept.get(one, ())))
        heapq.heappush(kept.setdefault(label, []), (-_hash(dated[1], seed), -next(index), dated))
        num_kept += 1
        if num_kept > num_images:
            heapq.heappop(max(kept.values(), key=len))
            num_kept -= 1
    chosen = [entry for heap in kept.values() for entry in heap]
    return [dated for _, _, dated in sorted(chosen, key=lambda one: -one[1])]


def _hash(image: Result, seed: int) -> int:
    """Return a number that is random for each image and seed, and the same in every run."""
    named = f"{seed} {image.image_id} {stored_location(image.location)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big")
