"""Gives an event to every picture that waits for one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, select, update

from infer_app.tables.cameras import CameraClocks, read_cameras
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.results.events import Placed, dissolve_cameras, place_pictures
from infer_app.tables.results.schema import sources
from infer_app.tables.results.sources import record_source

log = logging.getLogger(__name__)
AT_ONCE = 5000  # pictures that one transaction places


def place_all(database: Database, source: Source, gap_s: float, at_once: int = AT_ONCE) -> Placed:
    """Give an event to every picture of a source that waits for one; `gap_s` is [events] gap in seconds."""
    number = record_source(database, source.identity, source.base)
    source_ids = database.ask(source.numbers_of_pictures)
    database.transact(partial(_keep_gap, number=number, source_ids=source_ids, gap_s=gap_s))
    clocks = CameraClocks(database.ask(partial(read_cameras, source_id=source_ids[0])))
    placed = Placed()
    while True:
        part = database.transact(
            partial(place_pictures, source_ids=source_ids, gap_s=gap_s, clock=clocks, at_once=at_once)
        )
        placed.add(part)
        if part.num_pictures < at_once:
            break
    for kept, other in placed.merged:
        log.info("event %d was joined to event %d: a picture between them came later", other, kept)
    return placed


def _keep_gap(connection: Connection, number: int, source_ids: Sequence[int], gap_s: float) -> None:
    """Let all events be made anew if the gap is another one than that they were made by."""
    its_row = sources.c.id == number
    before = connection.scalar(select(sources.c.event_gap).where(its_row).with_for_update())
    if before == gap_s:
        return
    if before is not None:
        log.warning("[events] gap is %g s now, and was %g s: all events are made anew", gap_s, before)
        dissolve_cameras(connection, source_ids)
    connection.execute(update(sources).where(its_row).values(event_gap=gap_s))
