"""Days: a date in an IANA zone as a half-open interval of UTC time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from infer_app.base.errors import UsageError

MIN_YEAR, MAX_YEAR = 1900, 9000
MAX_DAYS = 3660  # of a backfill


@dataclass(frozen=True, slots=True)
class Day:
    """A date in a zone as [start, end) in UTC, of 23, 24 or 25 hours: the days of a zone have no gaps or overlaps."""

    date: dt.date
    zone: str
    start: datetime  # aware, UTC
    end: datetime  # aware, UTC

    @classmethod
    def of(cls, day: dt.date, zone: str) -> Day:
        """Return the day of a date in a zone. Raises UsageError outside the years MIN_YEAR to MAX_YEAR."""
        if not MIN_YEAR <= day.year <= MAX_YEAR:
            raise UsageError(f"{day} is outside the years {MIN_YEAR} to {MAX_YEAR}")
        return cls(day, zone, _midnight(day, zone), _midnight(day + timedelta(days=1), zone))

    def before(self, num_days: int) -> Day:
        return Day.of(self.date - timedelta(days=num_days), self.zone)

    def __str__(self) -> str:
        return self.date.isoformat()


def naive(time: datetime) -> datetime:
    """Return a time as our tables have it: in UTC, without a zone."""
    return time.astimezone(UTC).replace(tzinfo=None)


def between(days: Sequence[Day]) -> Day:
    """Return the interval from the first day to the last one, which is called by the first."""
    return replace(days[0], end=days[-1].end)


@cache
def _first_asked() -> datetime:
    """Return the time of the first call: `today` is one date for a command that runs over midnight."""
    return datetime.now(UTC)


def parse_date(text: str, zone: str, now: datetime | None = None) -> date:
    """Parse `2026-11-20`, `today` or `yesterday` in `zone`. Raises UsageError for anything else."""
    today = (now or _first_asked()).astimezone(find_zone(zone)).date()
    if text in ("today", "yesterday"):
        return today if text == "today" else today - timedelta(days=1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"not a date: {text!r}", "write it as 2026-11-20, today or yesterday") from None


def each_date(first: date, last: date, flags: tuple[str, str] = ("--from", "--to")) -> Iterator[date]:
    """Return every date from `first` to `last`, both included. Raises UsageError if `last` is before `first`.

    `flags` are those that the user gave the two dates with.
    """
    if (last - first).days > MAX_DAYS:
        raise UsageError(f"{flags[0]} {first} to {last} are more than {MAX_DAYS:,} days", "is the year right?")
    if last < first:
        raise UsageError(f"{flags[1]} {last} is before {flags[0]} {first}", "swap the two dates")
    return (first + timedelta(days=n) for n in range((last - first).days + 1))


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"unknown time zone: {name!r}", "use an IANA name such as Europe/Berlin or UTC") from None


def _midnight(day: date, zone: str) -> datetime:
    # If midnight occurs twice, the first counts. If it is skipped, the day begins at the change of the clock (PEP 495).
    return datetime.combine(day, time.min, tzinfo=find_zone(zone)).astimezone(UTC)
