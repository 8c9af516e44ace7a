from dataclasses import replace

import numpy as np
import pytest
import torch

from infer_app.artifact.activation import class_scores
from infer_app.base.domain import Broken, ImageRef, Output, Prediction, Reason
from infer_app.build.check.check_report import DifferentAnswer, Failure, TimedBlock
from infer_app.build.check.function_check import answered_label, compare_answers

LABELS = ("cat", "dog", "owl")
SCORES = [0.1, 0.7, 0.2]


def ours(path, label, score=0.9):
    return Prediction(ImageRef(path, path), Output(label=label, score=score))


@pytest.mark.parametrize(
    "answer",
    [
        "dog",
        ("dog", 0.9),
        1,
        np.int64(1),
        torch.tensor(1),
        (0, 5, 1),
        np.array(SCORES),
        torch.tensor([SCORES], requires_grad=True),
    ],
)
def test_scores_an_index_and_a_label_mean_the_same(answer):
    assert answered_label(answer, LABELS) == "dog"
    assert answered_label(torch.tensor([0.0, 3.0])) == "1"  # without labels by its index


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        *((answer, "is neither scores nor a label") for answer in (None, True, {"dog": 0.9})),
        (0.7, "not a class index"),
        (3, "class index 3 of 3 classes"),
        (-1, "class index -1"),
        ([0.1, 0.9], "2 scores for 3 labels"),
        *((answer, "not one score for each class") for answer in ([], [SCORES, SCORES], ["a", "b", "c"])),
        ([0.1, float("nan"), 0.2], "not finite"),
        (("dog", 1, 2), "not one score for each class"),
    ],
)
def test_what_is_no_answer_is_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        answered_label(answer, LABELS)


def test_all_the_same_is_full_agreement():
    report = compare_answers([("a", "cat"), ("b", [0.1, 0.9, 0.0])], [ours("b", "dog"), ours("a", "cat")], LABELS)
    assert (report.num_images, report.num_compared, report.agreement, report.disagreements) == (2, 2, 1.0, ())
    assert (report.num_labels, report.scores.num_images, report.scores.worst_difference) == (2, 1, 0.0)
    assert report.to_json()["scores"]["worst_difference"] == 0.0


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_scores_are_compared_with_outputs_and_with_probabilities_alike(activation):
    outputs = np.float32([[2.0, 0.5, -1.0], [-3.0, 1.0, 3.0]])
    right = class_scores(outputs, activation)
    twice = class_scores(right, activation)

    def worst(theirs, scores, **flags):
        pairs = [ours(path, LABELS[row.argmax()], float(row.max())) for path, row in zip("ab", scores, strict=True)]
        report = compare_answers(list(zip("ab", theirs, strict=True)), pairs, LABELS, activation=activation, **flags)
        assert (report.agreement, report.scores.num_images) == (1.0, 2)
        return report.scores.worst_difference

    assert worst(outputs, right, are_outputs=True) < 1e-6
    assert worst(outputs, right) < 1e-6
    assert worst(right, right) < 1e-6
    assert worst(right, right, are_outputs=True) > 0.1
    assert worst(right, twice) > 0.1


def test_the_score_of_a_label_is_compared_as_it_is():
    theirs = [("a", ("cat", 0.5)), ("b", ("dog", 0.9)), ("c", ("dog", 7.0))]
    report = compare_answers(
        theirs, [ours("a", "cat"), ours("b", "dog"), ours("c", "dog")], LABELS, activation="softmax"
    )
    assert (report.agreement, report.scores.num_images) == (1.0, 2)
    assert report.scores.worst_difference == pytest.approx(0.4)
    assert report.their_failures == (Failure("c", "ValueError: the score 7.0 of dog is not between 0 and 1"),)


def test_a_ratio_is_of_as_many_images_on_both_sides_and_has_its_range():
    blocks = [TimedBlock(100, 4.0, 1.0, 0.5), TimedBlock(100, 6.0, 1.0, 0.1)]
    report = compare_answers([], [], blocks=blocks)
    assert (report.num_timed, report.ratio, report.ratio_range) == (200, 5.0, (4.0, 6.0))
    assert (report.their_images_per_second, report.our_images_per_second) == (20.0, 100.0)
    assert report.taken_by_others == pytest.approx(0.05)
    few = compare_answers([], [], blocks=[replace(blocks[0], num_images=99), blocks[1]])
    assert (few.num_images, few.agreement, few.ratio, few.ratio_range) == (0, None, None, None)


def test_the_disagreements_that_we_are_surest_of_come_first():
    report = compare_answers(
        [("a", "cat"), ("b", "cat"), ("c", "cat"), ("d", "cat")],
        [ours("a", "dog", 0.4), ours("b", "cat"), ours("c", "owl", 0.99), ours("d", "dog", 0.4)],
        LABELS,
    )
    assert report.agreement == 0.25
    assert report.disagreements == (
        DifferentAnswer("c", "cat", "owl", 0.99),
        DifferentAnswer("a", "cat", "dog", 0.4),
        DifferentAnswer("d", "cat", "dog", 0.4),
    )


def test_failures_of_either_side_are_named_and_not_compared():
    broken = Broken(ImageRef("b", "b"), Reason.TRUNCATED, "ends early", "decode")
    report = compare_answers(
        [("a", KeyError("x")), ("b", "cat"), ("c", "cat"), ("d", None)],
        [ours("a", "dog"), broken, ours("c", "cat"), ours("d", "cat"), ours("e", "cat")],
        LABELS,
    )
    assert (report.num_images, report.num_compared, report.agreement, report.scores) == (5, 1, 1.0, None)
    assert report.their_failures == (
        Failure("a", "KeyError: 'x'"),
        Failure("d", "ValueError: a NoneType is neither scores nor a label"),
    )
    assert report.our_rejections == (Failure("b", "truncated: ends early"),)
