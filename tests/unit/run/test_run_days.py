"""What a day that can't be run keeps from the other days of its run: nothing."""

from datetime import date
from types import SimpleNamespace

import pytest

from infer_app.base.day import Day
from infer_app.base.errors import OF_ONE_DAY, Interrupted, NothingAllowed
from infer_app.run import run_days
from infer_app.run.run_days import RunLimits, run_group
from tests.conftest import MODEL

DAYS = [Day.of(date(2026, 11, number), "UTC") for number in (18, 19, 20)]
LATE = [DAYS[0].before(number) for number in (30, 20, 10)]
NO_LIMITS = RunLimits(None, None, None)


@pytest.fixture
def group(monkeypatch):
    """A run over days each of which has two images that are new for one of its models, and over late days."""
    result = lambda _group, _days, ran, left_out, ended_early: (list(ran), left_out, ended_early)  # noqa: E731
    monkeypatch.setattr(run_days, "_result", result)
    monkeypatch.setattr(run_days, "_find_late", lambda *_: LATE)
    stop = SimpleNamespace(exit_code=0)
    return SimpleNamespace(plan=SimpleNamespace(models=[MODEL]), stop=stop, may_split=False)


@pytest.fixture
def fail(monkeypatch):
    """fail(day, error) makes this day raise it."""
    failures, ran = {}, []

    def run_day(_group, day, _limit):
        if day in failures:
            raise failures[day]
        ran.append(day)
        return [SimpleNamespace(selected=number) for number in (0, 2)]  # the first has predicted them before

    monkeypatch.setattr(run_days, "run_day", run_day)
    failures["ran"] = ran
    return failures


@pytest.mark.parametrize("error", OF_ONE_DAY)
def test_a_day_that_can_not_be_run_is_left_out_alone_and_gives_its_exit_code(group, fail, error):
    fail[DAYS[0]] = error("no")
    assert run_group(group, DAYS, NO_LIMITS, with_late=False) == [(DAYS[1:], [fail[DAYS[0]]], False)]


def test_late_days_wait_for_the_next_run_once_the_limit_is_reached(group, fail):
    limits = RunLimits(8, None, None)
    assert run_group(group, DAYS, limits, with_late=True) == [([*DAYS, LATE[0]], [], True)]


def test_a_last_day_that_can_not_be_run_keeps_no_late_day_from_its_run(group, fail):
    fail[DAYS[-1]] = NothingAllowed("no")
    with pytest.raises(NothingAllowed):
        run_group(group, DAYS, NO_LIMITS, with_late=True)
    assert fail["ran"] == [*DAYS[:-1], *LATE]
    group.stop.exit_code = 143
    with pytest.raises(Interrupted):
        run_group(group, DAYS, NO_LIMITS, with_late=True)
