"""Every way in which a column may hold times, compared by a real SQLite."""

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from infer_app.base.day import Day
from infer_app.base.domain import TimeOrigin
from infer_app.base.errors import UsageError
from infer_app.tables.listing.time_column import MAX_INTEGER, day_bounds, read_clock, read_time

DATE = date(2026, 11, 20)
DAY = Day.of(DATE, "UTC")
BERLIN = Day.of(DATE, "Europe/Berlin")  # begins at 23:00 UTC of the day before
LONG = Day.of(date(2026, 10, 25), "Europe/Berlin")  # has 25 hours


def rows_of_day(rows, day, zone=None):
    """Which of `rows` SQLite finds between the bounds, as the source asks for them; the first row is the example."""
    start, end = day_bounds(day, "taken", rows[:1], zone)
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        connection.execute("CREATE TABLE photos (taken)")
        connection.executemany("INSERT INTO photos VALUES (?)", [(row,) for row in rows])
        found = connection.execute("SELECT taken FROM photos WHERE taken >= ? AND taken < ?", (start, end))
        return [row for (row,) in found]


def spelled(pattern):
    return lambda time: time.strftime(pattern)


FORMATS = {
    "space": spelled("%Y-%m-%d %H:%M:%S"),
    "T": spelled("%Y-%m-%dT%H:%M:%S"),
    "space, minutes": spelled("%Y-%m-%d %H:%M"),
    "T, minutes": spelled("%Y-%m-%dT%H:%M"),
    "space, fraction": spelled("%Y-%m-%d %H:%M:%S.%f"),
    "T, milliseconds": lambda time: time.isoformat("T", "milliseconds")[:23],
    "comma": lambda time: time.isoformat(" ", "milliseconds")[:23].replace(".", ","),
    "T, Z": spelled("%Y-%m-%dT%H:%M:%SZ"),
    "T, fraction, Z": spelled("%Y-%m-%dT%H:%M:%S.%fZ"),
    "space, +00:00": spelled("%Y-%m-%d %H:%M:%S+00:00"),
    "T, +00:00": spelled("%Y-%m-%dT%H:%M:%S+00:00"),
    "+0000": spelled("%Y-%m-%d %H:%M:%S +0000"),
    "+00": spelled("%Y-%m-%d %H:%M:%S+00"),
    "UTC": spelled("%Y-%m-%d %H:%M:%S UTC"),
    "seconds": lambda time: int(time.timestamp()),
    "milliseconds": lambda time: int(time.timestamp()) * 10**3,
    "microseconds": lambda time: int(time.timestamp()) * 10**6,
    "nanoseconds": lambda time: int(time.timestamp()) * 10**9,
    "float seconds": lambda time: time.timestamp(),
}


@pytest.mark.parametrize("day", [DAY, BERLIN, Day.of(DATE, "Asia/Kathmandu"), LONG], ids=str)
@pytest.mark.parametrize("spell", FORMATS.values(), ids=FORMATS)
def test_a_day_holds_its_first_moment_and_not_the_next_days(spell, day):
    minute = timedelta(minutes=1)
    before, first, noon, last, after = map(
        spell, (day.start - minute, day.start, day.start + 12 * 60 * minute, day.end - minute, day.end)
    )
    assert rows_of_day([noon, before, after, last, first], day, "UTC") == [noon, last, first]


@pytest.mark.parametrize("day", [DAY, BERLIN], ids=lambda day: day.zone)
def test_a_date_alone_belongs_to_the_day_of_that_date(day):
    assert rows_of_day(["2026-11-20", "2026-11-19", "2026-11-21"], day) == ["2026-11-20"]
    assert day_bounds(day, "taken", [date(2026, 1, 1)], None) == (DATE, date(2026, 11, 21))


def test_a_column_of_dates_and_times_is_compared_by_its_date_where_an_example_is_a_date():
    rows = ["2026-11-20", "2026-11-20 00:00:00", "2026-11-20T23:59:59Z", "2026-11-19 23:59:59", "2026-11-21 00:00:00"]
    assert rows_of_day(rows, DAY) == rows[:3]


@pytest.mark.parametrize("example", ["2026-11-20 12:00:00", "2026-11-20 23:59:59.999999"])
@pytest.mark.parametrize("other", ["2026-11-20", "2026-11-20T07:00:00", "2026-11-20 00:00"])
def test_other_spellings_beside_the_example_fall_into_the_day_too(other, example):
    rows = [example, other]
    assert rows_of_day(rows, DAY, "UTC") == rows
    assert rows_of_day(rows, DAY.before(1), "UTC") == rows_of_day(rows, DAY.before(-1), "UTC") == []


def test_naive_times_are_those_of_the_stated_zone():
    """Berlin is an hour ahead of UTC in November: the day of UTC begins there at one."""
    rows = ["2026-11-20 00:59:59", "2026-11-20 01:00:00", "2026-11-21 00:59:59", "2026-11-21 01:00:00"]
    assert rows_of_day(rows, DAY, "Europe/Berlin") == rows[1:3]
    assert day_bounds(BERLIN, "taken", rows, "Europe/Berlin") == ("2026-11-20", "2026-11-21")


def test_times_with_an_offset_need_no_zone_and_ignore_a_stated_one():
    example = "2026-11-20T12:00:00Z"
    assert day_bounds(BERLIN, "taken", [example], None) == ("2026-11-19T23:00", "2026-11-20T23:00")
    assert day_bounds(BERLIN, "taken", [example], "Asia/Tokyo") == ("2026-11-19T23:00", "2026-11-20T23:00")


def test_times_that_a_database_types_are_compared_as_times():
    aware = datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert day_bounds(BERLIN, "taken", [aware], None) == (BERLIN.start, BERLIN.end)
    naive = datetime(2026, 1, 1)
    assert day_bounds(DAY, "taken", [naive], "Europe/Berlin") == (datetime(2026, 11, 20, 1), datetime(2026, 11, 21, 1))


MILLISECONDS = DAY.start.timestamp() * 1000


@pytest.mark.parametrize(
    "examples",
    [
        [0, MILLISECONDS],
        [-1, 3_600_000.0, MILLISECONDS],
        [9_999_999_999_999_999, "", MILLISECONDS],
        [160_000_000_000, 0, 86_400_000],  # 1975: the largest
    ],
)
def test_values_for_an_unknown_date_do_not_show_the_unit(examples):
    assert day_bounds(DAY, "taken", examples, None) == (MILLISECONDS, MILLISECONDS + 86_400_000)


def test_texts_for_an_unknown_date_do_not_show_the_format():
    examples = ["", "unknown", "0000-00-00T00:00:00", "2026-11-20 12:00"]
    assert day_bounds(BERLIN, "taken", examples, "UTC") == ("2026-11-19 23:00", "2026-11-20 23:00")


def test_texts_of_several_formats_are_refused_where_the_day_differs_by_them():
    examples = ["2026-11-20 12:00", "2026-11-20T12:00Z"]
    assert day_bounds(DAY, "taken", examples, "UTC") == ("2026-11-20", "2026-11-21")
    with pytest.raises(UsageError, match="several units or formats"):
        day_bounds(BERLIN, "taken", examples, "UTC")


NAIVE = ["2026-11-20 12:00:00", "2026-11-20T12:00", datetime(2026, 11, 20, 12)]
OF_OTHER_UNITS = [DAY.start.timestamp(), MILLISECONDS * 1000, "2026-11-20"]
OTHER_OFFSETS = ["+01:00", "-0500", " +02"]
WEBKIT = 13_440_247_200_000_000  # microseconds since 1601, which would be of the year 2395
NO_TIMES = [WEBKIT, "", "yesterday", "20.11.2026 12:00", "2026-11-20 noon", "1764000000", True, b"x"]


@pytest.mark.parametrize(
    ("examples", "zone", "message", "hint"),
    [
        *(([naive], None, "'taken' holds times without a zone", "time_zone") for naive in NAIVE),
        *(([f"2026-11-20 12:00:00{one}"], "UTC", f"the offset {one.strip()}", "gives UTC") for one in OTHER_OFFSETS),
        *(([0, MILLISECONDS, other], None, ": times of several units", "one unit") for other in OF_OTHER_UNITS),
        *(([one], "UTC", f"'taken' holds {one!r}, which is not a time", "a column of dates") for one in NO_TIMES),
    ],
)
def test_what_can_not_be_compared_with_a_day_is_refused(examples, zone, message, hint):
    with pytest.raises(UsageError) as caught:
        day_bounds(DAY, "taken", examples, zone)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_last_day_of_nanoseconds_is_a_number_that_a_column_can_hold():
    assert day_bounds(Day.of(date(9000, 1, 1), "UTC"), "taken", [MILLISECONDS * 10**6], None) == (MAX_INTEGER,) * 2


def test_a_column_without_a_value_has_no_rows_and_no_error():
    start, end = day_bounds(DAY, "taken", [], None)
    assert (start, end) == (datetime(2026, 11, 20), datetime(2026, 11, 21))


@pytest.mark.parametrize("spell", FORMATS.values(), ids=FORMATS)
def test_every_format_is_read_back_for_messages(spell):
    time = datetime(2026, 11, 20, 4, 5, tzinfo=UTC)
    assert read_time(spell(time), None) == time


def test_read_time_knows_zones_dates_and_its_limits():
    assert read_time("2026-11-20 12:00", "Europe/Berlin") == datetime(2026, 11, 20, 11, tzinfo=UTC)
    assert read_time(date(2026, 11, 20), None) == datetime(2026, 11, 20, tzinfo=UTC)
    east = datetime(2026, 11, 20, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert read_time(east, None) == datetime(2026, 11, 20, tzinfo=UTC)
    assert [read_time(value, None) for value in (None, "no time", b"x")] == [None, None, None]


EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "at", "offset"),
    [
        ("2026-11-20 04:05:06.5", datetime(2026, 11, 20, 4, 5, 6, 500_000), None),
        ("2026:11:20 04:05:06", datetime(2026, 11, 20, 4, 5, 6), None),  # as EXIF writes it
        ("2026-11-20T04:05:06+02:00", datetime(2026, 11, 20, 4, 5, 6), timedelta(hours=2)),  # as it is written
        (datetime(2026, 11, 20, 4, 5, 6), datetime(2026, 11, 20, 4, 5, 6), None),
        # A server shows it by the zone of the connection: here by that of the source.
        (datetime(2026, 11, 20, 4, 5, 6, tzinfo=EAST), datetime(2026, 11, 20, 3, 5, 6), timedelta(hours=1)),
        (1_795_143_906, datetime(2026, 11, 20, 4, 5, 6), timedelta(hours=1)),
        (Decimal(1_795_143_906), datetime(2026, 11, 20, 4, 5, 6), timedelta(hours=1)),
        *((unknown, None, None) for unknown in (None, 0, 1, True, 20261120040506, "", "2026-11-20", "soon", b"x")),
        (date(2026, 11, 20), None, None),  # a day says nothing of what follows what
    ],
)
def test_a_clock_is_read_as_it_is_stated_and_what_is_none_gives_no_time(value, at, offset):
    found = read_clock(value, "Europe/Berlin", TimeOrigin.COLUMN)
    assert (found.at, found.offset) == (at, offset)
