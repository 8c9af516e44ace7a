"""Lets registered images be of the days on which they were taken, as [run] time_zone has it now."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row, bindparam, select

from infer_app.base.day import find_zone, naive
from infer_app.base.domain import CaptureTime, TimeOrigin
from infer_app.base.printing import counted
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import ROWS_PER_INSERT
from infer_app.tables.results.pictures import new_values, set_columns
from infer_app.tables.results.project_row import keep_settings, read_settings
from infer_app.tables.results.schema import pictures, project_table

log = logging.getLogger(__name__)

_Row: TypeAlias = Row[Any, Any, Any, Any]  # as _PAGE has it
_PREFIX = "day = taken in "  # of what decided the times; the user's table has other settings
_AT_ONCE = timedelta(hours=1)  # between the time that a walk gives an image and its row
_PAGE = (
    select(pictures.c.id, pictures.c.added_at, pictures.c.taken_at, pictures.c.first_seen)
    .where(pictures.c.registered == 1, pictures.c.taken_at.is_not(None), pictures.c.taken_offset.is_(None))
    .where(pictures.c.id > bindparam("last"))
    .order_by(pictures.c.id)
    .limit(ROWS_PER_INSERT)
)
_SET_TIME = set_columns("added_at")


def redate_images(database: Database, zone: str) -> int:
    """Compute the times again of images that clocks without a zone have dated, if `zone` is another one than before.

    An image with another time, such as that of its file, or of the picture that its file held before, keeps it. None
    becomes later than its registration, and none crosses the day before which all are forgotten. Returns how many have
    another time now.
    """
    if database.ask(read_settings) == _PREFIX + zone:
        return 0
    num_changed = database.transact(partial(_redate, zone=zone))  # whole, or a third zone would find two
    if num_changed:
        log.warning("%s dated by clocks without a zone: of %s now", counted(num_changed, "image"), zone)
    return num_changed


def _redate(connection: Connection, zone: str) -> int:
    before, num_changed = read_settings(connection) or "", 0
    if before.startswith(_PREFIX):
        zones = find_zone(before.removeprefix(_PREFIX)), find_zone(zone)
        forgotten = connection.scalar(select(project_table.c.forgotten_before)) or datetime.min
        for page in _read_pages(connection):
            times = ((row, _new_time(row, *zones, forgotten)) for row in page)
            if changes := [new_values(row.id, {"added_at": at}) for row, at in times if at != row.added_at]:
                connection.execute(_SET_TIME, changes)
                num_changed += len(changes)
    keep_settings(connection, _PREFIX + zone)
    return num_changed


def _read_pages(connection: Connection) -> Iterator[Sequence[_Row]]:
    page: Sequence[_Row] = connection.execute(_PAGE, {"last": 0}).all()
    while page:
        yield page
        page = connection.execute(_PAGE, {"last": page[-1].id}).all()


def _new_time(row: _Row, former: ZoneInfo, zone: ZoneInfo, forgotten: datetime) -> datetime:
    """Return the time of an image in the zone of now; that which it has if no clock without a zone has given it."""
    at: datetime = row.added_at
    seen = naive(datetime.fromtimestamp(row.first_seen, UTC))
    old, new = _taken_in(row.taken_at, former), _taken_in(row.taken_at, zone)
    if old is None or new is None or at < forgotten:
        return at
    was_ahead = seen - _AT_ONCE <= at <= seen < old  # such a time counts as that of the registration
    return max(min(new, seen), forgotten) if at == old or was_ahead else at


def _taken_in(taken: datetime, zone: ZoneInfo) -> datetime | None:
    seconds = CaptureTime(taken, None, TimeOrigin.EXIF).timestamp(zone)
    with suppress(ValueError, OverflowError):  # of the year 1 or 9999, which no image is given
        return naive(datetime.fromtimestamp(seconds or 0.0, UTC))
    return None
