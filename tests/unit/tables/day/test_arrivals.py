from datetime import UTC, date, datetime, timedelta

import pytest

from infer_app.base.day import Day
from infer_app.tables.day.arrivals import WINDOW, ArrivalGap, find_gap, unusual_gap

LATER = datetime(2030, 1, 1, tzinfo=UTC)
FRIDAY = date(2026, 11, 20)


@pytest.mark.parametrize(
    ("active", "days_without", "is_unusual"),
    [
        ([True] * WINDOW, 1, False),
        ([True] * WINDOW, 2, True),
        ([True] * 3 + [False] * 11, 30, False),  # too few days to expect more
        ([True] * 5 + [False] * 9, 2, True),  # a new project
        ([True] * 3 + [False] * 9 + [True] * 2, 9, False),  # as long a gap as before
        ([True] * 3 + [False] * 9 + [True] * 2, 10, True),
        ([True, False] * 7, 2, True),  # every second day
        ([True] + [False] * 6 + [True] + [False] * 6, 6, False),  # every week
    ],
)
def test_a_gap_is_told_if_images_came_regularly_and_it_is_longer_than_those_before(active, days_without, is_unusual):
    gap = unusual_gap(FRIDAY, FRIDAY + timedelta(days=days_without), active)
    assert gap == (ArrivalGap(FRIDAY, days_without, sum(active)) if is_unusual else None)


def test_a_weekend_is_no_gap_and_a_monday_without_images_is():
    weekdays = [(FRIDAY - timedelta(days=n)).weekday() < 5 for n in range(WINDOW)]
    found = {n: unusual_gap(FRIDAY, FRIDAY + timedelta(days=n), weekdays) for n in (1, 2, 3)}
    assert found == {1: None, 2: None, 3: ArrivalGap(FRIDAY, 3, 10)}


def test_a_gap_is_told_as_a_sentence_and_a_day_that_is_not_over_is_not_counted(register, tables):
    for n in range(20):
        register(f"/{n}.jpg", at=datetime(2026, 11, 20, 12) - timedelta(days=n))
    today = Day.of(date(2026, 11, 22), "UTC")
    assert find_gap(tables.source, today, datetime(2026, 11, 22, 9, tzinfo=UTC)) is None
    gap = find_gap(tables.source, today, LATER)
    assert str(gap).startswith("no images for 2 days: the last ones are of 2026-11-20, and 14 of the 14 days")
    assert find_gap(tables.source, Day.of(date(2020, 1, 1), "UTC")) is None
