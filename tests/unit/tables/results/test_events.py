"""Events are what the definition says, whatever is stored already."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.tables.results.events import Interval, Moment, group_by_gap

FIRST = datetime(2026, 11, 20)
GAP = 60


def picture(number, seconds):
    moment = Moment(seconds, FIRST + timedelta(seconds=seconds))
    return Interval(moment, moment, number)


def by_definition(pictures):
    """Pictures in order of time; a new event begins where the one before is longer ago than the gap."""
    events, last = [], None
    for one in sorted(pictures, key=lambda one: one.first.us):
        if last is None or one.first.us - last > GAP:
            events.append(set())
        events[-1].add(one.first_picture)
        last = one.first.us
    return events


def as_interval(group, event):
    return Interval(group[0].first, max(group, key=lambda one: one.last.us).last, group[0].first_picture, event)


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=30))
def test_pictures_that_come_later_give_the_events_of_all_at_once(times):
    pictures = [picture(number, seconds) for number, (seconds, _) in enumerate(times)]
    early = [one for one, (_, is_early) in zip(pictures, times, strict=True) if is_early]
    late = [one for one in pictures if one not in early]
    known, members = [], {}
    for event, group in enumerate(group_by_gap(early, GAP)):
        known.append(as_interval(group, event))
        members[event] = {one.first_picture for one in group}
    found = [
        set().union(*({one.first_picture} if one.event is None else members[one.event] for one in group))
        for group in group_by_gap([*known, *late], GAP)
    ]
    assert found == by_definition(pictures)


@pytest.mark.parametrize(("apart", "num_events"), [(0, 1), (60, 1), (61, 2)])
def test_a_gap_is_longer_than_the_setting(apart, num_events):
    assert len(list(group_by_gap([picture(1, 0), picture(2, apart)], GAP))) == num_events
