"""Non-maximum suppression: of objects of one class that overlap, the best stays."""

from __future__ import annotations

import numpy as np

from infer_app.boxes import intersection_over_union


def in_order(objects: np.ndarray) -> np.ndarray:
    """Sort objects, (n, 6) x1 y1 x2 y2 score class, the best first; equal scores by class, then by box.

    So a rerun writes the same rows, whatever the order in which the network gave them.
    """
    x1, y1, x2, y2, score, label = objects.T
    return objects[np.lexsort((y2, x2, y1, x1, label, -score))]


def suppress(objects: np.ndarray, max_iou: float, max_objects: int) -> np.ndarray:
    """Return the objects that no better one of their class overlaps by more than `max_iou`: at most `max_objects`.

    `objects` are (n, 6) as `in_order` sorts them. It is exact and has no time limit, however many there are.
    """
    kept = list[np.ndarray]()
    while len(objects) and len(kept) < max_objects:
        best, objects = objects[0], objects[1:]
        kept.append(best)
        same_class = np.flatnonzero(objects[:, 5] == best[5])
        overlaps = intersection_over_union(best[None, :4], objects[same_class, :4])[0]
        objects = np.delete(objects, same_class[overlaps > max_iou], axis=0)
    return np.array(kept).reshape(-1, 6)
