"""The bounds of a day in the format of the column that decides an image's day.

Databases compare what they store: SQLite compares dates as text, where a bound with one digit more than the row
sorts after it. A bound is therefore written as the shortest text that every spelling of that instant starts with.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, func, select

from infer_app.base.day import MAX_YEAR, MIN_YEAR, Day, find_zone
from infer_app.base.domain import NO_TIME, CaptureTime, TimeOrigin
from infer_app.base.errors import UsageError
from infer_app.tables.engine.column_types import OddTime

_TEXT = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?P<separator>[ T])\d\d:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?P<offset>Z|UTC|[+-]\d\d(?::?\d\d)?)?)?$"
)
_EXIF_DATE = re.compile(r"^(\d{4}):(\d\d):(\d\d) ")
_UTC_OFFSETS = ("Z", "UTC", "+00", "+0000", "+00:00")
_EPOCH_UNITS = ((1e17, 10**9), (1e14, 10**6), (1e11, 10**3))  # from these values on: nano-, micro-, milliseconds
EXAMPLES = 20  # values that are looked at in no order
MAX_INTEGER = 2**63 - 1  # that a column can hold: nanoseconds end in 2262
_LEAST_S = 1e8  # the year 1973: a column of smaller numbers alone is one of ids or sizes
_LIKELY = range(473_385_600, 4_102_444_800)  # seconds from 1985 to 2100: a number in this range shows the unit


def read_examples(connection: Connection, time: ColumnElement[Any], relation: FromClause) -> list[Any]:
    """Return values of a column: one if it has a type of times, else EXAMPLES, the least and the greatest.

    Any of numbers or texts may be that of an unknown date, such as 0, which does not show the unit or format.
    """
    known = select(time).select_from(relation).where(time.is_not(None))
    found = list(connection.scalars(known.limit(1)))
    if found and isinstance(found[0], OddTime):
        found = list(connection.scalars(known.where(time.between(date(MIN_YEAR, 1, 1), date(MAX_YEAR, 1, 1))).limit(1)))
    if not found or isinstance(found[0], date):
        return found
    ends = (select(end(time)).select_from(relation).scalar_subquery() for end in (func.min, func.max))
    return [*connection.scalars(known.limit(EXAMPLES)), *connection.execute(select(*ends)).one()]


def day_bounds(day: Day, column: str, examples: Sequence[object], zone: str | None) -> tuple[object, object]:
    """Return [start, end) of `day` as two values that compare correctly with those of `column`.

    `examples` are some values of the column (none if it is empty); those that show no format, such as 0 or an empty
    text for an unknown date, count only without others. `zone` applies to values without a zone.
    Raises UsageError for naive values without a zone, for values that are no times, and for several units or formats.
    """
    telling = [one for one in examples if _shows_format(one)] or [max(examples, key=_size, default=None)]
    bounds = [_bounds_like(day, column, example, zone) for example in telling]
    for example, other in zip(telling, bounds, strict=True):
        if other != bounds[0]:
            raise UsageError(
                f"[source] time = {column!r} holds {telling[0]!r} and {example!r}: times of several units or formats",
                "write a query that gives all times in one unit and format, or leaves out the others",
            )
    return bounds[0]


def _shows_format(value: object) -> bool:
    if isinstance(value, int | float):
        return _LIKELY.start <= abs(value) / _factor_of(value) < _LIKELY.stop
    if isinstance(value, str):
        return _TEXT.match(value) is not None and read_time(value, "UTC", strict=True) is not None
    return isinstance(value, date)


def _size(value: object) -> float:
    return abs(value) if isinstance(value, int | float) else 0


def _factor_of(value: float) -> int:
    return next((factor for size, factor in _EPOCH_UNITS if abs(value) >= size), 1)


def _bounds_like(day: Day, column: str, example: object, zone: str | None) -> tuple[object, object]:
    if type(example) is date or (isinstance(example, str) and len(example) == 10 and _TEXT.match(example)):
        following = day.end.astimezone(find_zone(day.zone)).date()  # of an interval of days the day after the last
        return (str(day.date), str(following)) if isinstance(example, str) else (day.date, following)
    write = _writer(column, example, zone)
    return write(day.start), write(day.end)


def _writer(column: str, example: object, zone: str | None) -> Callable[[datetime], object]:
    if example is None:
        return lambda instant: _naive(instant, "UTC")  # no row to compare with
    if isinstance(example, bool):
        raise _not_a_time(column, example)
    if isinstance(example, int | float):
        factor = _factor_of(example)
        if example and not _LEAST_S <= abs(example) / factor < _LIKELY.stop:
            raise _not_a_time(column, example)
        return lambda instant: min(int(instant.timestamp()) * factor, MAX_INTEGER)
    if isinstance(example, datetime):
        if example.tzinfo is not None:
            return lambda instant: instant
        return lambda instant: _naive(instant, _stated(zone, column))
    if isinstance(example, str):
        return _text_writer(column, example, zone)
    raise _not_a_time(column, example)


def _text_writer(column: str, example: str, zone: str | None) -> Callable[[datetime], str]:
    match = _TEXT.match(example)
    if match is None:
        raise _not_a_time(column, example)
    offset = match["offset"]
    if offset and offset not in _UTC_OFFSETS:
        raise UsageError(
            f"[source] time = {column!r} holds text with the offset {offset} ({example!r}), which can't be compared",
            "name a column or a query that gives UTC",
        )
    local = "UTC" if offset else _stated(zone, column)
    # Minutes are enough: since 1972 every zone's day has begun at a full minute. Midnight is written as the date alone,
    # with which every spelling of it starts.
    written = f"%Y-%m-%d{match['separator']}%H:%M"
    return lambda instant: _naive(instant, local).strftime(written).removesuffix(f"{match['separator']}00:00")


def _naive(instant: datetime, zone: str) -> datetime:
    return instant.astimezone(find_zone(zone)).replace(tzinfo=None)


def _stated(zone: str | None, column: str) -> str:
    if zone is None:
        raise UsageError(
            f"[source] time = {column!r} holds times without a zone",
            'say which they are in: [source] time_zone = "UTC", or for example "Europe/Berlin"',
        )
    return zone


def _not_a_time(column: str, example: object) -> UsageError:
    return UsageError(
        f"[source] time = {column!r} holds {example!r}, which is not a time",
        "name a column of dates, times, ISO text such as 2026-11-20 04:05:06, or seconds since 1970",
    )


def read_time(value: object, zone: str | None, *, strict: bool = False) -> datetime | None:
    """Return a value of the column as UTC time, for messages, or None if it can't be read or no day has its year.

    Unless `strict`, a text such as 2026-10-32 is of the day that it is compared into.
    """
    try:
        if isinstance(value, int | float):
            value = datetime.fromtimestamp(value / _factor_of(value), UTC)
        elif isinstance(value, str):
            value = _read_text(value, strict=strict)
    except (ValueError, OverflowError, OSError):
        return None
    if type(value) is date:
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime) or not MIN_YEAR <= value.year < MAX_YEAR:
        return None
    if value.tzinfo is None and zone in (None, "UTC"):
        return value.replace(tzinfo=UTC)
    return (value if value.tzinfo else value.replace(tzinfo=find_zone(zone or "UTC"))).astimezone(UTC)


def read_instant(value: object, zone: str | None, day_zone: str) -> datetime | None:
    """Return a value of the column as UTC time, or None if no day has it: an image's time, by which it is listed.

    A date alone is the beginning of the day in `day_zone`. A text that a day's bounds cover is of its date at least.
    """
    is_date = type(value) is date or (isinstance(value, str) and len(value) == 10)
    instant = read_time(value, day_zone if is_date else zone)
    if instant is None and isinstance(value, str) and not isinstance(value, OddTime):
        instant = read_time(value[:10], zone)
    return instant


def read_clock(value: object, zone: str | None, origin: TimeOrigin) -> CaptureTime:
    """Return a value of a column as a camera states a time: by its own clock, with the offset if there is one.

    `zone` is that in which seconds and times with a zone are shown. A date alone, 0 for an unknown time and what is no
    time give NO_TIME.
    """
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, str):
        value = _EXIF_DATE.sub(r"\1-\2-\3 ", value)  # as EXIF writes it
    instant = read_time(value, zone, strict=True)
    is_number = isinstance(value, int | float)
    if instant is None or (is_number and not _shows_format(value)) or isinstance(value, bool):
        return NO_TIME
    if isinstance(value, str):
        written = datetime.fromisoformat(str(_read_text(value, strict=True)))
        is_whole = len(value) > len("2026-11-20")
        return CaptureTime(written.replace(tzinfo=None), written.utcoffset(), origin) if is_whole else NO_TIME
    if isinstance(value, datetime) and value.tzinfo is None:
        return CaptureTime(value, None, origin)
    if not is_number and not isinstance(value, datetime):
        return NO_TIME
    stated = instant.astimezone(find_zone(zone or "UTC"))
    return CaptureTime(stated.replace(tzinfo=None), stated.utcoffset(), origin)


def _read_text(text: str, *, strict: bool) -> date:
    try:
        return datetime.fromisoformat(text.replace(" UTC", "Z") if text[-1:] == "C" else text)
    except ValueError:
        if strict or not _TEXT.match(text):
            raise
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not 1 <= month <= 12:
        year, month, day = year + (month > 12), 1, 0
    first = date(year, month, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return min(first + timedelta(days=day - 1), last)
