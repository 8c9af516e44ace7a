"""Non-maximum suppression beside a straightforward reference, pair by pair."""

import numpy as np
import pytest

from infer_app.models.detection.nms import BLOCK, sort_objects, suppress

A = [0.0, 0.0, 10.0, 10.0]
SHIFTED = [0.0, 1.0, 10.0, 11.0]  # overlaps A by 90 of 110
FAR = [20.0, 20.0, 30.0, 30.0]


def reference(objects, max_iou, max_objects):
    kept = []
    for one in sorted(objects, key=lambda row: (-row[4], row[5], *row[:4])):
        if all(one[5] != other[5] or iou(one, other) <= max_iou for other in kept):
            kept.append(one)
    return kept[:max_objects]


def iou(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1]) - both)


def random_objects(random, count):
    """Coarse numbers, so that many boxes and scores are equal and overlaps are exactly at the limit."""
    corner = random.integers(0, 8, (count, 2))
    size = random.integers(1, 6, (count, 2))
    score = random.integers(1, 5, (count, 1)) / 4
    return np.concatenate([corner, corner + size, score, random.integers(0, 3, (count, 1))], 1)


@pytest.mark.parametrize("num_cases", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_random_case_with_ties_equals_the_reference(num_cases):
    random = np.random.default_rng(19)
    num_suppressed = 0
    for number in range(num_cases):
        objects = random_objects(random, int(random.integers(0, 200 if number % 100 == 0 else 16)))
        max_iou, most = random.choice([0.25, 1 / 3, 0.45, 0.5, 0.75]), int(random.choice([1, 5, 300]))
        expected = reference(objects.tolist(), max_iou, most)
        assert suppress(sort_objects(objects), max_iou, most).tolist() == expected
        num_suppressed += len(objects) - len(expected)
    assert num_suppressed > num_cases  # the cases are not all apart


def objects(*rows):
    return sort_objects(np.array(rows, float))


def test_objects_that_overlap_exactly_as_much_as_allowed_stay():
    pair = objects([*A, 0.9, 1], [*SHIFTED, 0.8, 1])
    assert len(suppress(pair, 90 / 110, 10)) == 2
    assert len(suppress(pair, np.nextafter(90 / 110, 0), 10)) == 1


def test_equal_scores_are_ordered_by_class_and_box():
    rows = [[*FAR, 0.5, 1], [*A, 0.5, 2], [*SHIFTED, 0.5, 1], [*A, 0.5, 1], [*A, 0.6, 9]]
    expected = [[*A, 0.6, 9], [*A, 0.5, 1], [*SHIFTED, 0.5, 1], [*FAR, 0.5, 1], [*A, 0.5, 2]]
    for shift in range(len(rows)):
        assert objects(*rows[shift:], *rows[:shift]).tolist() == expected


def test_only_the_best_of_many_are_kept():
    apart = [[20.0 * i, 0, 20.0 * i + 10, 10, 1 - i / 1000, 0] for i in range(3 * BLOCK)]
    assert suppress(objects(*apart), 0.5, BLOCK + 1).tolist() == apart[: BLOCK + 1]
