from datetime import UTC, date, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.base.day import Day, each_date, find_zone, parse_date
from infer_app.base.errors import UsageError

ZONES = sorted(zone for zone in available_timezones() if zone != "localtime")


@given(st.dates(date(2015, 1, 1), date(2035, 12, 31)), st.sampled_from(ZONES))
def test_days_tile_time(day, zone):
    today, tomorrow = Day.of(day, zone), Day.of(day + timedelta(days=1), zone)
    assert today.end == tomorrow.start
    assert today.start < today.end


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        (date(2026, 3, 29), "Europe/Berlin", 23),
        (date(2026, 10, 25), "Europe/Berlin", 25),
        (date(2026, 11, 20), "UTC", 24),
        (date(2026, 9, 6), "America/Santiago", 23),  # its clocks jump over midnight itself
    ],
)
def test_a_day_has_the_hours_of_its_zone(day, zone, hours):
    interval = Day.of(day, zone)
    assert interval.end - interval.start == timedelta(hours=hours)


def test_yesterday_is_of_the_zone_not_of_the_machine():
    now = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    assert parse_date("yesterday", "UTC", now) == date(2026, 11, 19)
    assert parse_date("yesterday", "Pacific/Auckland", now) == date(2026, 11, 20)
    assert parse_date("2026-01-02", "UTC", now) == date(2026, 1, 2)


def test_what_is_no_date_or_zone_is_a_usage_error():
    with pytest.raises(UsageError, match="not a date: '20 Nov'"):
        parse_date("20 Nov", "UTC")
    with pytest.raises(UsageError, match="unknown time zone: 'Mars/Base'"):
        find_zone("Mars/Base")
    with pytest.raises(UsageError, match="is before"):
        each_date(date(2026, 2, 1), date(2026, 1, 1))
    assert list(each_date(date(2026, 1, 31), date(2026, 2, 1))) == [date(2026, 1, 31), date(2026, 2, 1)]
