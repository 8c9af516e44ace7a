from dataclasses import replace
from datetime import datetime

import pytest

from infer_app.base.run_report import DayCounts
from infer_app.base.telemetry.bottleneck import with_bottleneck
from infer_app.base.telemetry.summary_line import (
    Forecast,
    balance,
    duration,
    forecast,
    speed,
    stage_costs,
    summary_line,
)
from tests.support.run_reports import REPORT


@pytest.mark.parametrize(
    ("changed", "end"),
    [
        ({"share_of_limit": None}, "46 min · too few images to judge the speed"),
        ({"limited_by": None}, "46 min · too few images to judge the speed"),
        ({"selected": 0}, "nothing new"),
        ({"selected": 0, "day": DayCounts(0, 0, 0, 0)}, "no images"),
        ({"selected": 0, "day": DayCounts(9, 0, 0, 9)}, "nothing done"),  # stopped before its first image
    ],
    ids=str,
)
def test_of_few_images_or_none_the_last_line_says_no_speed(changed, end):
    assert summary_line(with_bottleneck(replace(REPORT, **changed))).endswith(f" pending · {end}")


def test_books_that_do_not_balance_are_not_told_as_equal():
    assert balance(DayCounts(1_000, 900, 50, 49)) == "1,000 ≠ 900 predicted + 50 rejected + 49 pending"


def test_costs_leave_out_what_costs_nothing():
    assert stage_costs(REPORT) == (
        "CPU ms per image: read 0.10, decode 1.70, model 14.10; limit 16 images/s, reached 15, 15 once the workers ran"
    )
    waiting = replace(REPORT, waits={"select": 0.0, "read": 3.2, "write": 0.004})
    assert "model 14.10; waiting: read 3.20; limit 16 images/s" in stage_costs(waiting)
    few = with_bottleneck(replace(REPORT, selected=6))
    assert (
        with_bottleneck(replace(REPORT, share_of_limit=11.9)).share_of_limit is None
    )  # a burst at the end of a short run
    assert stage_costs(few) == "CPU ms per image: read 0.10, decode 1.70, model 14.10"
    assert stage_costs(replace(few, stages={"model": 0.001})) == "CPU ms per image: under 0.01"


@pytest.mark.parametrize(
    ("share", "slower_by", "limited_by", "bottleneck"),
    [
        (0.94, 1.0, "model", "model"),
        (0.3, 0.6, "model", "other programs"),
        (0.97, 0.6, "model", "model"),
        (1.03, 0.6, "model", "model"),
        (1.14, 0.3, "database", "other programs"),  # waits for a core, which look like waits for the database
        (1.0, 0.9, "database", "database"),
    ],
)
def test_others_limit_where_they_took_most_of_what_is_missing(share, slower_by, limited_by, bottleneck):
    walls = {stage: ms / slower_by for stage, ms in REPORT.stages.items()}
    shared = replace(REPORT, walls=walls, num_cores=2, num_workers=2, share_of_limit=share, limited_by=limited_by)
    assert speed(with_bottleneck(shared)) == f"{100 * min(share, 1):.0f} % of the limit; bottleneck: {bottleneck}"


def test_a_share_that_other_programs_took_is_told():
    walls = {"read": 9.0, "decode": 3.4, "transform": 0.008, "model": 28.2}  # reading may wait for the storage
    shared = replace(REPORT, walls=walls, num_cores=2, num_workers=2)
    assert stage_costs(shared).endswith("once the workers ran; other programs took 50 % of the cores' time")
    assert "other programs" not in stage_costs(replace(shared, num_workers=4))  # they take them from each other
    assert "other programs" not in stage_costs(replace(shared, walls=REPORT.stages))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.9, "9.9 s"), (10, "10 s"), (100, "2 min"), (5970, "1 h 40 min"), (90_000, "25 h 0 min")],
)
def test_a_duration_has_two_or_three_digits(seconds, text):
    assert duration(seconds) == text


SAMPLE = replace(REPORT, selected=200, seconds=12.0, images_per_second=16.7, steady_images_per_second=20.0)


@pytest.mark.parametrize(("pending", "seconds"), [(200, 12.0), (2_000, 102.0), (0, 2.0)])
def test_starting_is_paid_once_and_the_steady_rate_for_every_image(pending, seconds):
    assert forecast(SAMPLE, pending) == Forecast(pending, seconds)


def test_a_forecast_says_how_many_how_long_and_until_when():
    now = datetime(2026, 11, 20, 4, 26)
    assert Forecast(412_000, 2_760.0).describe(now) == "412,000 pending, 46 min, done 05:12"
    without_a_sample = forecast(replace(SAMPLE, selected=0, images_per_second=0.0), 0)
    assert without_a_sample.describe(now) == "0 pending"


def test_a_sample_too_small_for_a_steady_rate_goes_on_at_the_limit_of_its_costs():
    """Five images in twelve seconds are a start, and no rate."""
    few = replace(SAMPLE, selected=5, steady_images_per_second=None, images_per_second=0.4)
    assert forecast(replace(few, limit_images_per_second=20.0), 1_000).seconds == 11.75 + 50.0
    assert forecast(replace(few, limit_images_per_second=None), 1_000).seconds == 2_500.0
