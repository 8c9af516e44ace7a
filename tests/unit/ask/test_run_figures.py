from datetime import datetime

import pytest

from infer_app.ask.run_figures import day_summary_line, run_figures, run_report
from infer_app.base.run_report import DayCounts
from infer_app.tables.day.facts import DayFacts
from infer_app.tables.day.verdict import judge
from tests.conftest import DAY, MODEL

COUNTS = DayCounts(100, 99, 1, 0)


@pytest.fixture
def row(tables, add_run):
    add_run()
    (found,) = tables.rows.runs_of_day(DAY.date, MODEL.model_id)
    return found


def test_a_row_says_what_the_run_told(row):
    told = run_report(row, COUNTS)
    assert (told.date, told.run_id, told.day, told.selected) == (DAY.date, "run-0", COUNTS, 100)
    assert (told.steady_images_per_second, told.limited_by, told.share_of_limit) == (12.0, "model", 0.86)
    assert told.stages == {"decode": 1.65, "model": 12.22}
    assert told.num_workers == 0  # of a row of an older program, which did not keep it


def test_the_rate_is_that_of_the_workers_where_it_is_known(row):
    rates = [{}, {"throughput": None}, {"throughput": None, "images_per_second": None}, {"selected": 5}]
    assert [run_figures(row | changed).rate for changed in rates] == [12.0, 10.0, None, None]


def test_a_row_names_the_bottleneck_that_the_last_line_named_unless_its_images_are_few(row):
    busy = {"walls": {"model": 30.0}, "num_cores": 2, "num_workers": 2}
    assert run_report(row, COUNTS).bottleneck == "model"
    assert run_report(row | {"throughput": row["throughput"] | busy}, COUNTS).bottleneck == "other programs"
    few = run_report(row | {"selected": 5}, COUNTS)
    assert (few.bottleneck, few.limited_by, few.share_of_limit) == (None, None, None)


@pytest.mark.parametrize(
    ("changed", "pending", "end"),
    [
        ({}, 1, "10 s · 86 % of the limit; bottleneck: model"),
        ({"state": "running", "started_at": datetime(2026, 11, 21, 2, 5)}, 1, "running since 02:05 UTC"),
        ({"state": "failed", "exit_code": 14}, 1, "the last run failed with exit code 14"),
        ({"state": "failed", "exit_code": None}, 1, "the last run failed"),
        ({"state": "failed", "exit_code": 14}, 0, "10 s · 86 % of the limit; bottleneck: model"),
    ],
    ids=["done", "running", "failed", "killed", "failed with nothing left"],
)
def test_the_verdict_says_how_the_last_run_ended(row, changed, pending, end):
    row |= changed
    counts = DayCounts(99 + pending, 99, 0, pending)
    state = judge(DayFacts(DAY.date, counts, [row], "5%", is_running=row["state"] == "running"))
    told = day_summary_line(DAY.date, counts, run_report(row, counts), run_figures(row), state)
    assert told == f"20 Nov: {99 + pending} = 99 predicted + 0 rejected + {pending} pending · {end}"
