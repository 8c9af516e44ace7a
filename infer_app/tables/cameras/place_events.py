"""Gives an event to every picture that waits for one."""

from __future__ import annotations

import logging
from functools import partial

from sqlalchemy import Connection, select, update

from infer_app.tables.cameras.periods import CameraClocks, numbers_of_cameras, read_cameras
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.results.events import Placed, dissolve_cameras, lock_events, place_pictures
from infer_app.tables.results.schema import sources
from infer_app.tables.results.sources import record_source

log = logging.getLogger(__name__)
AT_ONCE = 5000  # pictures that one transaction places


def place_all(database: Database, source: Source, gap_s: float, at_once: int = AT_ONCE) -> Placed:
    """Give an event to every picture of a source that waits for one; `gap_s` is [events] gap in seconds."""
    number = record_source(database, source.identity, source.base)
    database.transact(partial(_keep_gap, source=source, number=number, gap_s=gap_s))
    placed = Placed()
    while True:
        part = database.transact(partial(_place, source=source, gap_s=gap_s, at_once=at_once))
        placed.add(part)
        if part.num_pictures < at_once:
            break
    for kept, other in placed.merged:
        log.info("event %d was joined to event %d: a picture between them came later", other, kept)
    return placed


def _place(connection: Connection, source: Source, gap_s: float, at_once: int) -> Placed:
    lock_events(connection)
    clocks = CameraClocks(read_cameras(connection, source))
    return place_pictures(connection, numbers_of_cameras(connection, source), gap_s, clocks, at_once)


def _keep_gap(connection: Connection, source: Source, number: int, gap_s: float) -> None:
    """Let all events be made anew if the gap is another one than that they were made by."""
    lock_events(connection)
    numbers = numbers_of_cameras(connection, source)
    its = sources.c.id.in_([*numbers, number])
    gaps = set(connection.scalars(select(sources.c.event_gap).where(its, sources.c.event_gap.is_not(None))))
    if gaps - {gap_s}:
        log.warning("[events] gap is %g s now, and was %g s: all events are made anew", gap_s, max(gaps - {gap_s}))
        dissolve_cameras(connection, numbers[0])
    if gaps != {gap_s}:
        connection.execute(update(sources).where(its).values(event_gap=gap_s))
