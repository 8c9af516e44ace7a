"""The days before the look-back that have images of watched folders which no run has tried: a run takes these days too.

Registered images are queued in their rows, so a run that is killed or ends early leaves the rest to the next one. Like
the days of the look-back, a late day is looked at again, for what is still pending, until the look-back has passed the
day of registration.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from infer_app.base.day import Day, find_zone
from infer_app.base.printing import counted
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import end_queue, read_late_times
from infer_app.tables.listing.source import Source

log = logging.getLogger(__name__)

MIN_DAYS = 7


def find_late_days(database: Database, source: Source, first: Day, model_ids: Sequence[str]) -> list[Day]:
    """Return the days before the `first` of the look-back, oldest first, of queued images new for one of the models."""
    if not source.registered:
        return []
    found, num_forgotten = list[Day](), 0
    with database.read() as connection:
        for instant in _late_instants(connection, first, model_ids):
            if source.has_forgotten(instant):
                num_forgotten += 1
            elif not found or instant >= found[-1].end:
                found.append(Day.of(instant.astimezone(find_zone(first.zone)).date(), first.zone))
    if num_forgotten:
        what = counted(num_forgotten, "image")
        before = source.forgotten_before and source.forgotten_before.astimezone(find_zone(first.zone)).date()
        log.warning("no run takes %s registered late, of days before %s: `infer forget`", what, before)
    return found


def has_late_images(database: Database, source: Source, first: Day, model_ids: Sequence[str]) -> bool:
    """Return whether `find_late_days` would find a day."""
    if not source.registered or not model_ids:
        return False
    with database.read() as connection:
        return any(not source.has_forgotten(one) for one in _late_instants(connection, first, model_ids))


def _late_instants(connection: Connection, first: Day, model_ids: Sequence[str]) -> Iterator[datetime]:
    times = read_late_times(connection, model_ids, first.start.replace(tzinfo=None))
    yield from (time.replace(tzinfo=UTC) for time in times)


def end_late_queue(database: Database, source: Source, first: Day) -> None:
    """End the queue of what was registered before the first day of the look-back, once a run has tried all late days.

    What another program registers meanwhile stays: no run has tried it. So does for MIN_DAYS what a run of another
    model may have left.
    """
    if source.registered:
        before = min(first.start, datetime.now(UTC) - timedelta(days=MIN_DAYS)).replace(tzinfo=None)
        database.transact(lambda connection: end_queue(connection, before))
