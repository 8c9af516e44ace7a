"""Non-maximum suppression beside a straightforward reference, pair by pair."""

import numpy as np
import pytest

from infer_app.models.detection.nms import sort_objects, suppress

NUM_CASES = 10_000


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


@pytest.mark.slow
def test_every_random_case_with_ties_equals_the_reference():
    random = np.random.default_rng(19)
    num_suppressed = 0
    for number in range(NUM_CASES):
        objects = random_objects(random, int(random.integers(0, 200 if number % 100 == 0 else 16)))
        max_iou, most = random.choice([0.25, 1 / 3, 0.45, 0.5, 0.75]), int(random.choice([1, 5, 300]))
        expected = reference(objects.tolist(), max_iou, most)
        assert suppress(sort_objects(objects), max_iou, most).tolist() == expected
        num_suppressed += len(objects) - len(expected)
    assert num_suppressed > NUM_CASES  # the cases are not all apart
