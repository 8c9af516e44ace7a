"""Find out what a detector's outputs mean, and reject outputs at the build that don't fit the head."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from infer_app.artifact.activation import ROUNDING, check_activation
from infer_app.artifact.artifact import Artifact
from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import HEADS, OutputSpec
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.size import Size
from infer_app.build.network.golden_set import GOLDEN_PIXELS
from infer_app.predict.detection.heads import FAMILIES, OwnHead, Shapes
from infer_app.predict.detection.object_decoder import ObjectDecoder, split_outputs
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.verification.detection import LOWEST_SCORE
from infer_app.predict.verification.golden import golden_outputs
from infer_app.predict.verification.object_parity import COMPARED_SCORE

CORNER, CORNER_SHARE = 8, 0.05  # pixels of the input in which no picture has all of its objects
MANY = 100  # sure objects that all images can't have, as where a head takes the background for a class
_NO_BOXES = "are none"
_OWN_HEAD = "write the head yourself: --set head=package.module:function"
_HEAD_HINT = f"is head wrong, or the order of the outputs, or is a sigmoid missing? {_OWN_HEAD}"


def complete_output(
    spec: OutputSpec, shapes: Shapes, num_labels: int | None, *, is_ordered: bool = False
) -> OutputSpec:
    """Return the output with what the shapes tell: a detector's head, and the shape of raw numbers.

    `is_ordered` says that the user named the outputs in the order of the head. Raises ModelError for a head that does
    not fit the shapes, and UsageError for one that is to be named.
    """
    if spec.detection is None:
        return replace(spec, shape=shapes[0]) if spec.kind == "raw" else spec
    head = spec.detection.head
    if head not in HEADS and not spec.detection.is_own:
        head = choose_head(shapes, num_labels, head, spec.activation)
    detection = replace(spec.detection, head=head, shapes=tuple(shapes))
    activation = spec.activation if detection.takes_activation else "none"
    check_head(head, shapes, activation)
    if not is_ordered and detection.takes_activation and len(shapes) == 2 and shapes[0][-1:] == shapes[1][-1:] != ():
        raise ModelError(
            f"an image's output is {_as_text(shapes)}, of which both could be boxes",
            f"of an ONNX file or an IR name them in order: --set output_name=LOGITS,BOXES; or {_OWN_HEAD}",
        )
    return replace(spec, activation=activation, detection=detection)


def check_detection(
    spec: OutputSpec, recipe: Recipe, rows: np.ndarray, num_labels: int | None, own_head: OwnHead | None
) -> None:
    """Run the head on the golden images' rows, (n, D). Raises ModelError if it fits neither them nor the labels."""
    assert spec.detection is not None
    head, shapes = spec.detection.head, spec.detection.shapes
    num_classes = check_head(head, shapes, spec.activation)
    if head in HEADS:
        _check_scores(FAMILIES[head].classes(split_outputs(rows, shapes)), head, spec.activation)
    if num_labels is not None and num_classes not in (None, num_labels):
        raise ModelError(
            f"{num_labels} labels, and the outputs of the head {head} have {num_classes} classes",
            "class i is line i of the labels file: for RF-DETR add a last line for its unused class; or is head "
            "wrong, or of DETR activation, by which the last class is that of no object?",
        )
    decoder = ObjectDecoder(spec if own_head else _from_low_scores(spec), recipe, (), own_head)
    try:
        found = decoder.candidates(rows)
    except (Exception, SystemExit) as error:
        if own_head is None:
            raise
        raise ModelError(
            f"the head {head} failed on outputs of {_as_text(shapes)}: {type(error).__name__}: {error}",
            "it takes each output of a batch as an array, and returns for each image an array of (n, 6): x1 y1 x2 y2 "
            "in pixels of the model's input, score, class",
        ) from error
    try:
        objects = [decoder.drop_low_scores(of_image) for of_image in found]
    except (ValueError, TypeError) as error:
        said = f"the head {head} gives {error}"
        if head in HEADS:
            scores = np.concatenate(found)[:, 4]
            said += f" (scores of {scores.min():.3g} to {scores.max():.3g}): outputs are not {HEADS[head].outputs}"
        raise ModelError(said, _HEAD_HINT) from error
    _check_classes(objects, head, num_labels)


def doubt_boxes(artifact: Artifact) -> str:
    """Return a warning if none of the golden images' boxes can be right, with heads by which some can; else nothing."""
    spec, labels = artifact.manifest.output, len(artifact.labels) or None
    if spec.detection is None:
        return ""
    rows, recipe = golden_outputs(artifact), artifact.manifest.recipe
    images = [decode_image(artifact.read(path), recipe, GOLDEN_PIXELS) for path in artifact.manifest.golden]
    place = partial(_place_of_boxes, rows, [Size(image.width, image.height) for image in images], recipe)
    doubt = place(spec, artifact.head())
    if doubt in ("", _NO_BOXES):
        return ""
    fitting = [head for head in HEADS if _fits(head, spec.detection.shapes, labels, "softmax")]
    heads = [head for head in fitting if not place(replace(spec, detection=replace(spec.detection, head=head)))]
    own = "a head of your own, which returns pixels of the input"
    hint = " or ".join(f"--set head={head}" for head in heads) or own
    return f"warning: all boxes that {artifact.manifest.name} finds in its golden images {doubt}: try {hint}"


def _place_of_boxes(
    rows: np.ndarray, pictures: Sequence[Size], recipe: Recipe, spec: OutputSpec, own: OwnHead | None = None
) -> str:
    """Return why none of the boxes in rows can be that of an object, nothing if one can."""
    assert spec.detection is not None
    decoder = ObjectDecoder(spec if own else _from_low_scores(spec), recipe, (), own)
    try:
        best = [np.empty((0, 6)) if found is None else found for found in decoder.find(rows)]
        boxes = np.concatenate([decoder.drop_low_scores(found)[:, :4] for found in decoder.candidates(rows)])
        stored = [found and found.objects for found in decoder.decode(rows, pictures)]
    except (Exception, SystemExit):  # of another head, or of the user's, which is checked elsewhere
        return _NO_BOXES
    if not len(boxes):
        return _NO_BOXES
    if not (boxes[:, 2:] > boxes[:, :2]).all(1).any():
        return "have no area"
    corner = min(CORNER, CORNER_SHARE * min(recipe.size))
    if (np.abs(boxes) <= corner).all():
        return f"lie within {corner:g} pixels of the corner"
    if not any(stored):
        return "lie outside of the picture"
    least = min(int((found[:, 4] >= COMPARED_SCORE).sum()) for found in best)
    return f"are {least} of each image, as many as are kept" if least >= max(MANY, spec.detection.max_objects) else ""


def _from_low_scores(spec: OutputSpec) -> OutputSpec:
    """Return an output of which also objects of low scores are found."""
    assert spec.detection is not None
    return replace(spec, detection=replace(spec.detection, min_score=min(spec.detection.min_score, LOWEST_SCORE)))


def choose_head(shapes: Shapes, num_labels: int | None, named: str, activation: str) -> str:
    """Return the one of the named heads, with commas between, that outputs of these shapes have.

    Raises ModelError if that can't be told, and UsageError if none is named: shapes alone don't tell what numbers mean.
    """
    for head in filter(None, named.split(",")):
        if FAMILIES[head].is_told(shapes, num_labels):
            return head
    fitting = {head: facts.outputs for head, facts in HEADS.items() if _fits(head, shapes, num_labels, activation)}
    families = "; ".join(f"--set head={head} for {outputs}" for head, outputs in fitting.items())
    what = f"of the heads {named} that its file names none fits" if named else "its file does not say what that means"
    raise (ModelError if named else UsageError)(
        f"an image's output is {_as_text(shapes)}, and {what}",
        f"{f'these fit its shape: {families}' if families else 'no head fits its shape'}. For any other network write "
        "it yourself: --set head=package.module:function",
    )


def _fits(head: str, shapes: Shapes, num_labels: int | None, activation: str) -> bool:
    """Return whether a head can read outputs of these shapes; without labels there are more boxes than classes."""
    if HEADS[head].takes_activation and len(shapes) != 2:
        return False
    classes = FAMILIES[head].count_classes(shapes, activation)
    if num_labels is not None:
        return classes in (None, num_labels)
    return classes is None or 0 < classes <= max(map(min, shapes))


def check_head(head: str, shapes: Shapes, activation: str) -> int | None:
    """Return the number of classes, None if it can't be told.

    Raises ModelError if outputs of these shapes can't be those of the head.
    """
    if head not in HEADS:
        return None
    num_classes = FAMILIES[head].count_classes(shapes, activation)
    if num_classes is not None and num_classes <= 0:
        raise ModelError(
            f"an image's output is {_as_text(shapes)}, and the head {head} takes {HEADS[head].outputs}",
            "name another head; for any other network write it yourself: --set head=package.module:function",
        )
    return num_classes


def _check_scores(classes: np.ndarray, head: str, activation: str) -> None:
    """Raise ModelError if what the network gives for classes needs another activation, or one that the head has not."""
    if HEADS[head].takes_activation:
        check_activation(classes, activation)
    elif len(classes) and classes.min() < -ROUNDING:
        raise ModelError(
            f"the head {head} gives a score of {classes.min():.4g}: scores are between 0 and 1", _HEAD_HINT
        )


def _check_classes(objects: Sequence[np.ndarray], head: str, num_labels: int | None) -> None:
    classes = np.concatenate([found[:, 5] for found in objects])
    if num_labels is not None and len(classes) and classes.max() >= num_labels:
        raise ModelError(
            f"the head {head} gives class {int(classes.max())}, and there are {num_labels} labels",
            "class i is line i of the labels file; classes are counted from 0",
        )


def _as_text(shapes: Shapes) -> str:
    return " and ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
