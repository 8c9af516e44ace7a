"""Compare the objects that two models find in the same pixels, by class and overlap."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.specs import DetectionSpec
from infer_app.predict.detection.boxes import Match, intersection_over_union, match_rows
from infer_app.predict.detection.object_decoder import ObjectDecoder

COMPARED_SCORE = 0.25  # objects with at least this score must be found again; it is a usual threshold of detectors
SAME_OBJECT = 0.5  # overlap (IoU) of an object in fp16, bf16 or int8 with the same object in fp32
EXACT_OBJECT = 0.9  # overlap of the same object in two variants of fp32
HALF_PIXEL = 0.5  # of the model's input
FURTHER_OBJECTS = 100  # than are stored of an image

Objects = np.ndarray  # (k, 6): x1 y1 x2 y2 score class


class ComparedObjects(NamedTuple):
    """The objects of an image in two lists. Each number is the row of an object whose score counts."""

    kept: tuple[Match, ...]  # of the first list, with what they match in the second
    lost: tuple[int, ...]  # of the first list, without an object of the second
    found: tuple[int, ...]  # of the second list
    new: tuple[int, ...]  # of the second list, without an object of the first


def compared_score(detection: DetectionSpec) -> float:
    """Return the score from which objects are compared."""
    return max(COMPARED_SCORE, detection.min_score)


def find_objects(artifact: Artifact, raw: np.ndarray, min_score: float = 1.0) -> list[Objects | None]:
    """Return the objects in rows of a detector, (n, D), in pixels of its input; None: the image would be rejected.

    Objects from `min_score` on are found, and at least those far below the score from which objects are compared, so
    that one that falls just below it is not lost; and more than are stored, since any of close scores may be the last.
    """
    manifest, detection = artifact.manifest, artifact.manifest.output.detection
    assert detection is not None
    lowest = min(min_score, detection.min_score, compared_score(detection) / 2)
    most = detection.max_objects + FURTHER_OBJECTS
    spec = replace(manifest.output, detection=replace(detection, min_score=lowest, max_objects=most))
    decoder = ObjectDecoder(spec, manifest.recipe, (), artifact.head())
    found: list[Objects | None] = []
    for row in (raw[number : number + 1] for number in range(len(raw))):
        try:
            found += decoder.find(row)
        except (Exception, SystemExit):  # a head of the user's own may raise anything, which rejects the image in a run
            found.append(None)
    return found


def compare_lists(
    first: Objects, second: Objects, min_score: float, min_iou: float, max_difference: float = 1.0
) -> ComparedObjects:
    """Compare objects from `min_score` on with all objects of the other list, whatever their scores.

    A match whose scores differ by more than `max_difference` is none.
    """
    own, found = (np.flatnonzero(rows[:, 4] >= min_score) for rows in (first, second))
    kept = tuple(Match(int(own[a]), b, iou) for a, b, iou in match_rows(first[own], second, min_iou))
    kept = tuple(one for one in kept if abs(first[one.a, 4] - second[one.b, 4]) <= max_difference)
    back = [(int(found[b]), a) for b, a, _ in match_rows(second[found], first, min_iou)]
    known = {b for b, a in back if abs(first[a, 4] - second[b, 4]) <= max_difference}
    matched = {match.a for match in kept}
    return ComparedObjects(
        kept,
        tuple(row for row in own.tolist() if row not in matched),
        tuple(found.tolist()),
        tuple(row for row in found.tolist() if row not in known),
    )


def measure_agreement(
    expected: Sequence[Objects | None], actual: Sequence[Objects | None], min_score: float, min_iou: float
) -> tuple[dict[str, Any], np.ndarray]:
    """Return what a Parity tells of the objects of many images, and by how much the scores of the kept ones rose, (n,).

    Images that the first model rejects are left out.
    """
    nothing = np.empty((0, 6))
    images, differences = list[ComparedObjects](), list[float]()
    for theirs, ours in zip(expected, actual, strict=True):
        if theirs is not None:
            second = nothing if ours is None else ours
            images.append(compare_lists(theirs, second, min_score, min_iou))
            differences += [float(second[b, 4] - theirs[a, 4]) for a, b, _ in images[-1].kept]
    num_objects = sum(len(one.kept) + len(one.lost) for one in images)
    return {"num_objects": num_objects, "object_agreement": agreement_of(images)}, np.array(differences)


def agreement_of(images: Sequence[ComparedObjects]) -> float | None:
    """Return the share that is kept, or 1 less the share that is new if that is worse; None: no objects at all."""
    num_kept, num_lost, num_found, num_new = (sum(len(one[place]) for one in images) for place in range(4))
    if not num_kept + num_lost:
        return 0.0 if num_found else None
    return min(num_kept / (num_kept + num_lost), 1 - num_new / max(1, num_found))


def count_found(expected: Objects, actual: Objects, margin: float, *, is_exact: bool) -> int:
    """Count the objects of `expected` with one of `actual` in their place; when `is_exact`, also of their class and
    of a score within `margin`.
    """
    return int(_in_place(expected, actual, margin, is_exact=is_exact).any(1).sum())


def find_missing(
    expected: Objects, actual: Objects, detection: DetectionSpec, margin: float, *, is_exact: bool = False
) -> Objects | None:
    """Return the best object that is stored of `expected` and that `actual` lacks, None if there is none.

    An object counts as found if an object of its class overlaps it enough and, when `is_exact`, scores within `margin`.
    Of two objects whose scores are within `margin` the other one may have won: another box that suppresses this one,
    or, unless `is_exact`, another class of the same box. Within `margin` of the score from which objects are
    compared, none is needed. Nor is one that is thinner than half a pixel of the input, whose overlap with any other
    rounding decides.
    """
    expected = expected[: detection.max_objects]
    is_same_class = actual[:, 5] == expected[:, 5, None]
    is_no_worse = actual[:, 4] >= expected[:, 4, None] - margin
    is_there = _in_place(expected, actual, margin, is_exact=is_exact) & (is_same_class | is_no_worse)
    if detection.suppresses:
        overlaps = intersection_over_union(expected[:, :4], actual[:, :4])
        is_there |= (overlaps > detection.nms) & is_same_class & is_no_worse
    is_sure = expected[:, 4] >= compared_score(detection) + margin
    is_sure &= (expected[:, 2:4] - expected[:, :2]).min(1, initial=np.inf) >= HALF_PIXEL
    missing = expected[is_sure & ~is_there.any(1)]
    return missing[missing[:, 4].argmax()] if len(missing) else None


def _in_place(expected: Objects, actual: Objects, margin: float, *, is_exact: bool) -> np.ndarray:
    """Return for each pair of objects whether they overlap enough; when `is_exact`, also agree in class and score."""
    is_there = intersection_over_union(expected[:, :4], actual[:, :4]) >= (EXACT_OBJECT if is_exact else SAME_OBJECT)
    if is_exact:
        is_there &= actual[:, 5] == expected[:, 5, None]
        is_there &= np.abs(actual[:, 4] - expected[:, 4, None]) <= margin
    return is_there
