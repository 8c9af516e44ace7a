"""Which runs are one, begun several times."""

from datetime import datetime, timedelta

import pytest

from tests.support.day_rows import add_run  # noqa: F401

AT = datetime(2026, 11, 20, 9)


@pytest.mark.parametrize(
    ("runs", "days"),
    [
        pytest.param([(0, 19, "done"), (1, 20, "done"), (2, 20, "done")], [20], id="every hour"),
        pytest.param(
            [(0, 19, "failed"), (1, 20, "failed"), (2, 19, "done"), (2.1, 20, "done")], [19, 20], id="begun again"
        ),
        pytest.param([(0, 19, "done"), (0.1, 20, "done")], [19, 20], id="of several days"),
        pytest.param([(0, 19, "done"), (7, 20, "done")], [20], id="of two nights"),
    ],
)
def test_the_last_run_is_what_was_begun_last_with_what_had_failed_before_it(tables, add_run, runs, days):  # noqa: F811
    for number, (hours, day, state) in enumerate(runs):
        at = AT + timedelta(hours=hours)
        of_it = {"day": datetime(2026, 11, day).date(), "started_at": at, "ended_at": at, "state": state}
        add_run(run_id=f"run-{number}", **of_it)
    assert [day.day for day in tables.versions.days_of_last_run()] == days
