"""Compute the overlap (IoU) of boxes given as corners in any unit, and match two lists of objects by it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from infer_app.base.domain import DetectedObject
from infer_app.base.size import Size

ObjectInPixels = tuple[float, float, float, float, float, str]  # x1 y1 x2 y2, score, label
WHOLE_PIXEL = 1e-6  # of a pixel: rounding errors are smaller


class Match(NamedTuple):
    """Two objects of one class whose boxes overlap: their indices, and the overlap."""

    a: int
    b: int
    iou: float


def intersection_over_union(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the overlap of each pair of boxes, (n, 4) and (m, 4): (n, m) float64, 0-1; 0 where a box has no area."""
    # Column by column, because numpy is slow where the last axis is short.
    a, b = one.astype(np.float64).T[:, :, None], others.astype(np.float64).T[:, None]
    widths = np.minimum(a[2], b[2]) - np.maximum(a[0], b[0])
    intersection: np.ndarray = widths.clip(0) * (np.minimum(a[3], b[3]) - np.maximum(a[1], b[1])).clip(0)
    union = _areas(a) + _areas(b) - intersection
    overlaps: np.ndarray = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    return overlaps


def match_objects(a: Sequence[DetectedObject], b: Sequence[DetectedObject], min_iou: float) -> list[Match]:
    """Match objects of one label, as `match_boxes` does."""
    return match_rows(*object_rows(a, b), min_iou)


def object_rows(a: Sequence[DetectedObject], b: Sequence[DetectedObject]) -> tuple[np.ndarray, np.ndarray]:
    """Return two lists of objects as `match_rows` takes them, with one number for each label; boxes are shares."""
    labels = [one.label for one in (*a, *b)]
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    first, second = (
        np.column_stack([corners(some), [one.score for one in some], [numbers[one.label] for one in some]])
        for some in (a, b)
    )
    return first, second


def match_rows(a: np.ndarray, b: np.ndarray, min_iou: float) -> list[Match]:
    """Match objects of one class as a detector's head gives them, (n, 6) x1 y1 x2 y2 score class."""
    return match_boxes(a[:, :4], b[:, :4], a[:, 5].tolist(), b[:, 5].tolist(), min_iou)


def match_boxes(
    a: np.ndarray, b: np.ndarray, labels_a: Sequence[object], labels_b: Sequence[object], min_iou: float
) -> list[Match]:
    """Match boxes, (n, 4) and (m, 4), of one label that overlap by at least `min_iou`; each is matched at most once.

    The pairs that overlap most are matched first; of equal ones, those of the best objects.
    """
    overlaps = intersection_over_union(a, b)
    pairs = [(-overlaps[i, j], i, j) for i, j in zip(*np.nonzero(overlaps >= min_iou), strict=True)]
    matches, used_a, used_b = list[Match](), set[int](), set[int]()
    for overlap, i, j in sorted(pairs):
        if labels_a[i] == labels_b[j] and i not in used_a and j not in used_b:
            used_a.add(i)
            used_b.add(j)
            matches.append(Match(int(i), int(j), float(-overlap)))
    return matches


def exact_at_whole_pixels(boxes: np.ndarray, picture: Size) -> np.ndarray:
    """Return boxes, (n, 4) x y width height as shares, that give a whole pixel where they lie at one, float64.

    Programs that cut objects out truncate the product with the picture's side: 299.99999999999994 were a pixel less.
    """
    sides = np.array([*picture, *picture], np.float64)
    whole = np.rint(boxes * sides)
    shares = whole / sides
    shares = np.where(shares * sides < whole, np.nextafter(shares, 1), shares)
    exact: np.ndarray = np.where(np.abs(boxes * sides - whole) < WHOLE_PIXEL, shares, boxes)
    return exact


def corners(objects: Sequence[DetectedObject]) -> np.ndarray:
    """Return the boxes of objects as corners, (n, 4) float64, shares of the picture."""
    boxes = np.array([(one.x, one.y, one.width, one.height) for one in objects], np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return boxes


def in_pixels(objects: Sequence[DetectedObject], picture: Size) -> list[ObjectInPixels]:
    """Return objects by the corners of their boxes in pixels of a picture of this size."""
    boxes = (corners(objects) * [*picture, *picture]).tolist()
    return [(*box, one.score, one.label) for box, one in zip(boxes, objects, strict=True)]


def _areas(columns: np.ndarray) -> np.ndarray:
    areas: np.ndarray = (columns[2] - columns[0]).clip(0) * (columns[3] - columns[1]).clip(0)
    return areas
