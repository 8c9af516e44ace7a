"""Decode a detector's rows into the objects of each image."""

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import MAX_CLASS, DetectedObject, Output
from infer_app.base.size import Size
from infer_app.predict.detection.boxes import exact_at_whole_pixels, intersection_over_union
from infer_app.predict.detection.heads import OwnHead, open_head
from infer_app.predict.images.transform.to_pixels import boxes_in_picture

MAX_ROUNDING = 1e-3  # of a score
BLOCK = 64  # objects whose overlaps with all others are computed at once


class ObjectDecoder:
    """Decodes a model's rows: applies the head, the minimum score and NMS, and maps boxes to the picture."""

    def __init__(
        self, spec: OutputSpec, recipe: Recipe, labels: Sequence[str] = (), own_head: OwnHead | None = None
    ) -> None:
        assert spec.detection is not None
        self._spec = spec.detection
        self._recipe = recipe
        self._labels = labels
        self._is_own = own_head is not None
        self._head = open_head(spec.detection, spec.activation, recipe.size, own_head)
        self._details = json.dumps({"min_score": spec.detection.min_score})

    def decode(self, raw: np.ndarray, pictures: Sequence[Size | None]) -> list[Output | None]:
        """Return the objects of each row of `raw`, (n, D) float32, in pictures of these upright sizes.

        None stands for a row with a NaN or an infinity. Raises what a head of the user's own raises.
        """
        found = zip(self.find(raw), pictures, strict=True)
        return [None if objects is None else self._output(objects, picture) for objects, picture in found]

    def find(self, raw: np.ndarray) -> list[np.ndarray | None]:
        """Return the objects of each row in pixels of the model's input: (k, 6) x1 y1 x2 y2 score class.

        The best is first. None stands for a row with a NaN or an infinity.
        """
        # A head of the user's own may expect infinities in its input, so only its result is checked.
        finite = [True] * len(raw) if self._is_own else finite_rows(raw)
        heads = self.candidates(raw)
        return [
            self._best(rows) if is_finite and np.isfinite(rows).all() else None
            for is_finite, rows in zip(finite, heads, strict=True)
        ]

    def candidates(self, raw: np.ndarray) -> list[np.ndarray]:
        """Return what the head gives for each row, before the minimum score and NMS."""
        return self._head(split_outputs(raw, self._spec.shapes))

    def drop_low_scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the head's objects of an image with at least `min_score`, float64.

        Raises ValueError for a score over 1, and for a class that is not a class's number.
        """
        rows = rows.astype(np.float64)
        rows = rows[~(rows[:, 4] < self._spec.min_score)]  # written so that NaN stays
        _check_objects(rows)
        rows[:, 4] = rows[:, 4].clip(max=1)
        return rows

    def _best(self, rows: np.ndarray) -> np.ndarray:
        """Return the objects of an image, the best first. Raises ValueError for an invalid score or class."""
        rows = self.drop_low_scores(rows)
        has_area = (rows[:, 2] > rows[:, 0]) & (rows[:, 3] > rows[:, 1])
        rows = sort_objects(rows[has_area])
        if self._spec.suppresses:
            return suppress(rows, self._spec.nms, self._spec.max_objects)
        return rows[: self._spec.max_objects]

    def _output(self, objects: np.ndarray, picture: Size | None) -> Output:
        assert picture is not None
        boxes = boxes_in_picture(objects[:, :4], picture, self._recipe)
        boxes[:, 2:] -= boxes[:, :2]
        boxes = exact_at_whole_pixels(boxes, picture)
        rows = zip(objects[:, 4].tolist(), objects[:, 5].astype(int).tolist(), boxes.tolist(), strict=True)
        found = tuple(
            DetectedObject(self._label(index), index, score, *box)
            for score, index, box in rows
            if box[2] > 0 and box[3] > 0  # else it lies outside of the picture, in the pixels around it
        )
        best = found[0] if found else None
        return Output(best and best.label, best and best.score, self._details, objects=found)

    def _label(self, index: int) -> str:
        return self._labels[index] if index < len(self._labels) else str(index)


def _check_objects(rows: np.ndarray) -> None:
    if len(rows) and rows[:, 4].max() > 1 + MAX_ROUNDING:
        raise ValueError(f"a score of {rows[:, 4].max():.4g}: scores are between 0 and 1")
    is_class = (rows[:, 5] == np.floor(rows[:, 5])) & (rows[:, 5] >= 0) & (rows[:, 5] <= MAX_CLASS)
    for wrong in rows[~is_class & np.isfinite(rows[:, 5]), 5][:1]:
        raise ValueError(f"the class {wrong:.6g}: classes are whole numbers from 0 to {MAX_CLASS:,}")


def finite_rows(rows: np.ndarray) -> list[bool]:
    """Return for each row of (n, D) whether it has neither a NaN nor an infinity.

    The smallest and the largest number suffice, since NaN propagates to both, and take a tenth of the time.
    """
    finite: list[bool] = (np.isfinite(rows.min(1)) & np.isfinite(rows.max(1))).tolist()
    return finite


def split_outputs(raw: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the outputs that `as_rows` joined to (n, D): (n, *shape) each. Raises ValueError for another length."""
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)]).tolist()
    if raw.shape[1] != ends[-1]:
        raise ValueError(
            f"the network gave {raw.shape[1]:,} numbers for an image and {ends[-1]:,} at its build: the number "
            "of boxes must be fixed; pad with boxes of score 0"
        )
    return [
        raw[:, first:end].reshape(len(raw), *shape) for (first, end), shape in zip(pairwise(ends), shapes, strict=True)
    ]


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
