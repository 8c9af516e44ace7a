"""Which cameras have stopped bringing images."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import select

from infer_app.base.day import find_zone
from infer_app.tables.cameras.periods import read_cameras
from infer_app.tables.day.arrivals import WINDOW, judge_gap
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.schema import pictures

RECENT_S = 2 * WINDOW * 86_400  # before the last images: cameras are looked for among those that came since


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
        if not is_retired.get(camera) and judge_gap(one, newest, active[camera])
    }
