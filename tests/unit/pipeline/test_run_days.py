"""What a day that can't be run keeps from the other days of its run: nothing."""

from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace

import pytest

from infer_app.day import Day
from infer_app.errors import OF_ONE_DAY, Interrupted, NothingAllowed, StorageUnavailable
from infer_app.pipeline import run_days
from infer_app.pipeline.run_days import RunLimits, RunRequest, run_group
from tests.conftest import MODEL

DAYS = [Day.of(date(2026, 11, number), "UTC") for number in (18, 19, 20)]
LATE = [DAYS[0].before(number) for number in (30, 20, 10)]
NO_LIMITS = RunLimits(None, None, None)


@pytest.fixture
def group(monkeypatch):
    """A run of one model over days each of which has two images, and over late days."""
    result = lambda _group, _days, ran, left_out, ended_early: (list(ran), left_out, ended_early)  # noqa: E731
    monkeypatch.setattr(run_days, "_result", result)
    monkeypatch.setattr(run_days, "_find_late", lambda *_: LATE)
    return SimpleNamespace(plan=SimpleNamespace(models=[MODEL]), stop=SimpleNamespace(exit_code=0))


@pytest.fixture
def fail(monkeypatch):
    """fail(day, error) makes this day raise it."""
    failures, ran = {}, []

    def run_day(_group, day, _limit):
        if day in failures:
            raise failures[day]
        ran.append(day)
        return [SimpleNamespace(selected=2)]

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


def test_a_last_day_that_can_not_be_run_stops_no_other_model(monkeypatch):
    first, second = (SimpleNamespace(manifest=SimpleNamespace(name=name, model_id=name)) for name in ("a", "b"))
    done = SimpleNamespace(last=SimpleNamespace(day=SimpleNamespace(eligible=1)), outcome="done", exit_code=0)

    def run_one(group, *_, **__):
        if group.artifacts == [first]:
            raise StorageUnavailable("no")
        return [done]

    opened = lambda _loaded, artifacts, *_: nullcontext(SimpleNamespace(artifacts=artifacts, project=None))  # noqa: E731
    monkeypatch.setattr(run_days, "group_by_pixels", lambda artifacts: [[one] for one in artifacts])
    monkeypatch.setattr(run_days, "open_group", opened)
    monkeypatch.setattr(run_days, "run_group", run_one)
    request = RunRequest(None, [first, second], DAYS, NO_LIMITS)
    summary = run_days.run_days(request, SimpleNamespace(exit_code=0), None)
    assert summary.results == [done]
    assert (summary.exit_code, [one.name for one in summary.failures]) == (StorageUnavailable.exit_code, ["a"])


def test_the_forecast_of_what_is_left_counts_a_day_that_was_left_out(monkeypatch, tables):
    report = SimpleNamespace(model_id="a", model="a", day=None, exit_code=0, stopped="a time limit")
    counted = []
    monkeypatch.setattr(run_days, "_forecast_rest", lambda _group, days, _reports: counted.extend(days))
    monkeypatch.setattr(run_days, "DayStates", lambda *_: SimpleNamespace(read=lambda *_: None))
    group = SimpleNamespace(project=tables, loaded=SimpleNamespace(run=SimpleNamespace(max_rejected="5%")))
    run_days._result(group, DAYS, {DAYS[1]: report}, [StorageUnavailable("no")], ended_early=True)
    assert counted == DAYS
