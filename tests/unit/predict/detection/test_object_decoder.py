import numpy as np
import pytest

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import DetectionSpec, OutputSpec
from infer_app.base.domain import DetectedObject
from infer_app.base.size import Size
from infer_app.predict.detection.boxes import intersection_over_union
from infer_app.predict.detection.object_decoder import BLOCK, ObjectDecoder, sort_objects, split_outputs, suppress

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


def reference(objects, max_iou, max_objects):
    kept = []
    for one in sorted(objects, key=lambda row: (-row[4], row[5], *row[:4])):
        overlaps = intersection_over_union(np.array([one[:4]]), np.array([other[:4] for other in kept]).reshape(-1, 4))
        if all(one[5] != other[5] or overlap <= max_iou for other, overlap in zip(kept, overlaps[0], strict=True)):
            kept.append(one)
    return kept[:max_objects]


def random_objects(random, count):
    """Coarse numbers, so that many boxes and scores are equal and overlaps are exactly at the limit."""
    corner = random.integers(0, 8, (count, 2))
    size = random.integers(1, 6, (count, 2))
    score = random.integers(1, 5, (count, 1)) / 4
    return np.concatenate([corner, corner + size, score, random.integers(0, 3, (count, 1))], 1)


def test_every_random_case_with_ties_equals_the_reference():
    random = np.random.default_rng(19)
    num_cases, num_suppressed = 500, 0
    for number in range(num_cases):
        objects = random_objects(random, int(random.integers(0, 200 if number % 100 == 0 else 16)))
        max_iou, most = random.choice([0.25, 1 / 3, 0.45, 0.5, 0.75]), int(random.choice([1, 5, 300]))
        expected = reference(objects.tolist(), max_iou, most)
        assert suppress(sort_objects(objects), max_iou, most).tolist() == expected
        num_suppressed += len(objects) - len(expected)
    assert num_suppressed > num_cases  # the cases are not all apart


def test_only_the_best_of_many_are_kept():
    apart = [[20.0 * i, 0, 20.0 * i + 10, 10, 1 - i / 1000, 0] for i in range(3 * BLOCK)]
    assert suppress(np.array(apart), 0.5, BLOCK + 1).tolist() == apart[: BLOCK + 1]
