"""Find out what a detector's outputs mean, and reject outputs at the build that don't fit the head."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from infer_app.artifact.activation import ROUNDING, check_activation
from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import HEADS, DetectionSpec, OutputSpec
from infer_app.base.errors import ModelError
from infer_app.predict.detection.heads import OwnHead, class_outputs, has_no_object
from infer_app.predict.detection.object_decoder import ObjectDecoder, split_outputs

Shapes = Sequence[tuple[int, ...]]  # of one image's outputs
MOST_CHOSEN = 1000  # boxes that a network with its own suppression gives; without one there are more

_SHAPES = {
    "boxes": "(n, 6): x1 y1 x2 y2 score class; or boxes (n, 4), scores (n) and classes (n)",
    "yolo": "(4 + classes, n): centre x, centre y, width, height, a score for each class",
    "yolo5": "(n, 5 + classes): centre x, centre y, width, height, objectness, a score for each class",
    "detr": "logits (n, classes) and boxes (n, 4): centre x, centre y, width, height, 0-1",
}

_OWN_HEAD = "write the head yourself: --head package.module:function"
_HEAD_HINT = f"is --head wrong, or the order of the outputs, or is a sigmoid missing? {_OWN_HEAD}"


def complete_detection(spec: OutputSpec, shapes: Shapes, num_labels: int | None) -> OutputSpec:
    """Return the output with its head and shapes.

    Raises ModelError if the head can't be told, or does not fit the shapes.
    """
    detection: DetectionSpec = spec.detection or DetectionSpec()
    head = detection.head or choose_head(shapes, num_labels)
    activation = spec.activation if head == "detr" else "none"
    check_head(head, shapes, activation)
    return replace(spec, activation=activation, detection=replace(detection, head=head, shapes=tuple(shapes)))


def check_detection(
    spec: OutputSpec, recipe: Recipe, rows: np.ndarray, num_labels: int | None, own_head: OwnHead | None
) -> None:
    """Run the head on the golden images' rows, (n, D). Raises ModelError if it fits neither them nor the labels."""
    assert spec.detection is not None
    head, shapes = spec.detection.head, spec.detection.shapes
    num_classes = check_head(head, shapes, spec.activation)
    if head in HEADS:
        _check_scores(class_outputs(split_outputs(rows, shapes), head), head, spec.activation)
    if num_labels is not None and num_classes not in (None, num_labels):
        raise ModelError(
            f"{num_labels} labels, and the outputs of --head {head} have {num_classes} classes",
            "class i is line i of the labels file; is --head wrong, or of detr --activation, by which the last class "
            "is that of no object or not?",
        )
    decoder = ObjectDecoder(spec, recipe, (), own_head)
    try:
        found = decoder.candidates(rows)
    except (Exception, SystemExit) as error:
        if own_head is None:
            raise
        raise ModelError(
            f"--head {head} failed on outputs of {_as_text(shapes)}: {type(error).__name__}: {error}",
            "it takes each output of a batch as an array, and returns for each image an array of (n, 6): x1 y1 x2 y2 "
            "in pixels of the model's input, score, class",
        ) from error
    try:
        objects = [decoder.drop_low_scores(of_image) for of_image in found]
    except (ValueError, TypeError) as error:
        raise ModelError(f"--head {head} gives {error}", _HEAD_HINT) from error
    _check_classes(objects, head, num_labels)


def choose_head(shapes: Shapes, num_labels: int | None) -> str:
    """Return the head that outputs of these shapes have. Raises ModelError if that can't be told."""
    if len(shapes) == 3 or (len(shapes) == 2 and shapes[0][1:] == (5,) and len(shapes[1]) == 1):
        return "boxes"
    if len(shapes) == 2 and all(len(shape) == 2 for shape in shapes):
        return "detr"
    if len(shapes) == 1 and len(shapes[0]) == 2:
        rows, columns = shapes[0]
        if columns == 6 and num_labels != 1 and (num_labels or rows <= MOST_CHOSEN):
            return "boxes"
        if columns > rows and num_labels in (None, rows - 4):
            return "yolo"
        if rows > columns and num_labels == columns - 5 and (columns > 6 or rows > MOST_CHOSEN):
            return "yolo5"
    families = "; ".join(f"--head {head} for {shape}" for head, shape in _SHAPES.items())
    raise ModelError(
        f"an image's output is {_as_text(shapes)}, from which the head can't be determined",
        f"name the head: {families}. For any other network write it yourself: --head package.module:function",
    )


def check_head(head: str, shapes: Shapes, activation: str) -> int | None:
    """Return the number of classes, None if it can't be told.

    Raises ModelError if outputs of these shapes can't be those of the head.
    """
    if head not in HEADS:
        return None
    num_classes: int | None = None
    if head == "boxes" or not all(shapes):
        fits = _joined_length(shapes) == 6
    elif head == "detr" and len(shapes) == 2 and shapes[0][-1] == shapes[1][-1]:
        raise ModelError(
            f"an image's output is {_as_text(shapes)}, of which both could be boxes",
            f"{_OWN_HEAD}, which receives the outputs in order and knows which are the boxes",
        )
    elif head == "detr":
        length = _joined_length(shapes)
        num_classes = length - 4 - has_no_object(activation)
        fits = num_classes > 0
    else:
        fits = len(shapes) == 1 and len(shapes[0]) == 2
        length, extra = (shapes[0][0], 4) if head == "yolo" else (shapes[0][-1], 5)
        fits, num_classes = fits and length > extra, length - extra
    if not fits:
        raise ModelError(
            f"an image's output is {_as_text(shapes)}, and --head {head} takes {_SHAPES[head]}",
            "name another head; for any other network write it yourself: --head package.module:function",
        )
    return num_classes


def _check_scores(classes: np.ndarray, head: str, activation: str) -> None:
    """Raise ModelError if what the network gives for classes needs another activation, or one that the head has not."""
    if head == "detr":
        check_activation(classes, activation)
    elif len(classes) and classes.min() < -ROUNDING:
        raise ModelError(f"--head {head} gives a score of {classes.min():.4g}: scores are between 0 and 1", _HEAD_HINT)


def _check_classes(objects: Sequence[np.ndarray], head: str, num_labels: int | None) -> None:
    classes = np.concatenate([found[:, 5] for found in objects])
    if num_labels is not None and len(classes) and classes.max() >= num_labels:
        raise ModelError(
            f"--head {head} gives class {int(classes.max())}, and there are {num_labels} labels",
            "class i is line i of the labels file; classes are counted from 0",
        )


def _joined_length(shapes: Shapes) -> int:
    """Return the last dimension of the joined outputs, 0 if they can't be joined."""
    if any(len(shape) not in (1, 2) or shape[0] != shapes[0][0] for shape in shapes):
        return 0
    return sum(shape[1] if len(shape) == 2 else 1 for shape in shapes)


def _as_text(shapes: Shapes) -> str:
    return " and ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
