from dataclasses import replace
from datetime import date, datetime

import pytest

from infer_app.database.queries.figures import Figures
from infer_app.domain import DayCounts
from infer_app.reporting.run_figures import day_summary_line, run_figures, run_report
from tests.conftest import DAY, MODEL

COUNTS = DayCounts(100, 99, 1, 0)


@pytest.fixture
def row(tables, add_run):
    add_run()
    (found,) = Figures(tables.database, tables.source, MODEL.model_id).runs_of_day(DAY.date)
    return found


def test_a_row_says_what_the_run_told(row):
    told = run_report(row, COUNTS)
    assert (told.date, told.run_id, told.day, told.selected) == (DAY.date, "run-0", COUNTS, 100)
    assert (told.steady_images_per_second, told.limited_by, told.share_of_limit) == (12.0, "model", 0.86)
    assert told.stages == {"decode": 1.65, "model": 12.22}
    assert told.num_workers == 0  # of a row of an older program, which did not keep it


def test_the_rate_is_that_of_the_workers_where_it_is_known(row):
    assert run_figures(row).rate == 12.0
    assert run_figures(row | {"throughput": None}).rate == 10.0
    assert run_figures(row | {"throughput": None, "images_per_second": None}).rate is None


def test_a_failure_is_one_that_failed_or_ended_with_a_code(row):
    run = run_figures(row)
    assert not run.has_failed
    assert replace(run, exit_code=3).has_failed
    assert replace(run, state="failed", exit_code=None).has_failed
    assert not replace(run, state="running", exit_code=None).has_failed


@pytest.mark.parametrize(
    ("changed", "end"),
    [
        ({}, "10 s · 86 % of the limit; bottleneck: model"),
        ({"state": "running", "started_at": datetime(2026, 11, 21, 2, 5)}, "running since 02:05 UTC"),
        ({"state": "failed", "exit_code": 14}, "the last run failed with exit code 14"),
        ({"state": "failed", "exit_code": None}, "the last run failed"),
    ],
    ids=["done", "running", "failed", "killed"],
)
def test_the_verdict_says_how_the_last_run_ended(row, changed, end):
    row |= changed
    told = day_summary_line(DAY.date, COUNTS, run_report(row, COUNTS), run_figures(row))
    assert told == f"20 Nov: 100 = 99 predicted + 1 rejected + 0 pending · {end}"


def test_the_verdict_of_a_day_that_no_run_has_seen():
    assert day_summary_line(date(2026, 11, 20), DayCounts(3, 0, 0, 3), None, None).endswith("3 pending · never run")
