from dataclasses import replace
from datetime import date

import pytest

from infer_app.observe.verdict import balance, duration, stage_costs, verdict
from infer_app.records import DayCounts, RunReport

REPORT = RunReport(
    date=date(2026, 11, 19),
    model="pets",
    model_id="0123456789abcdef",
    variant="cpu-torchscript",
    run_id="20261120T020000-abcdef",
    executor="cpu",
    device="cpu",
    selected=41_203,
    predicted=41_188,
    rejected=15,
    reasons={"truncated": 15},
    day=DayCounts(41_203, 41_188, 15, 0),
    seconds=2760.0,
    images_per_second=14.9,
    steady_images_per_second=15.04,
    limit_images_per_second=16.0,
    stages={"read": 0.1, "decode": 1.7, "transform": 0.004, "model": 14.1},
    exit_code=0,
)


def test_the_last_line_of_a_run():
    assert verdict(REPORT) == (
        "19 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending · 46 min · 94 % of the limit · the model limits"
    )


@pytest.mark.parametrize("unknown", [{"steady_images_per_second": None}, {"limit_images_per_second": None}], ids=str)
def test_a_handful_of_images_is_no_measure_of_speed(unknown):
    assert verdict(replace(REPORT, **unknown)) == (
        "19 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending · 46 min · too few images to judge the speed"
    )


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        (DayCounts(3, 2, 1, 0), "19 Nov: 3 = 2 predicted + 1 rejected + 0 pending · nothing new"),
        (DayCounts(0, 0, 0, 0), "19 Nov: 0 = 0 predicted + 0 rejected + 0 pending · no images"),
    ],
)
def test_a_run_that_selected_nothing_says_why(counts, line):
    assert verdict(replace(REPORT, selected=0, predicted=0, rejected=0, day=counts)) == line


def test_a_run_that_was_stopped_before_its_first_image_does_not_call_the_pending_nothing_new():
    stopped = replace(REPORT, selected=0, predicted=0, rejected=0, day=DayCounts(9, 0, 0, 9), exit_code=75)
    assert "nothing new" not in verdict(stopped)


def test_books_that_do_not_balance_are_not_told_as_equal():
    assert balance(DayCounts(1_000, 900, 50, 49)) == "1,000 ≠ 900 predicted + 50 rejected + 49 pending"


def test_costs_leave_out_what_costs_nothing():
    assert stage_costs(REPORT) == (
        "CPU ms per image: read 0.10, decode 1.70, model 14.10; limit 16 images/s, reached 15, 15 once the workers ran"
    )
    unknown = replace(REPORT, limit_images_per_second=None, steady_images_per_second=None, stages={})
    assert stage_costs(unknown) == "CPU ms per image: ; limit unknown images/s, reached 15"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (1.25, "1.2 s"),
        (9.9, "9.9 s"),
        (10, "10 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (2760, "46 min"),
        (5970, "1 h 40 min"),
        (6000, "1 h 40 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_a_duration_has_two_or_three_digits(seconds, text):
    assert duration(seconds) == text
