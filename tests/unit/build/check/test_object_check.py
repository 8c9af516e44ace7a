import numpy as np
import pytest
import torch

from infer_app.artifact.specs import DetectionSpec
from infer_app.base.domain import Broken, DetectedObject, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.base.size import Size
from infer_app.build.check.check_report import DifferentObject, Failure
from infer_app.build.check.object_check import answered_objects, compare_object_answers

LABELS = ("cat", "dog")
PICTURE = Size(200, 100)
CAT = (20, 10, 120, 60, 0.9, "cat")


def ours(path, *objects, picture=PICTURE):
    """A prediction of objects that are given in pixels, as the user's are."""
    found = tuple(
        DetectedObject(
            label,
            LABELS.index(label),
            score,
            x1 / picture.width,
            y1 / picture.height,
            (x2 - x1) / picture.width,
            (y2 - y1) / picture.height,
        )
        for x1, y1, x2, y2, score, label in objects
    )
    return Prediction(ImageRef(path, path), Output(objects=found), FileFacts(picture=picture))


def compare(theirs, *predictions, detection=None):
    return compare_object_answers(theirs, predictions, detection or DetectionSpec("yolo"), LABELS)


@pytest.mark.parametrize(
    "answer",
    [
        (CAT,),
        [[*CAT[:5], 0]],
        torch.tensor([[*CAT[:5], 0]], dtype=torch.float64, requires_grad=True),
        [(*tuple(np.float64(value) for value in CAT[:5]), np.str_("cat"))],
        [np.array([*CAT[:5], 0])],
    ],
)
def test_an_array_and_a_list_with_indices_or_labels_mean_the_same(answer):
    assert answered_objects(answer, LABELS) == [CAT]
    assert answered_objects(answer[:0], LABELS) == []
    assert answered_objects([(*CAT[:5], 17)])[0][5] == "17"  # without labels a class is its number


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "a NoneType is not objects: an array or a list of rows of x1 y1 x2 y2 in pixels, score, class"),
        ({"boxes": []}, "a dict is not objects"),
        (np.zeros((2, 5)), r"float64 of shape \(2, 5\) is not objects"),
        (np.array([["a"] * 6]), "<U1 of shape"),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0], "0.1 is not an object"),
        ([CAT[:5]], "is not an object: x1 y1 x2 y2"),
        ([(20, 10, float("nan"), 60, 0.9, "cat")], "20 10 nan 60 0.9: numbers are not finite"),
        ([(120, 10, 100, 50, 0.9, "cat")], "120 10 100 50 0.9: x2 < x1 or y2 < y1; boxes are x1 y1 x2 y2, not x y"),
        ([(*CAT[:4], 90, "cat")], "the score, the fifth number, is not between 0 and 1"),
        ([(*CAT[:5], 2)], "class 2 of 2 classes"),
        ([(*CAT[:5], -1)], "class -1"),
        ([(*CAT[:5], 0.5)], "class 0.5"),
    ],
)
def test_what_is_no_answer_is_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        answered_objects(answer, LABELS)


def test_the_same_objects_agree():
    report = compare([("a", [CAT]), ("b", [])], ours("a", (21, 10, 121, 60, 0.8, "cat")), ours("b"))
    assert (report.num_images, report.num_compared, report.agreement, report.disagreements) == (2, 2, 1.0, ())
    found = report.objects
    assert (found.num_theirs, found.num_found, found.num_ours, found.num_extra) == (1, 1, 1, 0)
    assert found.mean_overlap == pytest.approx(99 / 101)
    assert (found.mean_score_difference, found.worst_score_difference) == (pytest.approx(0.1), pytest.approx(0.1))
    assert (found.differences, found.notes) == ((), ())
    assert report.to_json()["objects"]["num_found"] == 1


def test_what_one_side_lacks_is_named_with_the_nearest_of_the_other_the_surest_first():
    dog = (0, 0, 50, 50, 0.95, "dog")
    report = compare(
        [("a", [(*CAT[:4], 0.3, "cat")]), ("b", [CAT])], ours("a", dog), ours("b", (20, 10, 120, 48, 0.7, "cat"))
    )
    assert report.objects.differences == (
        DifferentObject("a", "ours", "dog", 0.95, pytest.approx(dog[:4]), 0.0),
        DifferentObject("b", "theirs", "cat", 0.9, CAT[:4], pytest.approx(0.76)),
        DifferentObject("b", "ours", "cat", 0.7, pytest.approx((20, 10, 120, 48)), pytest.approx(0.76)),
        DifferentObject("a", "theirs", "cat", 0.3, CAT[:4], 0.0),
    )
    assert (report.agreement, report.objects.num_found) == (0.0, 0)
    assert report.objects.mean_overlap == pytest.approx(0.76)  # of those that are at least nearly there


@pytest.mark.parametrize(
    ("theirs", "own", "min_score", "agreement", "num_ours"),
    [
        ([(*CAT[:4], 0.26, "cat")], [(*CAT[:4], 0.24, "cat")], 0.25, 1.0, 0),  # one of ours with a low score is found
        ([(*CAT[:4], 0.4, "cat")], [(*CAT[:4], 0.4, "cat"), (0, 0, 50, 50, 0.35, "dog")], 0.25, 1.0, 1),
        ([CAT], [CAT, (0, 0, 50, 50, 0.6, "dog")], 0.25, 0.5, 2),
        ([(*CAT[:4], 0.3, "cat")], [], 0.5, None, 0),  # from the score that is stored
        ([], [], 0.25, None, 0),
        ([(-30, -20, 60, 50, 0.9, "cat")], [(0, 0, 60, 50, 0.9, "cat")], 0.25, 1.0, 1),  # cut at the picture's edge
    ],
)
def test_objects_count_from_a_score_that_both_sides_give(theirs, own, min_score, agreement, num_ours):
    """A function that gives no low scores is not asked for them."""
    report = compare([("a", theirs)], ours("a", *own), detection=DetectionSpec("yolo", min_score=min_score))
    assert (report.agreement, report.objects.num_ours, report.objects.notes) == (agreement, num_ours, ())


@pytest.mark.parametrize(
    ("one", "note"),
    [
        ((0.1, 0.1, 0.6, 0.6, 0.9, "cat"), "no coordinate of your boxes exceeds 1: they look like shares of the"),
        ((150, 80, 320, 90, 0.9, "cat"), "1 of your boxes lies outside the picture; boxes are x1 y1 x2 y2 in pixels"),
        ((*CAT[:5], "Cat"), "your function gives labels that the model does not have: Cat"),
    ],
)
def test_boxes_in_another_unit_and_other_labels_are_told(one, note):
    (told,) = compare([("a", [one])], ours("a", CAT)).objects.notes
    assert told.startswith(note)


def test_failures_of_either_side_are_named_and_not_compared():
    broken = Broken(ImageRef("b", "b"), Reason.TRUNCATED, "ends early", "decode")
    report = compare([("a", KeyError("x")), ("b", [CAT]), ("c", [CAT]), ("d", None)], ours("a"), broken, ours("c", CAT))
    assert (report.num_images, report.num_compared, report.agreement) == (4, 1, 1.0)
    assert [one.path for one in report.their_failures] == ["a", "d"]
    assert report.our_rejections == (Failure("b", "truncated: ends early"),)


BOXES = [(20.3, 10.2, 120.7, 60.4), (5.5, 30.1, 60.2, 80.8), (90.4, 20.6, 180.9, 75.3)]
SHAPES = [Size(200, 100), Size(90, 210)]


def moved(way):
    """A report of six objects in a wide and a tall picture, where theirs are ours moved in this way."""
    theirs, predictions = [], []
    for number, picture in enumerate(SHAPES * 2):
        own = [(*np.minimum(box, [*picture] * 2), 0.9 - n / 10, "cat") for n, box in enumerate(BOXES)]
        own = [one for one in own if one[2] - one[0] > 5]
        theirs.append((str(number), [(*way(np.array(one[:4]), picture), *one[4:]) for one in own]))
        predictions.append(ours(str(number), *own, picture=picture))
    return compare(theirs, *predictions)


def centred(box, picture):
    return box + [(max(picture) - side) / 2 for side in picture] * 2


def cut(box, _):
    """As programs that truncate the left upper corner, and the width and height."""
    left, top = np.trunc(box[:2])
    width, height = np.trunc(box[2:] - box[:2])
    return left, top, left + width, top + height


@pytest.mark.parametrize(
    ("way", "geometry", "min_overlap"),
    [
        (lambda box, _: box, "", 0.9),
        (cut, "", 0.8),
        (lambda box, _: box + np.array([4, -3, 4, -3]), "ours moved by 4.0 and -3.0 pixels", 0.9),
        (lambda box, _: box * 1.1, "ours times 1.100 and 1.100", 0.9),
        (centred, "ours with a padding's offset", 0.9),
        (lambda box, picture: 2 * box - centred(box, picture), "ours without a padding's offset", 0.9),
    ],
)
def test_boxes_that_are_cut_are_told_from_boxes_that_all_lie_elsewhere(way, geometry, min_overlap):
    found = moved(way).objects
    assert found.geometry.startswith(geometry)
    assert bool(found.geometry) is bool(geometry)
    assert found.min_overlap == min_overlap
    assert (found.num_found == found.num_theirs) is (not geometry) or found.mean_overlap > 0.9


@pytest.mark.parametrize("way", [np.trunc, np.round, lambda box: np.array(cut(box, None))])
def test_small_boxes_that_are_cut_to_whole_pixels_are_the_same(way):
    """A face of 12 pixels whose edges are cut overlaps the face itself by 0.75."""
    boxes = [np.array([x + 0.9, 20.9, x + 12.95, 33.95]) for x in (10, 60, 110, 150)]
    theirs = [(*way(box), 0.9, "cat") for box in boxes]
    found = compare([("a", theirs)], ours("a", *((*box, 0.9, "cat") for box in boxes))).objects
    assert (found.num_found, found.num_extra, found.min_overlap) == (4, 0, 0.8)


def test_small_boxes_that_lie_elsewhere_are_others_though_they_are_whole_pixels():
    boxes = [np.array([x + 0.9, 20.9, x + 12.95, 33.95]) for x in (10, 60, 110, 150)]
    theirs = [(*np.trunc(box + 3), 0.9, "cat") for box in boxes]
    found = compare([("a", theirs)], ours("a", *((*box, 0.9, "cat") for box in boxes))).objects
    assert found.num_found == 0
