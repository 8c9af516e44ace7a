"""Turn a detector's raw outputs into objects, for each family of networks."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from infer_app.artifact.activation import class_scores
from infer_app.artifact.specs import DetectionSpec
from infer_app.base.domain import MULTI_LABEL
from infer_app.base.errors import ModelError
from infer_app.base.size import Size

# Raw outputs of a batch, (n, …) each, to an array for each image: (k, 6) x1 y1 x2 y2 in pixels of the model's input,
# score, class.
Outputs = Sequence[np.ndarray]
Head = Callable[[Outputs], list[np.ndarray]]
Shapes = Sequence[tuple[int, ...]]  # of one image's outputs
MOST_CHOSEN = 1000  # boxes that a network with its own suppression gives; without one there are more
OwnHead = Callable[..., Any]  # takes the outputs as arrays, and the size of the input if it is declared with `*, size`


class Family(NamedTuple):
    """How the raw outputs of one of HEADS are known and read."""

    is_told: Callable[[Shapes, int | None], bool]  # by the shapes and the number of labels, if that is known
    find: Callable[[Outputs, str, Size, float], list[np.ndarray]]  # by activation, size of the input and least score
    parts: Callable[[Outputs, str], list[np.ndarray]]  # in which two variants must agree, each in one unit
    classes: Callable[[Outputs], np.ndarray]  # (…, classes) or (k, ): what it says of the classes, without activation
    count_classes: Callable[[Shapes, str], int | None]  # by the shapes; 0 or less: they don't fit; None: it can't tell


def open_head(spec: DetectionSpec, activation: str, size: Size, own: OwnHead | None = None) -> Head:
    """Return the head of a model whose input has this size; `own` is the user's function."""
    if own is not None:
        return partial(_own_objects, partial(own, size=size) if _asks_for_size(own) else own)
    find = FAMILIES[spec.head].find
    return lambda outputs: find(outputs, activation, size, spec.min_score)


def comparable_parts(outputs: Outputs, spec: DetectionSpec, activation: str) -> list[np.ndarray]:
    """Return the parts of a batch's raw outputs in which two variants must agree, each (n, k) in one unit.

    Networks with their own selection list objects by score; rounding can swap close scores, so only the sorted scores
    are compared.
    """
    parts = list(outputs) if spec.is_own else FAMILIES[spec.head].parts(outputs, activation)
    return [part.reshape(len(part), -1) for part in parts]


def has_no_object(activation: str) -> bool:
    """Return whether the last class of the head `detr` stands for no object."""
    return activation not in MULTI_LABEL


def _boxes(outputs: Outputs, activation: str, size: Size, min_score: float) -> list[np.ndarray]:
    # Rows with a negative class are padding.
    return [rows[(rows[:, 4] >= min_score) & (rows[:, 5] >= 0)] for rows in _joined(outputs)]


def _boxes_scores(outputs: Outputs, activation: str) -> list[np.ndarray]:
    rows = _joined(outputs)
    return [np.sort(np.where(rows[..., 5] < 0, 0.0, rows[..., 4]), 1)]


def _boxes_classes(outputs: Outputs) -> np.ndarray:
    rows = _joined(outputs)
    scores: np.ndarray = rows[..., 4][rows[..., 5] >= 0]
    kept: np.ndarray = scores[scores != -1]  # with which some networks fill up their rows
    return kept


def _yolo(outputs: Outputs, activation: str, size: Size, min_score: float) -> list[np.ndarray]:
    (batch,) = outputs
    best = batch[:, 4:].max(1)
    return [
        _of_centres(rows[:4, scores >= min_score].T, rows[4:, scores >= min_score].T)
        for rows, scores in zip(batch, best, strict=True)
    ]


def _boxes_and_scores(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[..., :4], rows[..., 4:]]


@np.errstate(over="ignore", invalid="ignore")  # of rows that are not finite, which are rejected
def _yolo5(outputs: Outputs, activation: str, size: Size, min_score: float) -> list[np.ndarray]:
    (batch,) = outputs
    found = []
    for rows in batch:
        rows = rows[rows[:, 4] >= min_score]  # a class's score is no higher than the objectness
        scores = rows[:, 5:] * rows[:, 4:5]
        best = scores.max(1) >= min_score
        found.append(_of_centres(rows[best, :4], scores[best]))
    return found


@np.errstate(over="ignore", invalid="ignore")
def _yolox(outputs: Outputs, activation: str, size: Size, min_score: float) -> list[np.ndarray]:
    (batch,) = outputs
    cells = _cells(batch.shape[1], size)
    centres, sizes = (batch[..., :2] + cells[:, :2]) * cells[:, 2:], np.exp(batch[..., 2:4]) * cells[:, 2:]
    return _yolo5([np.concatenate([centres, sizes, batch[..., 4:]], 2)], activation, size, min_score)


def _cells(num_rows: int, size: Size) -> np.ndarray:
    """Return the column, the row and the stride of each cell of YOLOX's grids, (n, 3). Raises ModelError."""
    for strides in ((8, 16, 32), (8, 16, 32, 64)):
        grids = [np.mgrid[: size.height // stride, : size.width // stride][::-1].reshape(2, -1).T for stride in strides]
        lengths = np.repeat(strides, [len(grid) for grid in grids])
        if len(lengths) == num_rows:
            return np.column_stack([np.concatenate(grids), lengths]).astype(np.float32)
    raise ModelError(f"{num_rows} rows are not those of YOLOX's cells in {size}", "is the size or the head wrong?")


@np.errstate(over="ignore", invalid="ignore")
def _detr(outputs: Outputs, activation: str, size: Size, min_score: float) -> list[np.ndarray]:
    scores, shares = _detr_scores(outputs, activation)
    boxes = shares * np.array([*size, *size], np.float32)
    best = scores.max(-1) >= min_score
    return [_of_centres(boxes[i][best[i]], scores[i][best[i]]) for i in range(len(boxes))]


def _detr_scores(outputs: Outputs, activation: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores, (n, k, classes), and the boxes as shares of the input, (n, k, 4)."""
    joined = _joined(sorted(outputs, key=lambda output: output.shape[-1] == 4))
    scores = class_scores(joined[..., :-4], activation)
    return scores[..., :-1] if has_no_object(activation) else scores, joined[..., -4:]


def _matrix(shapes: Shapes) -> tuple[int, ...]:
    """Return the shape of the only output, (0, 0) unless it is a matrix."""
    return shapes[0] if len(shapes) == 1 and len(shapes[0]) == 2 else (0, 0)


def _are_boxes(shapes: Shapes, num_labels: int | None) -> bool:
    if len(shapes) > 1:
        return len(shapes) == 3 or (shapes[0][1:] == (5,) and [len(shape) for shape in shapes[1:]] == [1])
    rows, columns = _matrix(shapes)
    return columns == 6 and num_labels != 1 and bool(num_labels or rows <= MOST_CHOSEN)


def _is_yolo(shapes: Shapes, num_labels: int | None) -> bool:
    rows, columns = _matrix(shapes)
    return columns > rows and num_labels in (None, rows - 4)


def _is_yolo5(shapes: Shapes, num_labels: int | None) -> bool:
    rows, columns = _matrix(shapes)
    return rows > columns and num_labels == columns - 5 and (columns > 6 or rows > MOST_CHOSEN)


def _joined_length(shapes: Shapes) -> int:
    """Return the last dimension of the joined outputs, 0 if they can't be joined."""
    if any(len(shape) not in (1, 2) or shape[0] != shapes[0][0] for shape in shapes):
        return 0
    return sum(shape[1] if len(shape) == 2 else 1 for shape in shapes)


@np.errstate(over="ignore", invalid="ignore")
def _of_centres(boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return objects of boxes as centre, width and height, (k, 4), and of scores, (k, classes)."""
    if not len(boxes):
        return np.empty((0, 6), np.float32)
    half = boxes[:, 2:] / 2
    labels = scores.argmax(1).astype(np.float32)
    return np.column_stack([boxes[:, :2] - half, boxes[:, :2] + half, scores.max(1), labels])


def _joined(outputs: Outputs) -> np.ndarray:
    """Return several outputs, (n, k, …) or (n, k), as one: (n, k, sum of the last dimensions)."""
    return np.concatenate([output if output.ndim == 3 else output[..., None] for output in outputs], 2)


def _asks_for_size(own: OwnHead) -> bool:
    """Return whether a head could not be called without a keyword argument `size`."""
    try:
        size = signature(own).parameters.get("size")
    except ValueError:  # some builtins tell none
        return False
    return size is not None and (size.kind, size.default) == (size.KEYWORD_ONLY, size.empty)


def _own_objects(own: OwnHead, outputs: Outputs) -> list[np.ndarray]:
    arrays = [output.copy() for output in outputs]  # which the head may change
    found = [np.asarray(rows) for rows in own(*arrays)]
    if len(found) != len(arrays[0]):
        raise ValueError(f"the head returned {len(found)} results for a batch of {len(arrays[0])}")
    for rows in found:
        if rows.size and (rows.ndim != 2 or rows.shape[1] != 6):
            raise ValueError(f"the head returned an array of {rows.shape} for an image, not (n, 6)")
    return [rows.reshape(-1, 6) for rows in found]


_YOLO5 = Family(
    _is_yolo5,
    _yolo5,
    lambda outputs, activation: _boxes_and_scores(outputs[0]),
    lambda outputs: outputs[0][..., 4:].flatten(),
    lambda shapes, activation: _matrix(shapes)[1] - 5,
)
# Of several that the shapes tell, the first is taken.
FAMILIES = {
    "boxes": Family(
        _are_boxes,
        _boxes,
        _boxes_scores,
        _boxes_classes,
        lambda shapes, activation: None if _joined_length(shapes) == 6 else 0,
    ),
    "yolo": Family(
        _is_yolo,
        _yolo,
        lambda outputs, activation: _boxes_and_scores(outputs[0].swapaxes(1, 2)),
        lambda outputs: outputs[0][:, 4:].flatten(),
        lambda shapes, activation: _matrix(shapes)[0] - 4,
    ),
    "yolo5": _YOLO5,
    "yolox": _YOLO5._replace(is_told=lambda shapes, num_labels: False, find=_yolox),
    "detr": Family(
        lambda shapes, num_labels: [len(shape) for shape in shapes] == [2, 2],
        _detr,
        lambda outputs, activation: [np.sort(_detr_scores(outputs, activation)[0].max(-1), 1)],
        lambda outputs: _detr_scores(outputs, "sigmoid-applied")[0],
        lambda shapes, activation: _joined_length(shapes) - 4 - has_no_object(activation),
    ),
}
