import numpy as np
import pytest

from infer_app.domain import DetectedObject
from infer_app.models.artifact.specs import DetectionSpec, OutputSpec
from infer_app.models.detection.object_decoder import ObjectDecoder, split_outputs
from infer_app.recipe import Recipe, Size

LETTERBOX = Recipe("letterbox", 100, pad=114)
WIDE = Size(200, 100)  # 100x50 in the input, with 25 rows above and below


def decoder(head="boxes", own=None, shapes=((2, 6),), labels=("cat", "dog"), recipe=LETTERBOX, **given):
    spec = OutputSpec("detection", "none", detection=DetectionSpec(head, shapes=shapes, **given))
    return ObjectDecoder(spec, recipe, labels, own)


def rows(*objects):
    return np.float32([[number for one in objects for number in one]])


def test_objects_are_named_and_placed_in_the_upright_picture():
    (found,) = decoder().decode(rows((50, 25, 100, 50, 0.5, 1), (0, 50, 50, 75, 0.75, 0)), [WIDE])
    assert found.objects == (
        DetectedObject("cat", 0, 0.75, 0.0, 0.5, 0.5, 0.5),
        DetectedObject("dog", 1, 0.5, 0.5, 0.0, 0.5, 0.5),
    )
    assert (found.label, found.score, found.details) == ("cat", 0.75, '{"min_score": 0.05}')
    assert decoder().decode(np.zeros((0, 12)), []) == []


NONE = (0,) * 6
LEFT, RIGHT = (0, 30, 50, 60, 0.5, 2), (50, 30, 90, 60, 0.6, 1)


@pytest.mark.parametrize(
    ("given", "objects", "kept"),
    [
        ({}, (NONE, NONE), []),  # which is a prediction all the same
        ({}, ((10, 0, 20, 24, 0.9, 0), (20, 40, 10, 50, 0.8, 0)), []),  # above the picture, and without an area
        ({}, (LEFT, RIGHT), [("dog", 0.6), ("2", 0.5)]),  # a class without a label is named by its number
        ({"labels": ()}, (LEFT, NONE), [("2", 0.5)]),
        ({"max_objects": 1}, (LEFT, RIGHT), [("dog", 0.6)]),
        ({}, ((0, 30, 50, 60, 1.0004, 0), NONE), [("cat", 1.0)]),  # rounding made the score larger than one
    ],
)
def test_what_is_kept_of_an_image(given, objects, kept):
    (found,) = decoder(**given).decode(rows(*objects), [WIDE])
    assert [(one.label, pytest.approx(one.score)) for one in found.objects] == kept
    assert (found.label, found.score) == ((found.objects[0].label, found.objects[0].score) if kept else (None, None))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", range(6))
def test_a_number_that_is_not_finite_rejects_its_image_alone(number, place):
    good = rows((50, 25, 100, 50, 0.5, 1), (0,) * 6)
    bad = good.copy()
    bad[0, place] = number
    found = decoder().decode(np.concatenate([good, bad, good]), [WIDE] * 3)
    assert [one is None for one in found] == [False, True, False]


def test_a_box_that_a_head_of_ones_own_makes_of_a_division_by_zero_rejects_its_image():
    def head(outputs):
        return [np.array([[0, 0, 1, 1, one[0], 0]]) for one in outputs]

    found = decoder("my:head", head, shapes=((1,),)).decode(np.float32([[0.5], [np.nan]]), [WIDE] * 2)
    assert [one is None for one in found] == [False, True]


def test_boxes_with_their_own_suppression_are_not_suppressed_again():
    twice = rows((0, 30, 50, 60, 0.5, 0), (0, 30, 50, 60, 0.6, 0))
    assert len(decoder().decode(twice, [WIDE])[0].objects) == 2

    def head(outputs):
        return list(outputs)

    assert len(decoder("my:head", head).decode(twice, [WIDE])[0].objects) == 1
    assert len(decoder("my:head", head, nms=1.0).decode(twice, [WIDE])[0].objects) == 2


def test_outputs_are_split_as_they_were_joined():
    first, second = np.arange(12.0).reshape(2, 2, 3), np.arange(10.0).reshape(2, 5)
    parts = split_outputs(np.concatenate([first.reshape(2, 6), second], 1), [(2, 3), (5,)])
    assert [part.tolist() for part in parts] == [first.tolist(), second.tolist()]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (rows((0, 30, 50, 60, 0.5, 0.5), NONE), "whole numbers"),
        (rows((0, 30, 50, 60, 2.0, 0), NONE), "between 0 and 1"),
        (rows(NONE, NONE, NONE), "gave 18 numbers for an image and 12 at its build"),
    ],
)
def test_outputs_that_can_be_no_objects_are_an_error(raw, message):
    with pytest.raises(ValueError, match=message):
        decoder().decode(raw, [WIDE])
