import math

import pytest

from infer_app.ask.drift import drift, jensen_shannon, moved_labels, z_score


@pytest.mark.parametrize(
    ("today", "before", "squared"),
    [
        ({"a": 1, "b": 3}, {"a": 100, "b": 300}, 0),
        ({"a": 5}, {"b": 7}, 1),
        # p = (3/4, 1/4), q = (1/4, 3/4), m = (1/2, 1/2): both halves are 3/4 log2(3/2) + 1/4 log2(1/2)
        ({"a": 3, "b": 1}, {"a": 10, "b": 30}, 0.75 * math.log2(1.5) + 0.25 * math.log2(0.5)),
        # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4): ½·1·log2(4/3) + ½·(½ log2(2/3) + ½ log2 2)
        ({"a": 4}, {"a": 6, "b": 6}, 0.5 * math.log2(4 / 3) + 0.5 * (0.5 * math.log2(2 / 3) + 0.5)),
    ],
)
def test_the_distance_by_hand_both_ways(today, before, squared):
    assert jensen_shannon(today, before) == pytest.approx(math.sqrt(squared))
    assert jensen_shannon(today, before) == jensen_shannon(before, today)


MANY = {f"label {n}": 10 for n in range(500)}
FEW = {f"label {n}": 1 for n in range(0, 500, 5)}


@pytest.mark.parametrize(
    ("today", "before", "least", "is_notable"),
    [
        (FEW, MANY, 0.5, False),  # far apart by chance alone
        ({"a": 800, "b": 200}, {"a": 3500, "b": 3500}, 0.1, True),
        ({"a": 25_500, "b": 24_500}, {"a": 175_000, "b": 175_000}, 0.0, False),  # no chance, and nobody would see it
    ],
)
def test_a_shift_is_notable_if_chance_does_not_make_it_and_somebody_would_see_it(today, before, least, is_notable):
    found = drift(today, before)
    assert (found.distance > least, found.is_notable) == (True, is_notable)
    assert (found.by_chance < found.distance) == (today is not FEW)
    assert found.num_before == sum(before.values())


@pytest.mark.parametrize(("today", "before"), [({}, {"a": 1}), ({"a": 1}, {}), ({}, {})])
def test_without_predictions_there_is_no_drift(today, before):
    assert drift(today, before) is None
    assert moved_labels(today, before, 5) == ()


def test_labels_that_moved_the_farthest_first():
    moved = moved_labels({"a": 60, "b": 30, "c": 10}, {"a": 200, "b": 700, "c": 100}, 5)
    assert [(one.label, one.share, one.share_before, one.is_sure) for one in moved] == [
        ("a", 0.6, 0.2, True),
        ("b", 0.3, 0.7, True),
    ]


def test_the_score_of_two_shares_by_hand():
    # 60 of 100 and 40 of 100: pooled ½, error sqrt(¼ · 2/100) = 0.0707, difference 0.2
    assert z_score(60, 100, 40, 100) == pytest.approx(0.2 / math.sqrt(0.005))
    assert z_score(0, 100, 0, 100) == 0
    assert z_score(1, 0, 1, 2) == 0
