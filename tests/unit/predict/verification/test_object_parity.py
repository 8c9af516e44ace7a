import numpy as np
import pytest

from infer_app.artifact.specs import DetectionSpec
from infer_app.predict.verification.object_parity import compared_score, find_missing, measure_agreement

BOX, MOVED, AWAY = [0, 0, 100, 100], [0, 0, 100, 92], [300, 300, 400, 400]
FAR = [0, 0, 100, 60]  # overlaps BOX by 0.6


def objects(*found):
    return np.array([(*box, score, label) for box, score, label in found], np.float64).reshape(-1, 6)


def test_the_same_objects_agree_and_their_scores_are_compared():
    figures, differences = measure_agreement(
        [objects((BOX, 0.9, 0), (AWAY, 0.5, 1))], [objects((MOVED, 0.8, 0), (AWAY, 0.75, 1))], 0.25, 0.9
    )
    assert figures == {"num_objects": 2, "object_agreement": 1.0}
    assert sorted(differences) == [pytest.approx(-0.1), 0.25]


PAIR = [(BOX, 0.9, 0), (AWAY, 0.5, 1)]
NEW, OTHER_NEW = ([9, 9, 30, 30], 0.3, 0), ([50, 50, 60, 60], 0.26, 0)


@pytest.mark.parametrize(
    ("expected", "actual", "min_iou", "share"),
    [
        (PAIR, PAIR[:1], 0.5, 0.5),  # one is lost
        (PAIR, [PAIR[0], (AWAY, 0.1, 1)], 0.5, 1.0),  # one is still there, with less than it is compared from
        (PAIR, [PAIR[0], (AWAY, 0.9, 2)], 0.5, 0.5),  # of another class
        (PAIR, [(FAR, 0.9, 0), PAIR[1]], 0.5, 1.0),
        (PAIR, [*PAIR, NEW, OTHER_NEW], 0.5, 0.5),  # two are new
        (PAIR, [*PAIR, ([9, 9, 30, 30], 0.2, 0)], 0.5, 1.0),  # new with a score that does not count
        (PAIR, [*PAIR, (BOX, 0.8, 0), PAIR[1]], 0.5, 0.5),  # twice is new
        (PAIR[:1], [(FAR, 0.9, 0)], 0.9, 0.0),  # of an exact variant
        (PAIR[:1], [(MOVED, 0.9, 0)], 0.9, 1.0),
        ([PAIR[0], (AWAY, 0.24, 1)], [PAIR[0], (AWAY, 0.26, 1)], 0.5, 1.0),  # it rose over the score and is not new
        ([(MOVED, 0.1, 0), PAIR[0]], [([0, 0, 100, 91], 0.9, 0)], 0.5, 1.0),  # a low one takes no match of a high one
        ([], [], 0.5, None),
        ([(BOX, 0.1, 0)], [(BOX, 0.2, 0)], 0.5, None),
        ([], PAIR[:1], 0.5, 0.0),
    ],
)
def test_what_is_lost_or_new_lowers_the_agreement(expected, actual, min_iou, share):
    assert measure_agreement([objects(*expected)], [objects(*actual)], 0.25, min_iou)[0]["object_agreement"] == share


def test_an_image_that_only_the_other_rejects_has_lost_its_objects_and_one_that_both_reject_does_not_count():
    one = objects((BOX, 0.9, 0))
    assert measure_agreement([one, one], [one, None], 0.25, 0.5)[0]["object_agreement"] == 0.5
    assert measure_agreement([one, None], [one, None], 0.25, 0.5)[0]["object_agreement"] == 1


def test_objects_are_compared_from_a_score_that_is_stored():
    assert (compared_score(DetectionSpec()), compared_score(DetectionSpec(min_score=0.4))) == (0.25, 0.4)


YOLO, BOXES = DetectionSpec("yolo", nms=0.45), DetectionSpec("boxes")  # which suppresses nothing
FEW = DetectionSpec("yolo", max_objects=2)
EXACT = {"margin": 0.01, "is_exact": True}
HALF = [0, 0, 100, 47]  # overlaps BOX by 0.47: more than is suppressed, less than is the same object
THIN = [20, 50, 30, 50.0002]
TWO, ONE = [(BOX, 0.6, 0), (AWAY, 0.9, 1)], [(BOX, 0.5, 0)]


@pytest.mark.parametrize(
    ("expected", "actual", "missing", "spec", "given"),
    [
        (TWO, [], (AWAY, 0.9), YOLO, {}),  # the best
        (TWO, TWO[1:], (BOX, 0.6), YOLO, {}),
        (TWO[:1], [(MOVED, 0.1, 0)], None, YOLO, {}),
        ([(BOX, 0.29, 0)], [], None, YOLO, {}),  # close to the score from which objects are compared none is needed
        ([(BOX, 0.31, 0)], [], (BOX, 0.31), YOLO, {}),
        (ONE, [(BOX, 0.47, 1)], None, YOLO, {}),  # of two close classes of a box either may win
        ([(BOX, 0.9, 0)], [(BOX, 0.5, 1)], (BOX, 0.9), YOLO, {}),
        (ONE, [(HALF, 0.49, 0)], None, YOLO, {}),  # of two close boxes either may suppress the other
        (ONE, [(HALF, 0.4, 0)], (BOX, 0.5), YOLO, {}),
        (ONE, [(HALF, 0.49, 0)], (BOX, 0.5), BOXES, {}),
        (ONE, [(MOVED, 0.495, 0)], None, YOLO, EXACT),
        (ONE, [(BOX, 0.48, 0)], (BOX, 0.5), YOLO, EXACT),
        (ONE, [(FAR, 0.5, 0)], (BOX, 0.5), BOXES, EXACT),
        (ONE, [(BOX, 0.5, 1)], (BOX, 0.5), YOLO, EXACT),
        (ONE, [(FAR, 0.5, 0)], None, YOLO, EXACT),  # which suppresses it by now
        ([(THIN, 0.9, 0)], [], None, YOLO, EXACT),
        ([([20, 50, 30, 50.6], 0.9, 0)], [(THIN, 0.9, 0)], ([20, 50, 30, 50.6], 0.9), YOLO, EXACT),
        (TWO, [(AWAY, 0.9, 1)], (BOX, 0.6), FEW, EXACT),
        (TWO[::-1], [TWO[1], (NEW[0], 0.61, 0), TWO[0]], None, FEW, EXACT),  # more are found than are stored
        ([TWO[1], TWO[0], NEW], [TWO[1], TWO[0]], None, FEW, EXACT),  # which are not asked for
    ],
)
def test_the_best_object_that_is_not_there_is_named(expected, actual, missing, spec, given):
    found = find_missing(objects(*expected), objects(*actual), spec, **({"margin": 0.05} | given))
    assert (None if found is None else (found[:4].tolist(), found[4])) == missing
