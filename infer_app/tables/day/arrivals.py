"""Whether images have stopped coming to a project that had some on most days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby

from infer_app.base.day import Day
from infer_app.tables.listing.source import Source

WINDOW = 14  # days up to the last one with images
MIN_ACTIVE = 5  # of them had images: others come too rarely to expect some
MIN_GAP = 2  # days without images


@dataclass(frozen=True, slots=True)
class ArrivalGap:
    """Days without images after a time in which they came regularly."""

    last: date  # the last day with images
    num_days: int  # without images, since then
    num_active: int  # of the WINDOW days up to the last one

    def __str__(self) -> str:
        return (
            f"no images for {self.num_days} days: the last ones are of {self.last},"
            f" and {self.num_active} of the {WINDOW} days up to then had some; does what brings them still run?"
        )


def find_gap(source: Source, day: Day, now: datetime | None = None) -> ArrivalGap | None:
    """Return the gap at the end of `day`, or of the last day before it that is over; None if there is none."""
    while day.end > (now or datetime.now(UTC)):
        day = day.before(1)
    last = source.latest_date(day)
    if last is None or (day.date - last).days < MIN_GAP:
        return None
    newest = Day.of(last, day.zone)
    return unusual_gap(last, day.date, [source.has_images(newest.before(n)) for n in range(WINDOW)])


def unusual_gap(last: date, until: date, active: Sequence[bool]) -> ArrivalGap | None:
    """Decide whether the days without images between `last` and `until` are unusual.

    `active` tells for `last` and each of the days before it whether it had images. A gap is unusual if it is longer
    than those between them: neither a weekend is, nor any in a project whose images come rarely.
    """
    num_days = (until - last).days
    runs = [(has_images, len(list(days))) for has_images, days in groupby(active)]
    longest = max((length for has_images, length in runs[:-1] if not has_images), default=0)
    if sum(active) < MIN_ACTIVE or num_days < MIN_GAP or num_days <= longest:
        return None
    return ArrivalGap(last, num_days, sum(active))
