import numpy as np
import pytest

from infer_app.models.artifact.specs import DetectionSpec
from infer_app.models.verification.object_parity import compared_score, find_missing, measure_agreement

BOX, MOVED, AWAY = [0, 0, 100, 100], [0, 0, 100, 92], [300, 300, 400, 400]
FAR = [0, 0, 100, 60]  # overlaps BOX by 0.6


def objects(*found):
    return np.array([(*box, score, label) for box, score, label in found], np.float64).reshape(-1, 6)


def agreement(expected, actual, min_iou=0.5):
    return measure_agreement([objects(*expected)], [objects(*actual)], 0.25, min_iou).agreement


def test_the_same_objects_agree_and_their_scores_are_compared():
    found = measure_agreement(
        [objects((BOX, 0.9, 0), (AWAY, 0.5, 1))], [objects((MOVED, 0.8, 0), (AWAY, 0.75, 1))], 0.25, 0.9
    )
    assert (found.num_objects, found.agreement) == (2, 1.0)
    assert sorted(found.score_differences) == [pytest.approx(-0.1), 0.25]


@pytest.mark.parametrize(
    ("actual", "share"),
    [
        ([(BOX, 0.9, 0)], 0.5),  # one is lost
        ([(BOX, 0.9, 0), (AWAY, 0.1, 1)], 1.0),  # one is still there, with less than it is compared from
        ([(BOX, 0.9, 0), (AWAY, 0.9, 2)], 0.5),  # of another class
        ([(FAR, 0.9, 0), (AWAY, 0.5, 1)], 1.0),
        ([(BOX, 0.9, 0), (AWAY, 0.5, 1), ([9, 9, 30, 30], 0.3, 0), ([50, 50, 60, 60], 0.26, 0)], 0.5),  # two are new
        ([(BOX, 0.9, 0), (AWAY, 0.5, 1), ([9, 9, 30, 30], 0.2, 0)], 1.0),  # new with a score that does not count
        ([(BOX, 0.9, 0), (BOX, 0.8, 0), (AWAY, 0.5, 1), (AWAY, 0.5, 1)], 0.5),  # twice is new
    ],
)
def test_what_is_lost_or_new_lowers_the_agreement(actual, share):
    assert agreement([(BOX, 0.9, 0), (AWAY, 0.5, 1)], actual) == share


def test_in_full_precision_boxes_must_overlap_more():
    assert agreement([(BOX, 0.9, 0)], [(FAR, 0.9, 0)], 0.9) == 0
    assert agreement([(BOX, 0.9, 0)], [(MOVED, 0.9, 0)], 0.9) == 1


def test_an_object_that_rises_over_the_score_is_not_new_if_it_was_there():
    assert agreement([(BOX, 0.9, 0), (AWAY, 0.24, 1)], [(BOX, 0.9, 0), (AWAY, 0.26, 1)]) == 1


def test_a_low_object_takes_no_match_from_a_high_one():
    low_is_nearer = [(MOVED, 0.1, 0), (BOX, 0.9, 0)]
    assert agreement(low_is_nearer, [([0, 0, 100, 91], 0.9, 0)]) == 1


def test_images_without_objects_tell_nothing():
    assert agreement([], []) is None
    assert agreement([(BOX, 0.1, 0)], [(BOX, 0.2, 0)]) is None
    assert agreement([], [(BOX, 0.9, 0)]) == 0


def test_an_image_that_only_the_other_rejects_has_lost_its_objects_and_one_that_both_reject_does_not_count():
    one = objects((BOX, 0.9, 0))
    assert measure_agreement([one, one], [one, None], 0.25, 0.5).agreement == 0.5
    assert measure_agreement([one, None], [one, None], 0.25, 0.5).agreement == 1


def test_objects_are_compared_from_a_score_that_is_stored():
    assert (compared_score(DetectionSpec()), compared_score(DetectionSpec(min_score=0.4))) == (0.25, 0.4)


def missing(expected, actual, spec=None, **changes):
    given = {"margin": 0.05} | changes
    found = find_missing(objects(*expected), objects(*actual), spec or DetectionSpec("yolo", nms=0.45), **given)
    return None if found is None else (found[:4].tolist(), found[4])


def test_the_best_object_that_is_not_there_is_named():
    assert missing([(BOX, 0.6, 0), (AWAY, 0.9, 1)], []) == (AWAY, 0.9)
    assert missing([(BOX, 0.6, 0), (AWAY, 0.9, 1)], [(AWAY, 0.9, 1)]) == (BOX, 0.6)
    assert missing([(BOX, 0.6, 0)], [(MOVED, 0.1, 0)]) is None


def test_close_to_the_score_from_which_objects_are_compared_none_is_needed():
    assert missing([(BOX, 0.29, 0)], []) is None
    assert missing([(BOX, 0.31, 0)], []) == (BOX, 0.31)


def test_of_two_close_classes_of_a_box_either_may_win():
    assert missing([(BOX, 0.5, 0)], [(BOX, 0.47, 1)]) is None
    assert missing([(BOX, 0.9, 0)], [(BOX, 0.5, 1)]) == (BOX, 0.9)


def test_of_two_close_boxes_either_may_suppress_the_other():
    half = [0, 0, 100, 47]  # overlaps by 0.47: more than is suppressed, less than is the same object
    assert missing([(BOX, 0.5, 0)], [(half, 0.49, 0)]) is None
    assert missing([(BOX, 0.5, 0)], [(half, 0.4, 0)]) == (BOX, 0.5)
    assert missing([(BOX, 0.5, 0)], [(half, 0.49, 0)], DetectionSpec("boxes")) == (BOX, 0.5)  # it suppresses nothing


def test_in_full_precision_the_score_must_be_the_same():
    strict = {"margin": 0.01, "is_exact": True}
    assert missing([(BOX, 0.5, 0)], [(MOVED, 0.495, 0)], **strict) is None
    assert missing([(BOX, 0.5, 0)], [(BOX, 0.48, 0)], **strict) == (BOX, 0.5)
    assert missing([(BOX, 0.5, 0)], [(FAR, 0.5, 0)], DetectionSpec("boxes"), **strict) == (BOX, 0.5)
    assert missing([(BOX, 0.5, 0)], [(BOX, 0.5, 1)], **strict) == (BOX, 0.5)
    assert missing([(BOX, 0.5, 0)], [(FAR, 0.5, 0)], **strict) is None  # which suppresses it by now
