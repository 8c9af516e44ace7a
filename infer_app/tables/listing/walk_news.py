"""What walks over the watched folders have found since the last run that ended well: each such run tells it once."""

import os
from collections.abc import Iterator
from datetime import timedelta, tzinfo

from sqlalchemy import func, select, true

from infer_app.base.printing import counted
from infer_app.tables.engine.column_types import UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.watched_images import count_missing
from infer_app.tables.results.conditions import count_rows
from infer_app.tables.results.project_row import read_forgotten_before
from infer_app.tables.results.schema import pictures, runs


def describe_walk_news(database: Database, zone: tzinfo) -> Iterator[str]:
    """Yield how many images have gone missing, and how many were registered for days that were forgotten."""
    forgotten_before, num_forgotten = read_forgotten_before(database), 0
    with database.read() as connection:
        now = connection.execute(select(UtcNow())).scalar_one()
        latest = now + timedelta(days=1)  # later are times of a clock that was ahead
        is_done = runs.c.state == "done", runs.c.ended_at <= now
        told_at = connection.scalar(select(func.max(runs.c.ended_at)).where(*is_done))
        is_new = true() if told_at is None else pictures.c.missing_since.between(told_at, latest)
        wanted = select(func.count(), func.min(pictures.c.location), func.max(pictures.c.location))
        num_missing, *ends = connection.execute(wanted.where(pictures.c.missing_since.is_not(None), is_new)).one()
        if forgotten_before is not None and told_at is not None:
            is_old = pictures.c.added_at < forgotten_before.replace(tzinfo=None)
            num_forgotten = count_rows(connection, pictures, pictures.c.queued_at.between(told_at, latest), is_old)
    if num_missing:
        folder = os.path.commonpath([end.rpartition("/")[0] or "/" for end in ends])
        yield _describe_missing(num_missing, count_missing(database, [f"{folder.rstrip('/')}/"])[1], folder)
    if num_forgotten and forgotten_before is not None:
        are, date = "is" if num_forgotten == 1 else "are", forgotten_before.astimezone(zone).date()
        of_days = f"{counted(num_forgotten, 'new image')} {are} of days before {date}, which were forgotten"
        yield f"{of_days} (`infer forget --before DATE`): no run takes them; is the camera's clock right?"


def _describe_missing(num_missing: int, num_images: int, folder: str) -> str:
    are = "is" if num_missing == 1 else "are"
    most = "; is its storage mounted, or was a folder renamed, whose photos are new ones then?"
    return (
        f"{num_missing:,} of {counted(num_images, 'image')} registered in {folder} {are} missing since the last run:"
        f" `infer list --state missing` lists them{most if 2 * num_missing > num_images else ''}"
    )
