"""What a day that can't be run keeps from the other days of its run: nothing."""

from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace

import pytest

from infer_app.database.listing.watched_images import UNCHANGED
from infer_app.day import Day
from infer_app.errors import OF_ONE_DAY, Interrupted, NothingAllowed, StorageUnavailable
from infer_app.pipeline import run_days

DAYS = [Day.of(date(2026, 11, number), "UTC") for number in (18, 19, 20)]


@pytest.mark.parametrize("error", OF_ONE_DAY)
def test_a_day_that_can_not_be_run_is_left_out_alone_and_gives_its_exit_code(error, monkeypatch):
    reports = {day: SimpleNamespace(selected=1) for day in DAYS[1:]}

    def run_day(_job, day, *_):
        if day not in reports:
            raise error("no")
        return [reports[day]]

    monkeypatch.setattr(run_days, "run_day", run_day)
    monkeypatch.setattr(run_days, "_result", lambda _job, _days, ran, left_out, _ended_early: (ran, left_out))
    limits, go_on, job = run_days.RunLimits(None, None, None), SimpleNamespace(exit_code=0), SimpleNamespace(models=[0])
    (result,) = run_days._run_job(job, DAYS, limits, go_on, None, None, with_late=False)
    ran, (left_out,) = result
    assert (ran, type(left_out)) == (reports, error)


def test_late_days_wait_for_the_next_run_once_the_limit_is_reached(monkeypatch):
    late = [DAYS[0].before(number) for number in (30, 20, 10)]
    database = SimpleNamespace(with_reconnect=lambda call: call())
    project = SimpleNamespace(database=database, source=None)
    job = SimpleNamespace(models=[0], model_ids=["a"], project=project)
    monkeypatch.setattr(run_days, "find_late_days", lambda *_: late)
    monkeypatch.setattr(run_days, "run_day", lambda *_: [SimpleNamespace(selected=2)])
    monkeypatch.setattr(run_days, "_result", lambda _job, _days, ran, _left_out, ended_early: (list(ran), ended_early))
    limits, go_on = run_days.RunLimits(8, None, None), SimpleNamespace(exit_code=0)
    (result,) = run_days._run_job(job, DAYS, limits, go_on, None, None, with_late=True)
    assert result == ([*DAYS, late[0]], True)


def test_a_last_day_that_can_not_be_run_keeps_no_late_day_from_its_run(monkeypatch):
    late, ran = DAYS[0].before(30), []

    def run_day(_job, day, *_):
        if day is DAYS[-1]:
            raise NothingAllowed("no")
        ran.append(day)
        return [SimpleNamespace(selected=1)]

    database = SimpleNamespace(with_reconnect=lambda call: call())
    job = SimpleNamespace(models=[0], model_ids=["a"], project=SimpleNamespace(database=database, source=None))
    monkeypatch.setattr(run_days, "find_late_days", lambda *_: [late])
    monkeypatch.setattr(run_days, "run_day", run_day)
    limits, go_on = run_days.RunLimits(None, None, None), SimpleNamespace(exit_code=0)
    with pytest.raises(NothingAllowed):
        run_days._run_job(job, DAYS, limits, go_on, None, None, with_late=True)
    assert ran == [*DAYS[:-1], late]
    go_on.exit_code = 143
    with pytest.raises(Interrupted):
        run_days._run_job(job, DAYS, limits, go_on, None, None, with_late=True)


def test_a_last_day_that_can_not_be_run_stops_no_other_model(monkeypatch):
    first, second = (SimpleNamespace(manifest=SimpleNamespace(name=name, model_id=name)) for name in ("a", "b"))
    done = SimpleNamespace(last=SimpleNamespace(day=SimpleNamespace(eligible=1)), outcome="done", exit_code=0)

    def run_job(group, *_):
        if group == [first]:
            raise StorageUnavailable("no")
        return [done]

    monkeypatch.setattr(run_days, "group_by_pixels", lambda artifacts: [[one] for one in artifacts])
    monkeypatch.setattr(run_days, "open_job", lambda _loaded, group, trace: nullcontext(group))
    monkeypatch.setattr(run_days, "_run_job", run_job)
    go_on = SimpleNamespace(exit_code=0)
    summary = run_days.run_days(None, [first, second], DAYS, run_days.RunLimits(None, None, None), go_on, None)
    assert summary.results == [done]
    assert (summary.exit_code, [one.name for one in summary.failures]) == (StorageUnavailable.exit_code, ["a"])


def test_the_forecast_of_what_is_left_counts_a_day_that_was_left_out(monkeypatch):
    report = SimpleNamespace(model_id="a", model="a", day=DAYS[1], exit_code=0, stopped="a time limit")
    queries = SimpleNamespace(find_older_pending=lambda *_: None, count_changed=lambda *_: UNCHANGED)
    database = SimpleNamespace(with_reconnect=lambda call: call())
    project = SimpleNamespace(database=database, day_queries=queries, run_store=None)
    counted = []
    job = SimpleNamespace(project=project, max_rejected="5%", count_new=lambda days, _: counted.extend(days))
    monkeypatch.setattr(run_days, "DayStates", lambda *_: SimpleNamespace(read=lambda *_: None))
    run_days._result(job, DAYS, {DAYS[1]: report}, [StorageUnavailable("no")], ended_early=True)
    assert counted == DAYS
