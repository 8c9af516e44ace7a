"""Gives an event to every picture that waits for one."""

from __future__ import annotations

import logging
from functools import partial

from sqlalchemy import Connection, select, update

from infer_app.tables.cameras.periods import CameraClocks, read_cameras
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.events import Placed, dissolve_cameras, lock_events, place_pictures
from infer_app.tables.results.schema import project_table

log = logging.getLogger(__name__)
AT_ONCE = 5000  # pictures that one transaction places


def place_all(database: Database, gap_s: float, at_once: int = AT_ONCE) -> Placed:
    """Give an event to every picture that waits for one; `gap_s` is [events] gap in seconds."""
    database.transact(partial(_keep_gap, gap_s=gap_s))
    placed = Placed()
    while True:
        part = database.transact(partial(_place, gap_s=gap_s, at_once=at_once))
        placed.add(part)
        if part.num_pictures < at_once:
            break
    for kept, other in placed.merged:
        log.info("event %d was joined to event %d: a picture between them came later", other, kept)
    return placed


def _place(connection: Connection, gap_s: float, at_once: int) -> Placed:
    lock_events(connection)
    return place_pictures(connection, gap_s, CameraClocks(read_cameras(connection)), at_once)


def _keep_gap(connection: Connection, gap_s: float) -> None:
    """Make all events anew if [events] gap has changed."""
    lock_events(connection)
    before = connection.scalar(select(project_table.c.event_gap))
    if before not in (None, gap_s):
        log.warning("[events] gap is %g s now, and was %g s: all events are made anew", gap_s, before)
        dissolve_cameras(connection)
    if before != gap_s:
        connection.execute(update(project_table).values(event_gap=gap_s))
