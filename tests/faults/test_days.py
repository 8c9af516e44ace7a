"""What a day is: those of each zone tile time, none left out."""

from datetime import date, timedelta
from zoneinfo import available_timezones

import pytest

from infer_app.day import Day

ZONES = sorted(zone for zone in available_timezones() if zone != "localtime")


@pytest.mark.full
@pytest.mark.timeout(900)
def test_every_day_of_every_zone_begins_where_the_one_before_ended():
    for zone in ZONES:
        day = Day.of(date(2015, 1, 1), zone)
        while day.date.year < 2036:
            following = Day.of(day.date + timedelta(days=1), zone)
            assert day.start < day.end == following.start, (zone, day)
            day = following
