import numpy as np
import pytest

from infer_app.base.domain import DetectedObject
from infer_app.base.size import Size
from infer_app.predict.detection.boxes import exact_at_whole_pixels, intersection_over_union, match_objects, match_rows

SQUARE = [0.0, 0, 10, 10]


def rows(*boxes, label=0):
    return np.array([[*box, 0.5, label] for box in boxes], np.float64).reshape(-1, 6)


def test_overlaps_of_boxes_by_hand():
    others = np.array([SQUARE, [5, 0, 15, 10], [0, 0, 5, 5], [20, 20, 30, 30], [3, 3, 3, 9]])
    overlaps = intersection_over_union(np.array([SQUARE]), others)
    assert overlaps.tolist() == [[1.0, 50 / 150, 0.25, 0.0, 0.0]]


def test_the_pairs_that_overlap_most_are_matched_and_each_object_once():
    a = rows([0, 0, 10, 8], SQUARE)
    b = rows([0, 0, 10, 9], [40, 40, 50, 50])
    (match,) = match_rows(a, b, 0.5)
    assert (match.a, match.b, match.iou) == (1, 0, pytest.approx(0.9))


def test_objects_of_other_classes_do_not_match_and_nothing_matches_nothing():
    assert match_rows(rows(SQUARE, label=1), rows(SQUARE, label=2), 0.5) == []
    assert match_rows(rows(), rows(SQUARE), 0.5) == match_objects([], [], 0.5) == []


def test_objects_of_the_tables_match_by_label_and_place():
    cat = DetectedObject("cat", 0, 0.9, 0.1, 0.1, 0.5, 0.5)
    moved = cat._replace(class_index=3, x=0.15)  # the classes of two models may have other numbers
    (match,) = match_objects([cat], [cat._replace(label="dog"), moved], 0.5)
    assert (match.a, match.b, match.iou) == (0, 1, pytest.approx(0.45 / 0.55))


@pytest.mark.parametrize("side", [*range(1, 400), 1280, 2448, 3264, 4000, 6000])
def test_a_box_at_whole_pixels_is_found_there_by_programs_that_truncate(side):
    pixels = np.arange(side + 1)[:, None]
    shares = np.repeat(pixels / side, 4, axis=1)
    for boxes in (shares, np.nextafter(shares, -1), np.nextafter(shares, 2)):
        assert (np.trunc(exact_at_whole_pixels(boxes, Size(side, side)) * side) == pixels).all()
    between = shares + 0.3 / side
    assert (exact_at_whole_pixels(between, Size(side, side)) == between).all()
