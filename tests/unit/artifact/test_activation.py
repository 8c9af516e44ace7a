"""What a network ends in decides which `activation` is right; every other one is refused with that one."""

import json

import numpy as np
import pytest

from infer_app.artifact.activation import check_scores, class_scores, doubt_activation
from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import ACTIVATIONS, DetectionSpec, OutputSpec
from infer_app.base.errors import ModelError
from infer_app.build.network.validate_detector import check_detection, complete_output
from infer_app.build.network.validate_source import SourceOutputs, check_meaning
from infer_app.predict.verification.outputs import KINDS

ENDS = {
    "nothing": lambda raw: raw,
    "softmax": lambda raw: class_scores(raw, "softmax"),
    "sigmoid": lambda raw: class_scores(raw, "sigmoid"),
}
LABELS = ("a", "b", "c")
RIGHT = {"nothing": ("softmax", "sigmoid"), "softmax": ("none",), "sigmoid": ("sigmoid-applied",)}


def logits(*shape):
    return 4 * np.random.default_rng(0).standard_normal(shape, np.float32)


def of_classifier(raw, activation):
    check_meaning(SourceOutputs(raw, (tuple(raw.shape[1:]),)), OutputSpec(activation=activation), raw.shape[1])


def of_detr(raw, activation):
    check_detector("detr", np.concatenate([raw.reshape(4, 2, -1), np.full((4, 2, 4), 0.5)], 2), activation)


def check_detector(head, rows, activation="softmax"):
    output = OutputSpec("detection", activation, detection=DetectionSpec(head))
    output = complete_output(output, [tuple(rows.shape[1:])], None)
    check_detection(output, Recipe("stretch", 64), rows.reshape(len(rows), -1), None, None)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("check", [of_classifier, of_detr])
def test_the_flag_is_right_or_refused_with_the_right_one(check, end, activation):
    raw = ENDS[end](logits(8, 3))
    if activation in RIGHT[end]:
        check(raw, activation)
        return
    with pytest.raises(ModelError) as caught:
        check(raw, activation)
    assert f"activation={RIGHT[end][0]}" in caught.value.hint


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("end", "right"), [("nothing", "sigmoid"), ("sigmoid", "sigmoid-applied")])
def test_one_output_is_a_yes_or_no(end, right, activation):
    raw = ENDS[end](logits(4, 1))
    if activation in (right, "sigmoid"):  # four numbers prove no sigmoid
        of_classifier(raw, activation)
        assert bool(doubt_activation(raw, activation)) == (activation != right)
        return
    with pytest.raises(ModelError) as caught:
        of_classifier(raw, activation)
    assert right in caught.value.hint
    assert "--output regression" in caught.value.hint


@pytest.mark.parametrize(
    ("raw", "activation"), [([[0.31], [0.72], [0.15], [0.55]], "sigmoid"), ([[0.31, 0.2], [0.72, 0.4]], "softmax")]
)
def test_few_logits_may_be_between_0_and_1(raw, activation):
    of_classifier(np.float32(raw), activation)
    assert "golden=FOLDER" in doubt_activation(np.float32(raw), activation)
    assert doubt_activation(np.float32(raw) - 1, activation) == ""


def test_a_softmax_that_is_quantised_inside_sums_to_about_1():
    raw = np.float32([[0.703125, 0.30078125], [0.5, 0.49609375]])
    of_classifier(raw, "none")
    with pytest.raises(ModelError) as caught:
        of_classifier(raw, "softmax")
    assert caught.value.hint == "build with --set activation=none"


@pytest.mark.parametrize("activation", ["none", "sigmoid-applied"])
def test_a_score_that_rounding_has_moved_is_clamped_and_another_is_none(activation):
    near = np.float32([[1.0004, 1.0002, -0.0004], [-0.0004, -0.0002, -0.0003]])
    check_scores(near, activation)
    first, second = KINDS["classification"].decode(near, OutputSpec(activation=activation), LABELS)
    assert [(one.label, one.score) for one in (first, second)] == [("a", 1.0), ("b", 0.0)]
    assert {one["score"] for one in next(iter(json.loads(first.details).values()))} <= {1.0, 0.0}
    check_scores(np.float32([[np.nan, np.inf]]), activation)  # no scores at all, which is told otherwise
    for outside in (1.3, -0.2):
        with pytest.raises(ValueError, match=f"a score of {outside}: scores are between 0 and 1"):
            check_scores(np.float32([[0.5, outside]]), activation)


@pytest.mark.parametrize(("head", "shape"), [("boxes", (4, 6)), ("yolo", (7, 4)), ("yolo5", (4, 8))])
def test_logits_are_no_scores_of_a_head_without_an_activation(head, shape):
    rows = np.full((2, *shape), -3.0)
    if head == "boxes":
        rows[..., 5] = 0
    with pytest.raises(ModelError, match="gives a score of -3: scores are between 0 and 1") as caught:
        check_detector(head, rows)
    assert "a sigmoid missing" in caught.value.hint


def test_rows_that_fill_up_may_have_a_score_of_minus_one():
    rows = np.float32([[[0.0, 0, 9, 9, 0.5, 0], [0, 0, 0, 0, -1, 0], [0, 0, 0, 0, -7, -1]]])
    check_detector("boxes", rows)
