import numpy as np

from infer_app.models.detection.nms import BLOCK, sort_objects, suppress

A = [0.0, 0.0, 10.0, 10.0]
SHIFTED = [0.0, 1.0, 10.0, 11.0]  # overlaps A by 90 of 110
FAR = [20.0, 20.0, 30.0, 30.0]


def objects(*rows):
    return sort_objects(np.array(rows, float))


def test_of_objects_of_one_class_that_overlap_the_best_stays():
    found = suppress(objects([*SHIFTED, 0.8, 1], [*A, 0.9, 1], [*FAR, 0.1, 1]), 0.5, 10)
    assert found.tolist() == [[*A, 0.9, 1], [*FAR, 0.1, 1]]


def test_objects_of_other_classes_stay():
    assert len(suppress(objects([*A, 0.9, 1], [*A, 0.8, 2]), 0.5, 10)) == 2


def test_objects_that_overlap_exactly_as_much_as_allowed_stay():
    pair = objects([*A, 0.9, 1], [*SHIFTED, 0.8, 1])
    assert len(suppress(pair, 90 / 110, 10)) == 2
    assert len(suppress(pair, np.nextafter(90 / 110, 0), 10)) == 1


def test_what_a_suppressed_object_overlaps_stays():
    chain = objects([0, 0, 10, 10, 0.9, 1], [0, 4, 10, 14, 0.8, 1], [0, 8, 10, 18, 0.7, 1])
    assert suppress(chain, 0.4, 10)[:, 4].tolist() == [0.9, 0.7]


def test_equal_scores_are_ordered_by_class_and_box():
    rows = [[*FAR, 0.5, 1], [*A, 0.5, 2], [*SHIFTED, 0.5, 1], [*A, 0.5, 1], [*A, 0.6, 9]]
    expected = [[*A, 0.6, 9], [*A, 0.5, 1], [*SHIFTED, 0.5, 1], [*FAR, 0.5, 1], [*A, 0.5, 2]]
    for shift in range(len(rows)):
        assert objects(*rows[shift:], *rows[:shift]).tolist() == expected


def test_only_the_best_of_many_are_kept():
    apart = [[20.0 * i, 0, 20.0 * i + 10, 10, 1 - i / 1000, 0] for i in range(3 * BLOCK)]
    assert suppress(objects(*apart), 0.5, BLOCK + 1).tolist() == apart[: BLOCK + 1]


def test_nothing_gives_nothing():
    assert suppress(np.empty((0, 6)), 0.5, 10).shape == (0, 6)
