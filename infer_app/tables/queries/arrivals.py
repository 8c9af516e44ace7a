"""Whether images have stopped coming to a project that had some on most days."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby

from sqlalchemy import select

from infer_app.base.day import Day, find_zone
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.pictures import last_numbers
from infer_app.tables.results.schema import cameras, pictures

WINDOW = 14  # days up to the last one with images
MIN_ACTIVE = 5  # of them had images: others come too rarely to expect some
MIN_GAP = 2  # days without images
WEEK = 7
RECENT = 30_000  # pictures among which cameras are looked for


@dataclass(frozen=True, slots=True)
class ArrivalGap:
    """Days without images after a time in which they came regularly."""

    last: date  # the last day with images
    num_days: int  # without images, since then
    num_active: int  # of the WINDOW days up to the last one

    @property
    def is_due(self) -> bool:
        """Return whether a mail tells it: daily for a week, then once a week."""
        return self.num_days <= WEEK or self.num_days % WEEK == 0

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
    return judge_gap(last, day.date, [source.has_images(newest.before(n)) for n in range(WINDOW)])


def find_silent_cameras(images: ListedImages, zone: str, now: datetime | None = None) -> dict[str, date]:
    """Return the cameras that have stopped bringing images while others bring some, each with its last day.

    A day is that on which images were read first, in `zone`, by no camera's clock. Retired cameras are left out.
    """
    today = (now or datetime.now(UTC)).astimezone(find_zone(zone)).date()
    with images.database.read() as connection:
        numbers = images.source.numbers_of_pictures(connection)
        is_recent = pictures.c.id > last_numbers(connection)[0] - RECENT
        its = is_recent, pictures.c.source_id.in_(numbers), pictures.c.camera != ""
        seen = connection.execute(select(pictures.c.camera, pictures.c.first_seen).where(*its).distinct()).all()
        retired = select(cameras.c.camera).where(cameras.c.source_id.in_(numbers), cameras.c.retired == 1)
        left_out = set(connection.scalars(retired))
    days = defaultdict[str, set[date]](set)
    for camera, first_seen in seen:
        days[camera].add(datetime.fromtimestamp(first_seen, UTC).astimezone(find_zone(zone)).date())
    last = {camera: max(own) for camera, own in days.items() if camera not in left_out}
    if today not in last.values():  # nothing came at all
        return {}
    active = {camera: [one - timedelta(days=n) in days[camera] for n in range(WINDOW)] for camera, one in last.items()}
    return {camera: one for camera, one in sorted(last.items()) if judge_gap(one, today, active[camera])}


def judge_gap(last: date, until: date, active: Sequence[bool]) -> ArrivalGap | None:
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
