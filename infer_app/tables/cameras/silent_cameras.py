"""Which cameras have stopped bringing images."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import select

from infer_app.base.day import find_zone
from infer_app.tables.cameras.periods import numbers_of_cameras
from infer_app.tables.listing.arrivals import WINDOW, judge_gap
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.counters import last_numbers
from infer_app.tables.results.schema import cameras, pictures

RECENT = 30_000  # pictures among which cameras are looked for


def find_silent_cameras(images: ListedImages, zone: str, now: datetime | None = None) -> dict[str, date]:
    """Return the cameras that have stopped bringing images while others bring some, each with its last day.

    A day is that on which images were read first, in `zone`, by no camera's clock. Retired cameras are left out.
    """
    today = (now or datetime.now(UTC)).astimezone(find_zone(zone)).date()
    with images.database.read() as connection:
        numbers = numbers_of_cameras(connection, images.source)
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
