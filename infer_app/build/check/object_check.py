"""Compare the objects that the user's own function finds with the program's, image by image."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from infer_app.artifact.specs import DetectionSpec
from infer_app.base.domain import Broken, Prediction
from infer_app.base.size import Size
from infer_app.build.check.check_report import CheckReport, DifferentObject, ObjectComparison, TimedBlock
from infer_app.build.check.function_check import as_array, label_of_class, match_answers
from infer_app.predict.detection.boxes import ObjectInPixels, in_pixels, intersection_over_union, match_rows
from infer_app.predict.verification.object_parity import (
    EXACT_OBJECT,
    SAME_OBJECT,
    ComparedObjects,
    agreement_of,
    compare_lists,
    compared_score,
)

WHOLE_OBJECT = 0.8  # overlap of the same object, where a program cuts its box to whole pixels
ENOUGH_BOXES = 5  # that show that all are moved alike
FAR_APART = 2.0  # pixels; programs that cut or round an edge and a length move an edge by less
HIGHEST_START = 0.5  # highest score to which the comparison is raised for a function that drops low scores


def compare_object_answers(
    theirs: Sequence[tuple[str, object]],
    ours: Sequence[Prediction | Broken],
    detection: DetectionSpec,
    labels: Sequence[str] = (),
    *,
    blocks: Sequence[TimedBlock] = (),
) -> CheckReport:
    """Compare objects by path, as `compare_answers` does labels; an answer is what `answered_objects` takes.

    Objects are the same if they have one label and overlap by EXACT_OBJECT; or, if theirs are cut to whole pixels, by
    WHOLE_OBJECT, with ours cut likewise where more are then the same.
    """
    compared, of_images = match_answers(theirs, ours, partial(answered_objects, labels=labels), blocks)
    objects = [one for found, _ in compared for one in found]
    lowest = min((one[4] for one in objects), default=0.0)
    min_score = max(compared_score(detection), min(lowest, HIGHEST_START))
    is_whole = bool(objects) and all(float(value).is_integer() for one in objects for value in one[:4])
    min_overlap = WHOLE_OBJECT if is_whole else EXACT_OBJECT
    images = [_compare_image(item, found, min_score, min_overlap) for found, item in compared]
    if is_whole:
        cut = [_compare_image(item, found, min_score, min_overlap, is_cut=True) for found, item in compared]
        images = max(images, cut, key=lambda some: agreement_of([one.same for one in some]) or 0.0)
    counts = [one.same for one in images]
    differences = (different for one in images for different in one.differences)
    near = [pair for one in images for pair in one.near]
    overlaps, scores = np.array(near).reshape(-1, 2).T
    return CheckReport(
        agreement=agreement_of(counts),
        disagreements=(),
        num_labels=len({one.label for _, item in compared for one in item.output.objects or ()}),
        objects=ObjectComparison(
            min_score,
            sum(len(one.kept) + len(one.lost) for one in counts),
            sum(len(one.kept) for one in counts),
            sum(len(one.found) for one in counts),
            sum(len(one.new) for one in counts),
            float(overlaps.mean()) if near else None,
            float(scores.mean()) if near else None,
            float(scores.max()) if near else None,
            tuple(sorted(differences, key=lambda one: (-one.score, one.path, one.found_by))),
            tuple(_notes(objects, sum(one.num_outside for one in images), labels)),
            min_overlap,
            _moved_alike(np.concatenate([np.empty((0, 3, 4)), *(one.ranked for one in images)])),
        ),
        **of_images,
    )


@dataclass(frozen=True, slots=True)
class _ComparedImage:
    """The objects of one image on both sides."""

    same: ComparedObjects
    near: list[tuple[float, float]]  # overlap and absolute difference of the score of objects in about the same place
    differences: list[DifferentObject]
    num_outside: int  # boxes of theirs with a centre outside of the picture
    ranked: np.ndarray  # as `_rank` returns it


def _compare_image(
    item: Prediction,
    answer: Sequence[ObjectInPixels],
    min_score: float,
    min_overlap: float,
    *,
    is_cut: bool = False,  # whether edges of ours are truncated to whole pixels
) -> _ComparedImage:
    assert item.file.picture is not None  # a detector's predictions have it
    ours, theirs = in_pixels(item.output.objects or (), item.file.picture), _clipped(answer, item.file.picture)
    if is_cut:
        ours = [(x1 // 1, y1 // 1, x2 // 1, y2 // 1, score, label) for x1, y1, x2, y2, score, label in ours]
    our_rows, their_rows = _with_numbered_labels(ours, theirs)
    same = compare_lists(their_rows, our_rows, min_score, min_overlap)
    sure = their_rows[their_rows[:, 4] >= min_score]
    path = item.ref.location
    return _ComparedImage(
        same=same,
        near=[(iou, abs(our_rows[b, 4] - sure[a, 4])) for a, b, iou in match_rows(sure, our_rows, SAME_OBJECT)],
        differences=[
            *(_difference(path, "theirs", theirs[row], ours) for row in same.lost),
            *(_difference(path, "ours", ours[row], theirs) for row in same.new),
        ],
        num_outside=sum(_is_outside(one, item.file.picture) for one in answer),
        ranked=_rank(
            [one for one in answer if one[4] >= min_score], [ours[row] for row in same.found], item.file.picture
        ),
    )


def answered_objects(answer: object, labels: Sequence[str] = ()) -> list[ObjectInPixels]:
    """Return the objects of an answer: an array of (n, 6), or a list of tuples, whose last entry may be a label.

    A row is x1 y1 x2 y2 in pixels of the upright picture, score, class index or label. Raises ValueError if the answer
    is not valid.
    """
    rows = as_array(answer)
    if isinstance(rows, np.ndarray):
        if rows.size and (rows.ndim != 2 or rows.shape[1] != 6 or rows.dtype.kind not in "iuf"):
            raise ValueError(f"{rows.dtype} of shape {rows.shape} is not objects: rows of {_ROW}")
        rows = rows.tolist() if rows.size else []
    if not isinstance(rows, list | tuple):
        raise ValueError(f"a {type(answer).__name__} is not objects: an array or a list of rows of {_ROW}")
    return [_object(row, labels) for row in rows]


_ROW = "x1 y1 x2 y2 in pixels, score, class"


def _object(row: object, labels: Sequence[str]) -> ObjectInPixels:
    if not isinstance(row, list | tuple | np.ndarray) or len(row) != 6:
        raise ValueError(f"{row!r} is not an object: {_ROW}")
    x1, y1, x2, y2, score = (float(value) for value in row[:5])
    if not np.isfinite([x1, y1, x2, y2, score]).all():
        raise ValueError(f"{_shown(row)}: numbers are not finite")
    if x2 < x1 or y2 < y1:
        raise ValueError(f"{_shown(row)}: x2 < x1 or y2 < y1; boxes are x1 y1 x2 y2, not x y width height")
    if not 0 <= score <= 1:
        raise ValueError(f"{_shown(row)}: the score, the fifth number, is not between 0 and 1")
    return x1, y1, x2, y2, score, _label(row[5], labels)


def _shown(row: Any) -> str:
    return " ".join(f"{float(value):.4g}" for value in row[:5])


def _label(value: Any, labels: Sequence[str]) -> str:
    if isinstance(value, str):
        return str(value)
    if int(value) != value:
        raise ValueError(f"class {value} of {len(labels)} classes")
    return label_of_class(int(value), labels, "class")


def _clipped(objects: Sequence[ObjectInPixels], picture: Size) -> list[ObjectInPixels]:
    """Return boxes without what lies outside of the picture, as ours are."""
    width, height = picture
    return [
        (min(max(x1, 0), width), min(max(y1, 0), height), min(max(x2, 0), width), min(max(y2, 0), height), score, label)
        for x1, y1, x2, y2, score, label in objects
    ]


def _is_outside(one: ObjectInPixels, picture: Size) -> bool:
    """Return whether a box's centre lies outside; objects at the edge of a picture may reach beyond it."""
    x1, y1, x2, y2 = one[:4]
    return not (0 <= (x1 + x2) / 2 <= picture.width and 0 <= (y1 + y2) / 2 <= picture.height)


def _with_numbered_labels(*lists: Sequence[ObjectInPixels]) -> list[np.ndarray]:
    """Return lists of objects as (n, 6) with a number for each label."""
    numbers: dict[str, int] = {}
    return [
        np.array([(*one[:5], numbers.setdefault(one[5], len(numbers))) for one in objects], np.float64).reshape(-1, 6)
        for objects in lists
    ]


def _difference(path: str, side: str, one: ObjectInPixels, others: Sequence[ObjectInPixels]) -> DifferentObject:
    same_label = np.array([other[:4] for other in others if other[5] == one[5]], np.float64).reshape(-1, 4)
    overlaps = intersection_over_union(np.array([one[:4]]), same_label)
    return DifferentObject(path, side, one[5], one[4], one[:4], float(overlaps.max(initial=0.0)))


def _rank(theirs: Sequence[ObjectInPixels], ours: Sequence[ObjectInPixels], picture: Size) -> np.ndarray:
    """Pair objects of one label by the order of their scores, wherever they lie, if each side has as many.

    Return (n, 3, 4): a box of theirs and one of ours in pixels, and the margins of the picture centred in a square.
    """
    first, second = (sorted(some, key=lambda one: (one[5], -one[4])) for some in (theirs, ours))
    if [one[5] for one in first] != [one[5] for one in second]:
        return np.empty((0, 3, 4))
    margins = [(max(picture) - side) / 2 for side in picture] * 2
    return np.array([(a[:4], b[:4], margins) for a, b in zip(first, second, strict=True)]).reshape(-1, 3, 4)


def _moved_alike(ranked: np.ndarray) -> str:
    """Return how their boxes come of ours, if one way explains most of how far they are apart; else nothing."""
    theirs, ours, margins = ranked.swapaxes(0, 1)
    if len(ranked) < ENOUGH_BOXES:
        return ""
    shift = np.tile(np.median((theirs - ours).reshape(-1, 2), 0), 2)
    scale = np.tile(np.median((theirs / ours.clip(1)).reshape(-1, 2), 0), 2)
    ways = {
        "": ours,
        f"ours moved by {shift[0]:.1f} and {shift[1]:.1f} pixels": ours + shift,
        f"ours times {scale[0]:.3f} and {scale[1]:.3f}": ours * scale,
        "ours with a padding's offset: that of the picture in the middle of a square": ours + margins,
        "ours without a padding's offset: that of the picture in the middle of a square": ours - margins,
    }
    apart = {way: float(np.median(np.abs(theirs - boxes).max(1))) for way, boxes in ways.items()}
    best = min(apart, key=lambda way: apart[way])
    return best if apart[""] > FAR_APART and apart[best] < apart[""] / 2 else ""


def _notes(theirs: Sequence[ObjectInPixels], num_outside: int, labels: Sequence[str]) -> list[str]:
    notes = []
    if theirs and max(max(one[:4]) for one in theirs) <= 1:
        notes.append(
            "no coordinate of your boxes exceeds 1: they look like shares of the picture, but pixels are expected"
        )
    if num_outside:
        verb = "lies" if num_outside == 1 else "lie"
        notes.append(
            f"{num_outside:,} of your boxes {verb} outside the picture; boxes are x1 y1 x2 y2 in pixels "
            "of the picture as a viewer shows it, not of the network's input"
        )
    unknown = sorted({one[5] for one in theirs} - set(labels)) if labels else []
    if unknown:
        notes.append(f"your function gives labels that the model does not have: {', '.join(unknown[:5])}")
    return notes
