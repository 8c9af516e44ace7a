from dataclasses import replace
from datetime import datetime

import pytest

from infer_app.telemetry.summary_line import Forecast, forecast
from tests.unit.observe.reports import REPORT

SAMPLE = replace(REPORT, selected=200, seconds=12.0, images_per_second=16.7, steady_images_per_second=20.0)


@pytest.mark.parametrize(("pending", "seconds"), [(200, 12.0), (2_000, 102.0), (0, 2.0)])
def test_starting_is_paid_once_and_the_steady_rate_for_every_image(pending, seconds):
    assert forecast(SAMPLE, pending) == Forecast(pending, seconds)


def test_a_sample_too_small_for_a_steady_rate_goes_on_at_the_limit_of_its_costs():
    """Five images in twelve seconds are a start, and no rate."""
    few = replace(SAMPLE, selected=5, steady_images_per_second=None, images_per_second=0.4)
    assert forecast(replace(few, limit_images_per_second=20.0), 1_000).seconds == 11.75 + 50.0
    assert forecast(replace(few, limit_images_per_second=None), 1_000).seconds == 2_500.0


def test_without_a_sample_there_is_no_forecast_of_time():
    nothing = forecast(replace(SAMPLE, selected=0, images_per_second=0.0), 0)
    assert nothing.describe(datetime(2026, 11, 20)) == "0 pending"


def test_it_says_how_many_how_long_and_until_when():
    told = Forecast(412_000, 2_760.0).describe(datetime(2026, 11, 20, 4, 26))
    assert told == "412,000 pending, 46 min, done 05:12"
