"""Whether images have stopped coming: of a project that had some on most days, or of one of its cameras."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby

from sqlalchemy import select

from infer_app.base.day import Day, find_zone
from infer_app.tables.cameras.periods import read_cameras
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.schema import pictures

WINDOW = 14  # days up to the last one with images
MIN_ACTIVE = 5  # of them had images: others come too rarely to expect some
MIN_GAP = 2  # days without images
RECENT_S = 2 * WINDOW * 86_400  # before the last images: cameras are looked for among those that came since


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


def find_silent_cameras(images: ListedImages, zone: str) -> dict[str, date]:
    """Return the cameras that have stopped bringing images while others bring some, each with its last day.

    A day is that on which images were read first, in `zone`, by no camera's clock. Retired cameras are left out.
    """
    with images.database.read() as connection:
        its = images.source.own_pictures, pictures.c.camera != ""
        latest = connection.scalar(select(pictures.c.first_seen).where(*its).order_by(pictures.c.id.desc()).limit(1))
        if latest is None:
            return {}
        recent = pictures.c.first_seen >= latest - RECENT_S
        seen = connection.execute(select(pictures.c.camera, pictures.c.first_seen).where(*its, recent).distinct()).all()
        periods = sorted(read_cameras(connection), key=lambda one: one.since or datetime.min)
    is_retired = {one.camera: one.retired for one in periods}  # by the last that is known of each
    days = defaultdict[str, set[date]](set)
    for camera, first_seen in seen:
        days[camera].add(datetime.fromtimestamp(first_seen, UTC).astimezone(find_zone(zone)).date())
    last = {camera: max(own) for camera, own in days.items()}
    newest = max(last.values())
    active = {camera: [one - timedelta(days=n) in days[camera] for n in range(WINDOW)] for camera, one in last.items()}
    return {
        camera: one
        for camera, one in sorted(last.items())
        if not is_retired.get(camera) and unusual_gap(one, newest, active[camera])
    }
