from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.cli.commands.model_commands import CheckOptions
from infer_app.cli.model.check import MAX_BLOCKS, _failure_of, _print_check, cut_into_blocks
from infer_app.cli.model.object_differences import print_objects
from infer_app.domain import ImageRef, Output, Prediction
from infer_app.models.verification.function_check import DifferentObject, ObjectComparison, compare_answers


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
    ("theirs", "message"),
    [
        (["cat", "dog"], "not one answer is the same"),
        (["owl", "dog"], None),
        ([None, None], "nothing could be compared"),
    ],
)
def test_a_check_fails_if_no_answer_is_the_same_and_says_what_to_look_at(theirs, message):
    ours = [Prediction(ImageRef(path, path), Output(label="owl", score=0.9)) for path in "ab"]
    failure = _failure_of(compare_answers(list(zip("ab", theirs, strict=True)), ours), 0.05)
    assert (failure and failure.message) == message
    if message == "not one answer is the same":
        assert all(flags in failure.hint for flags in ("--channels bgr", "--mean 0 --std 0.00392157", "--resize"))


@pytest.mark.parametrize(("score", "is_failure"), [(0.88, False), (0.7, True)])
def test_a_check_fails_if_the_scores_of_the_same_labels_are_others(score, is_failure):
    """Of most images: one may lie at the edge of what two decoders make of it."""
    theirs = [(path, [0.1, 0.9]) for path in "abc"]
    scores = zip("abc", (score, score, 0.2), strict=True)
    ours = [Prediction(ImageRef(path, path), Output(label="1", score=one)) for path, one in scores]
    failure = _failure_of(compare_answers(theirs, ours), 0.05)
    assert (failure is not None) is is_failure
    if failure:
        assert failure.message == "labels are the same, scores are not: they differ by 0.200, 0.05 is allowed"


@pytest.mark.parametrize(("difference", "is_failure"), [(0.04, False), (0.06, True)])
def test_a_check_fails_if_the_scores_of_the_same_objects_are_others(difference, is_failure):
    found = ObjectComparison(0.1, 2, 2, 2, 0, 0.99, difference, difference, (), ())
    report = replace(compare_answers([], []), num_compared=1, agreement=1.0, objects=found)
    assert (_failure_of(report, 0.05) is not None) is is_failure


SITES = ["site1/IMG_0017.JPG", "site2/IMG_0017.JPG"]  # cameras count alike


@pytest.mark.parametrize(("against", "said"), [("my:predict", "your function"), (None, "the model's source")])
def test_images_are_named_from_the_folder_on(tmp_path, capsys, against, said):
    paths = [str(tmp_path / site) for site in SITES]
    ours = [Prediction(ImageRef(path, path), Output(label="owl", score=0.9)) for path in paths]
    report = compare_answers([(paths[0], "dog"), (paths[1], "dog"), ("c.jpg", OSError("no"))], ours)
    _print_check(report, CheckOptions(name="birds", images=tmp_path, against=against), "it")
    told = capsys.readouterr().out
    assert [f"│ {site} │" in told for site in SITES] == [True, True]
    assert f"{said} failed on c.jpg: OSError: no" in told


def test_images_of_objects_are_named_from_the_folder_on(tmp_path, capsys):
    found = [DifferentObject(str(tmp_path / site), "ours", "fox", 0.9, (0, 0, 1, 1), 0.0) for site in SITES]
    print_objects(ObjectComparison(0.1, 0, 0, 2, 2, None, None, None, tuple(found), ()), tmp_path)
    told = capsys.readouterr().out
    assert [told.count(f"│ {site} │") for site in SITES] == [2, 2]
