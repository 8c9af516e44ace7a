"""Overlaps of boxes, as corners x1, y1, x2, y2 in any one unit, and the matching of two lists of objects by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from infer_app.domain import DetectedObject


class Match(NamedTuple):
    """Two objects of one class whose boxes overlap: their indices, and the overlap."""

    a: int
    b: int
    iou: float


def intersection_over_union(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the overlap of each pair of boxes, (n, 4) and (m, 4): (n, m) float64, 0-1; 0 where a box has no area."""
    one, others = one[:, None].astype(np.float64), others[None].astype(np.float64)
    lengths = np.minimum(one[..., 2:], others[..., 2:]) - np.maximum(one[..., :2], others[..., :2])
    intersection: np.ndarray = lengths.clip(0).prod(-1)
    union = _areas(one) + _areas(others) - intersection
    overlaps: np.ndarray = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    return overlaps


def match_objects(a: Sequence[DetectedObject], b: Sequence[DetectedObject], min_iou: float) -> list[Match]:
    """Match objects of one label whose boxes overlap by at least `min_iou`; an object is matched at most once.

    The pairs that overlap most are matched first; of equal ones, those of the best objects.
    """
    if not a or not b:
        return []
    overlaps = intersection_over_union(corners(a), corners(b))
    pairs = [(-overlaps[i, j], i, j) for i, j in zip(*np.nonzero(overlaps >= min_iou), strict=True)]
    matches, used_a, used_b = list[Match](), set[int](), set[int]()
    for overlap, i, j in sorted(pairs):
        if a[i].label == b[j].label and i not in used_a and j not in used_b:
            used_a.add(i)
            used_b.add(j)
            matches.append(Match(int(i), int(j), float(-overlap)))
    return matches


def corners(objects: Sequence[DetectedObject]) -> np.ndarray:
    """Return the boxes of objects as corners, (n, 4) float64, shares of the picture."""
    boxes = np.array([(one.x, one.y, one.width, one.height) for one in objects], np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return boxes


def _areas(boxes: np.ndarray) -> np.ndarray:
    areas: np.ndarray = (boxes[..., 2:] - boxes[..., :2]).clip(0).prod(-1)
    return areas
