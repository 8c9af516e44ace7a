"""Events are what the definition says, whatever is stored already."""

from datetime import datetime, timedelta

import pytest

from infer_app.tables.results.events import Interval, Moment, group_by_gap

FIRST = datetime(2026, 11, 20)
GAP = 60


def picture(number, seconds):
    moment = Moment(seconds, FIRST + timedelta(seconds=seconds))
    return Interval(moment, moment, number)


@pytest.mark.parametrize(("apart", "num_events"), [(0, 1), (60, 1), (61, 2)])
def test_a_gap_is_longer_than_the_setting(apart, num_events):
    assert len(list(group_by_gap([picture(1, 0), picture(2, apart)], GAP))) == num_events
