"""A model beside another function: which images are timed, and when the two are not the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.base.domain import ImageRef, Output, Prediction
from infer_app.build.check.check_report import ObjectComparison
from infer_app.build.check.function_check import compare_answers
from infer_app.build.check.side_by_side import MAX_BLOCKS, cut_into_blocks, failure_of

DIFFERENT_SCORES = "scores of the same answers differ by 0.200 in the median, 0.05 is allowed"


@pytest.mark.parametrize(
    ("num_images", "num_workers", "sizes"),
    [
        (1, 2, [1]),
        (32, 2, [32]),
        (33, 2, [32, 1]),
        (232, 2, [32, 100, 100]),
        (1000, 2, [32, 139, 139, 139, 139, 139, 139, 134]),
        (1000, 16, [256, 372, 372]),
    ],
)
def test_after_the_first_images_both_sides_are_timed_in_blocks(num_images, num_workers, sizes):
    paths = [Path(str(number)) for number in range(num_images)]
    blocks = cut_into_blocks(paths, num_workers)
    assert [len(block) for block in blocks] == sizes
    assert [path for block in blocks for path in block] == paths
    assert len(cut_into_blocks([*paths] * 100, num_workers)) <= MAX_BLOCKS + 1


@pytest.mark.parametrize(
    ("theirs", "scores", "message"),
    [
        (["cat", "dog"], [0.9, 0.9], "not one answer is the same"),
        (
            ["owl", "dog"],
            [0.9, 0.9],
            "this proves little: your answers are 1 dog, 1 owl",
        ),  # one may lie at the edge of two decoders
        (["owl", "dog", "dog"], [0.9] * 3, "2 of 3 answers are not the same"),
        ([None, None], [0.9, 0.9], "nothing could be compared"),
        ([[0.1, 0.9]] * 3, [0.88, 0.88, 0.2], "this proves little: your answers are 3 1"),
        ([[0.1, 0.9]] * 3, [0.7, 0.7, 0.2], DIFFERENT_SCORES),
    ],
)
def test_labels_fail_if_they_or_their_scores_are_others(theirs, scores, message):
    label = "owl" if isinstance(theirs[0], str | None) else "1"
    ours = [Prediction(ImageRef(p, p), Output(label=label, score=one)) for p, one in zip("abc", scores, strict=False)]
    failure = failure_of(compare_answers(list(zip("abc", theirs, strict=False)), ours), 0.05)
    assert (failure and failure.message) == message
    if message and "the same" in message and "scores" not in message:
        assert failure.exit_code == 2
        assert all(flags in failure.hint for flags in ("channels=bgr", "mean=0 and std=0.00392157", "resize"))


@pytest.mark.parametrize(("difference", "is_failure"), [(0.04, False), (0.06, True)])
def test_objects_fail_if_their_scores_are_others(difference, is_failure):
    found = ObjectComparison(0.1, 20, 20, 20, 0, 0.99, difference, difference, (), ())
    report = replace(compare_answers([], []), num_compared=1, agreement=1.0, objects=found)
    assert (failure_of(report, 0.05) is not None) is is_failure


@pytest.mark.parametrize(
    ("num_by_answers", "exit_code", "message"),
    [
        ({"aa": 50, "bb": 50}, None, ""),
        ({"aa": 50, "bb": 46, "ba": 4}, None, ""),
        ({"aa": 50, "bb": 50, "ac": 1}, None, ""),  # a class that they never give
        ({"aa": 50, "bb": 44, "ba": 6}, 2, "6 of 100 answers are not the same"),
        ({"aa": 90, "bb": 9, "ba": 1}, None, ""),
        ({"aa": 90, "bb": 7, "ba": 3}, 2, "3 of 100 answers are not the same"),  # by chance 83 are
        ({"aa": 98, "bb": 2}, 4, "this proves little: your answers are 98 a, 2 b"),
        ({"aa": 98, "bb": 1, "ba": 1}, 4, "this proves little: your answers are 98 a, 2 b"),
        ({"aa": 98, "ba": 2}, 2, "2 of 100 answers are not the same"),
        ({"aa": 96, "ab": 4}, 2, "4 of 100 answers are not the same"),
        ({"aa": 100}, 4, "this proves little: your answers are 100 a"),
        ({"aa": 50, "bb": 48, "cc": 2}, 4, "this proves little: your answers are 50 a, 48 b, 2 c"),
        ({one + one: 5 for one in "abcdefghijkl"}, None, ""),  # of many classes there need not be many of each
        ({one + one: 1 for one in "abcdefghij"}, 4, "this proves little: your answers are 1 a"),
    ],
)
def test_labels_are_judged_by_the_worse_of_all_and_of_what_chance_leaves(num_by_answers, exit_code, message):
    pairs = [pair for pair, num in num_by_answers.items() for _ in range(num)]
    theirs = [(str(number), pair[0]) for number, pair in enumerate(pairs)]
    ours = [Prediction(ImageRef(str(n), str(n)), Output(label=pair[1], score=0.9)) for n, pair in enumerate(pairs)]
    failure = failure_of(compare_answers(theirs, ours), 0.05)
    assert (failure and failure.exit_code, failure.message[: len(message)] if failure else "") == (exit_code, message)


@pytest.mark.parametrize(("score", "num_moved"), [(0.85, 0), (0.6, 1)])
def test_the_same_labels_with_other_scores_prove_little(score, num_moved):
    theirs = [(str(number), [0.9, 0.1] if number % 2 else [0.1, 0.9]) for number in range(40)]
    ours = [
        Prediction(ImageRef(str(n), str(n)), Output(label=str(int(n % 2 == 0)), score=0.9 if n else score))
        for n in range(40)
    ]
    failure = failure_of(compare_answers(theirs, ours), 0.05)
    assert (failure.exit_code if failure else 0) == (4 if num_moved else 0)
    if failure:
        assert failure.message == "scores of 1 image of the same label differ by more than 0.1"
        assert "JPEG" in failure.hint


@pytest.mark.parametrize(("num_objects", "exit_code"), [(9, 4), (10, 0)])
def test_few_objects_prove_little(num_objects, exit_code):
    found = ObjectComparison(0.1, num_objects, num_objects, num_objects, 0, 0.99, 0.0, 0.0, (), ())
    failure = failure_of(replace(compare_answers([], []), num_compared=1, agreement=1.0, objects=found), 0.05)
    assert (failure.exit_code if failure else 0) == exit_code


def test_a_function_that_leaves_objects_out_may_differ_in_a_few_of_its_own():
    found = ObjectComparison(0.1, 100, 98, 108, 10, 0.99, 0.0, 0.0, (), ())
    report = replace(compare_answers([], []), num_compared=40, agreement=0.75, objects=found)
    assert failure_of(report, 0.05) is None


@pytest.mark.parametrize(("num_extra", "exit_code"), [(0, 0), (1, 0), (3, 4)])
def test_objects_that_only_the_model_finds_prove_little(num_extra, exit_code):
    """A program may leave some out, and another recipe may find more."""
    found = ObjectComparison(0.1, 20, 20, 20 + num_extra, num_extra, 0.99, 0.0, 0.0, (), ())
    failure = failure_of(replace(compare_answers([], []), num_compared=1, agreement=0.9, objects=found), 0.05)
    assert (failure.exit_code if failure else 0) == exit_code
    if failure:
        assert failure.message == "of our 23 objects, you do not have 3"
        assert failure.hint.startswith("does your program leave some out? Else the recipe differs in channels")


def test_boxes_that_all_lie_elsewhere_fail_by_name_however_far_they_overlap():
    found = ObjectComparison(0.1, 20, 20, 20, 0, 0.95, 0.0, 0.0, (), (), geometry="ours moved by 4.0 and -3.0 pixels")
    failure = failure_of(replace(compare_answers([], []), num_compared=1, agreement=1.0, objects=found), 0.05)
    assert (failure.exit_code, failure.message) == (2, "your boxes are ours moved by 4.0 and -3.0 pixels")
