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
        (["owl", "dog"], [0.9, 0.9], None),  # one of a few may lie at the edge of what two decoders make of it
        (["owl", "dog", "dog"], [0.9] * 3, "2 of 3 answers are not the same"),
        ([None, None], [0.9, 0.9], "nothing could be compared"),
        ([[0.1, 0.9]] * 3, [0.88, 0.88, 0.2], None),
        ([[0.1, 0.9]] * 3, [0.7, 0.7, 0.2], DIFFERENT_SCORES),
    ],
)
def test_labels_fail_if_they_or_their_scores_are_others(theirs, scores, message):
    label = "owl" if isinstance(theirs[0], str | None) else "1"
    ours = [Prediction(ImageRef(p, p), Output(label=label, score=one)) for p, one in zip("abc", scores, strict=False)]
    failure = failure_of(compare_answers(list(zip("abc", theirs, strict=False)), ours), 0.05)
    assert (failure and failure.message) == message
    if message and "the same" in message and "scores" not in message:
        assert all(flags in failure.hint for flags in ("channels=bgr", "mean=0 and std=0.00392157", "resize"))


@pytest.mark.parametrize(("difference", "is_failure"), [(0.04, False), (0.06, True)])
def test_objects_fail_if_their_scores_are_others(difference, is_failure):
    found = ObjectComparison(0.1, 2, 2, 2, 0, 0.99, difference, difference, (), ())
    report = replace(compare_answers([], []), num_compared=1, agreement=1.0, objects=found)
    assert (failure_of(report, 0.05) is not None) is is_failure
