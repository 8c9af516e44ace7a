import re

import numpy as np
import pytest

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import HEADS, DetectionSpec, OutputSpec
from infer_app.base.errors import ModelError, UsageError
from infer_app.build.network.validate_detector import check_detection, choose_head, complete_output

RECIPE = Recipe("letterbox", 64)


ANY = "yolo,yolo5,boxes"


@pytest.mark.parametrize(
    ("shapes", "num_labels", "named", "head"),
    [
        *(([(300, 6)], num_labels, ANY, "boxes") for num_labels in (80, None)),
        ([(100, 4), (100,), (100,)], 80, "boxes", "boxes"),
        ([(100, 5), (100,)], None, "boxes", "boxes"),
        *(([(84, 8400)], num_labels, ANY, "yolo") for num_labels in (80, None)),
        ([(5, 8400)], 1, ANY, "yolo"),
        ([(25200, 85)], 80, ANY, "yolo5"),
        ([(25200, 6)], 1, ANY, "yolo5"),
    ],
)
def test_the_shape_tells_one_of_the_heads_that_the_file_names(shapes, num_labels, named, head):
    assert choose_head(shapes, num_labels, named, "softmax") == head


@pytest.mark.parametrize(
    ("shapes", "num_labels", "named", "fitting"),
    [
        ([(25200, 85)], 80, "", ["yolo5", "yolox"]),
        ([(25200, 85)], None, "", ["yolo5", "yolox"]),
        ([(3549, 6)], 1, "", ["boxes", "yolo5", "yolox"]),
        ([(84, 8400)], 80, "", ["yolo"]),
        ([(100, 4), (100,), (100,)], None, "", ["boxes"]),
        ([(100, 92), (100, 4)], 91, "", ["detr"]),
        ([(300, 84)], 80, "yolo,boxes", []),
        ([(85, 22, 22)], 80, "", []),
        ([(84, 8400)], 90, "yolo", []),
        ([(9, 4), (8,)], None, "", []),
        ([()], None, "", []),
        ([], None, "", []),
    ],
)
def test_a_head_that_nothing_names_is_asked_for(shapes, num_labels, named, fitting):
    error, message = (ModelError, "none fits") if named else (UsageError, "does not say what that means")
    with pytest.raises(error, match=message) as caught:
        choose_head(shapes, num_labels, named, "softmax")
    assert re.findall(r"head=(\w+) for", caught.value.hint) == fitting
    assert "head=package.module:function" in caught.value.hint


def complete(head, shape, num_labels=None, rows=None, own=None, activation="softmax"):
    if rows is None:
        rows = np.zeros((2, int(np.prod(shape))), np.float32)
        if head == "detr":
            rows -= 3  # logits
    spec = OutputSpec("detection", activation, detection=DetectionSpec(head))
    spec = complete_output(spec, [shape], num_labels)
    check_detection(spec, RECIPE, rows, num_labels, own)
    return spec


def test_head_and_shapes_are_kept_with_the_model():
    found = complete("yolo,boxes", (84, 100), 80)
    assert (found.detection.head, found.detection.shapes, found.activation) == ("yolo", ((84, 100),), "none")
    assert complete("detr", (10, 8), 3).activation == "softmax"


@pytest.mark.parametrize(
    ("head", "shape", "num_labels"),
    [
        ("boxes", (10, 7), None),
        ("yolo", (4, 10), None),
        ("yolo5", (10, 5), None),
        ("detr", (10, 5), None),
        *((head, (), None) for head in HEADS),
    ],
)
def test_a_head_that_does_not_fit_is_refused(head, shape, num_labels):
    with pytest.raises(ModelError, match=f"the head {head} takes"):
        complete(head, shape, num_labels)


@pytest.mark.parametrize(("head", "shape"), [("yolo", (7, 10)), ("yolo5", (10, 8)), ("detr", (10, 8))])
def test_the_number_of_labels_is_that_of_the_classes(head, shape):
    assert complete(head, shape, 3)
    with pytest.raises(ModelError, match="4 labels, and the outputs of .* have 3 classes") as caught:
        complete(head, shape, 4)
    assert "RF-DETR add a last line for its unused class" in caught.value.hint


def raise_key_error(outputs):
    raise KeyError("oops")


@pytest.mark.parametrize(
    ("head", "row", "own", "message"),
    [
        ("my:head", (0.0, 0, 9, 9, 0.5, 0.7), list, "my:head gives the class 0.7: classes are whole numbers"),
        ("my:head", (0.0, 0, 9, 9, 0.5, -1.0), list, "my:head gives the class -1: classes are whole numbers"),
        ("my:head", (0.0, 0, 9, 9, 0.5, 1e10), list, "gives the class 1e.10: classes are whole numbers from 0 to"),
        ("my:head", (0.0, 0, 9, 9, 1.5, 0.0), list, "my:head gives a score of 1.5"),
        ("my:head", (0.0,) * 6, raise_key_error, r"my:head failed on outputs of \(1, 6\): KeyError: 'oops'"),
        ("boxes", (0.0, 0, 9, 9, 1.0, 0.9), None, "the class 0.9"),  # boxes, classes, scores: the order of torchvision
        ("boxes", (0.0, 0, 9, 9, 0.5, 3), None, "boxes gives class 3, and there are 3 labels"),
        ("yolo5", (1.0, 1, 1, 1, 1, 40), None, "yolo5 gives a score of 40: scores are between 0 and 1"),
    ],
)
def test_what_is_no_score_or_class_is_refused(head, row, own, message):
    with pytest.raises(ModelError, match=message):
        complete(head, (1, 6), None if head == "yolo5" else 3, rows=np.float32([row]), own=own)


def test_raw_rows_under_another_head_are_told_as_a_wrong_head():
    rows = np.float32([[0.5, 0.5, 1.4, 1.4, 0.01, 0.25], [0.5, 0.5, 1.4, 1.4, 0.02, 0.5]])  # of low scores too
    with pytest.raises(ModelError, match=r"class 0.25: .* \(scores of 0.01 to 0.02\): outputs are not \(n, 6\): x1 y1"):
        complete("boxes", (2, 6), 1, rows=rows.reshape(1, -1))


def test_outputs_that_could_both_be_boxes_are_refused():
    spec = OutputSpec("detection", "sigmoid", detection=DetectionSpec("detr"))
    with pytest.raises(ModelError, match="of which both could be boxes"):
        complete_output(spec, [(10, 4), (10, 4)], None)
    found = complete_output(spec, [(10, 4), (10, 4)], None, is_ordered=True)  # logits and boxes of three classes
    assert found.detection.shapes == ((10, 4), (10, 4))
