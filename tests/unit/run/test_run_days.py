"""What a day that can't be run keeps from the other days of its run: nothing."""

import signal
from dataclasses import replace
from datetime import date, datetime
from types import SimpleNamespace

import pytest

from infer_app.base.day import Day
from infer_app.base.domain import ImageFile
from infer_app.base.errors import OF_ONE_DAY, DayHeld, Interrupted, NothingAllowed
from infer_app.base.settings.sections import RunSettings
from infer_app.run import run_days
from infer_app.run.run_days import run_group
from infer_app.run.stop import Stop
from infer_app.tables.listing.image_registry import register
from tests.conftest import MODEL
from tests.support.listings import at
from tests.support.run_reports import REPORT

DAYS = [Day.of(date(2026, 11, number), "UTC") for number in (18, 19, 20)]
LATE = [DAYS[0].before(number) for number in (30, 20, 10)]


@pytest.fixture
def group(tables):
    """A run over days each of which has two images that are new for one of its models, and over late days."""
    for day in LATE:
        noon = day.start.replace(tzinfo=None, hour=12)
        list(register(tables.database, [ImageFile(f"/{day}.jpg")], at(noon, datetime(2026, 11, 21))))
    plan, loaded = (
        SimpleNamespace(models=[MODEL], model_ids=[MODEL.model_id]),
        SimpleNamespace(run=RunSettings(), wants_facts=False),
    )
    stop = Stop()
    return SimpleNamespace(plan=plan, loaded=loaded, project=tables, stop=stop, may_split=False)


class Runner:
    """Runs days, of which some raise an error."""

    def __init__(self, errors):
        self.errors, self.ran = errors, []

    def __call__(self, _group, day, _limit):
        if day in self.errors:
            raise self.errors[day]
        self.ran.append(day)
        report = replace(REPORT, date=day.date, model=MODEL.name, model_id=MODEL.model_id)
        return [replace(report, selected=number) for number in (0, 2)]  # the first has predicted them before


def dates(days):
    return [day.date for day in days]


@pytest.mark.parametrize("error", OF_ONE_DAY)
def test_a_day_that_can_not_be_run_is_left_out_alone_and_gives_its_exit_code(group, error):
    (found,) = run_group(group, DAYS, None, with_late=False, run=Runner({DAYS[0]: error("no")}))
    assert (dates(found.reports), found.late, found.rest) == (dates(DAYS[1:]), [], None)
    assert (found.exit_code, found.all_late_tried) == (error.exit_code, error is not DayHeld)


@pytest.mark.parametrize("error", OF_ONE_DAY)
def test_what_a_run_has_predicted_of_its_last_day_is_placed_though_the_day_ends_early(group, error, monkeypatch):
    noted = []
    monkeypatch.setattr(run_days, "note_facts", lambda loaded, project, days: noted.extend(days))
    with pytest.raises(error):
        run_group(group, DAYS, None, with_late=False, run=Runner({DAYS[-1]: error("no")}))
    assert DAYS[-1] in noted


def test_late_days_wait_for_the_next_run_once_the_limit_is_reached(group):
    (found,) = run_group(group, DAYS, 8, with_late=True, run=Runner({}))
    assert (dates(found.reports), dates(found.late)) == (dates(DAYS), dates(LATE[:1]))
    assert (found.exit_code, found.all_late_tried) == (0, False)


def test_a_last_day_that_can_not_be_run_keeps_no_late_day_from_its_run(group):
    runner = Runner({DAYS[-1]: NothingAllowed("no")})
    with pytest.raises(NothingAllowed):
        run_group(group, DAYS, None, with_late=True, run=runner)
    assert runner.ran == [*DAYS[:-1], *LATE]
    with group.stop:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted):
            run_group(group, DAYS, None, with_late=True, run=runner)
