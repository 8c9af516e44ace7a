import os
from dataclasses import replace
from datetime import datetime

import pytest

from infer_app.ask.run_figures import day_summary_line, read_timeline, run_figures, run_report
from infer_app.base.domain import Span
from infer_app.base.errors import UsageError
from infer_app.base.run_report import DayCounts
from infer_app.base.telemetry.display import Trace
from infer_app.tables.queries.day_state import DayFacts, judge_day
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


def test_a_failure_is_one_that_failed_or_ended_with_a_code(row):
    run = run_figures(row)
    assert not run.has_failed
    assert replace(run, exit_code=3).has_failed
    assert replace(run, state="failed", exit_code=None).has_failed
    assert not replace(run, state="running", exit_code=None).has_failed


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
    state = judge_day(DayFacts(counts, [row], "5%", is_running=row["state"] == "running"))
    told = day_summary_line(DAY.date, counts, run_report(row, counts), run_figures(row), state)
    assert told == f"20 Nov: {99 + pending} = 99 predicted + 0 rejected + {pending} pending · {end}"


def test_a_trace_becomes_a_row_for_each_process(tmp_path):
    path = tmp_path / "run.json"
    with Trace(path) as trace:
        start = trace._origin
        trace.add(7, [Span("decode", start, 4.0, 4.0, ("1",)), Span("model", start + 4, 6.0, 6.0, ("1",))])
        trace.add(os.getpid(), [Span("write", start + 9.0, 1.0, 0.1, ("1",))])
    found = read_timeline(path)
    assert found.seconds == pytest.approx(10)
    assert [lane.name for lane in found.lanes] == ["coordinator", "worker 1"]
    coordinator, worker = found.lanes
    assert coordinator.busy == pytest.approx(0.1)
    assert worker.busy == pytest.approx(1)
    assert [(bar.stage, bar.start, bar.width) for bar in worker.bars] == [
        ("decode", 0, pytest.approx(0.4)),
        ("model", pytest.approx(0.4), pytest.approx(0.6)),
    ]
    assert [bar.stage for bar in coordinator.bars] == ["write"]


def test_a_trace_of_a_run_that_did_nothing_is_empty_and_what_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "run.json"
    with pytest.raises(UsageError, match="can't be read"):
        read_timeline(path)
    with Trace(path):
        pass
    found = read_timeline(path)
    assert (found.seconds, found.lanes) == (0, ())
    torn = '{"displayTimeUnit": "ms", "traceEvents": [\n{"ph": "X"}\n]}\n'
    for content in ("", "[]", "nonsense", torn, '{"displayTimeUnit"\n{"'):
        path.write_text(content)
        with pytest.raises(UsageError, match="is not a trace"):
            read_timeline(path)
