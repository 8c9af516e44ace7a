"""Non-maximum suppression: of objects of one class that overlap, the best stays."""

from __future__ import annotations

import numpy as np

from infer_app.models.detection.boxes import intersection_over_union

BLOCK = 64  # objects whose overlaps with all others are computed at once


def sort_objects(objects: np.ndarray) -> np.ndarray:
    """Sort objects, (n, 6) x1 y1 x2 y2 score class, the best first; equal scores by class, then by box.

    So a rerun writes the same rows, whatever the order in which the network gave them.
    """
    x1, y1, x2, y2, score, label = objects.T
    return objects[np.lexsort((y2, x2, y1, x1, label, -score))]


def suppress(objects: np.ndarray, max_iou: float, max_objects: int) -> np.ndarray:
    """Return the objects that no better one of their class overlaps by more than `max_iou`: at most `max_objects`.

    `objects` are (n, 6) as `sort_objects` sorts them. The result is exact for any number of objects.
    """
    is_left, kept = np.ones(len(objects), bool), list[int]()
    for first in range(0, len(objects), BLOCK):
        block = first + np.flatnonzero(is_left[first : first + BLOCK])
        rest = objects[first:]
        overlaps = intersection_over_union(objects[block, :4], rest[:, :4]) > max_iou
        overlaps &= objects[block, 5, None] == rest[:, 5]
        for number, suppressed in zip(block.tolist(), overlaps, strict=True):
            if is_left[number]:
                kept.append(number)
                is_left[first:] &= ~suppressed
            if len(kept) == max_objects:
                return objects[kept]
    return objects[kept]
