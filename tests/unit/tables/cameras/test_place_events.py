"""Events are what the definition says."""

from datetime import timedelta

import pytest

from infer_app.tables.cameras.place_events import Span, Taken, group_by_gap


@pytest.mark.parametrize(("apart", "num_events"), [(0, 1), (60, 1), (61, 2)])
def test_a_gap_is_longer_than_the_setting(apart, num_events):
    taken = (Taken(timedelta(seconds=seconds), number) for number, seconds in ((2, apart), (1, 0)))
    spans = [Span(one, one) for one in taken]
    assert len(list(group_by_gap(spans, timedelta(seconds=60)))) == num_events
