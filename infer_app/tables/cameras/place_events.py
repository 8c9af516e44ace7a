"""Gives an event to every picture that waits for one.

An event is a function of the pictures of its camera, whatever order they come in: those that wait are compared with the
events that are within the gap of them, and what differs is written.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, bindparam, select, update

from infer_app.tables.cameras.copies import find_copies, find_late_copies
from infer_app.tables.cameras.periods import CameraClocks, read_cameras
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.events import dissolve_events, let_wait, lock_events
from infer_app.tables.results.pictures import new_values, set_columns
from infer_app.tables.results.schema import IS_COPY, WITHOUT_EVENT, pictures, project_table

log = logging.getLogger(__name__)
_Row: TypeAlias = dict[str, object]
AT_ONCE = 20_000  # pictures that one transaction places
AT_ONCE_IN_A_FILE = 500  # for which a program of the user's may wait
WINDOW = timedelta(hours=6)  # pictures with less between them are looked up at once
_EPOCH = datetime(1970, 1, 1)


class Taken(NamedTuple):
    """When a picture was taken."""

    moment: timedelta  # since 1970: of UTC where the offset of the clock is stated, else of the clock put right
    number: int


class Span(NamedTuple):
    """The first and the last picture of a stored event, or twice one that waits."""

    first: Taken
    last: Taken
    captured_at: datetime | None = None  # of one that waits, by the camera's clock, put right
    is_stored: bool = False


def place_all(database: Database, gap_s: float, at_once: int | None = None) -> None:
    """Give an event to every picture that waits for one; `gap_s` is [events] gap in seconds."""
    at_once = at_once or (AT_ONCE if database.file is None else AT_ONCE_IN_A_FILE)
    database.transact(partial(_keep_gap, gap_s=gap_s))
    place = partial(_place, gap=timedelta(seconds=gap_s), at_once=at_once)
    while database.transact(place) == at_once:
        database.pause()


def group_by_gap(spans: Iterable[Span], gap: timedelta) -> Iterator[list[Span]]:
    """Yield those that follow each other with no gap longer than this, in order of time."""
    group, last = list[Span](), timedelta.min
    for one in sorted(spans):
        if group and one.first.moment - last > gap:
            yield group
            group, last = [], timedelta.min
        last = max(last, one.last.moment)
        group.append(one)
    if group:
        yield group


def moment_of(at: datetime, offset: int | None) -> timedelta:
    """Return when a clock put right showed a time, since 1970; `offset`: seconds of that clock from UTC."""
    return at - _EPOCH - timedelta(seconds=offset or 0)


def _place(connection: Connection, gap: timedelta, at_once: int) -> int:
    """Place `at_once` of the pictures that wait, or fewer if there are no more, and return how many it were.

    If they have copies with events, these wait first, with all of their events, and none is placed.
    """
    lock_events(connection)
    clocks = CameraClocks(read_cameras(connection))
    waiting = connection.execute(_WAITING, {"count": at_once}).all()
    numbers = [number for number, *_ in waiting]
    if late := find_late_copies(connection, numbers):
        dissolve_events(connection, late)
        return at_once
    copies = find_copies(connection, numbers)
    groups, of_cameras = list[list[Span]](), defaultdict[str, list[Span]](list)
    for number, camera, at, offset in waiting:
        if number in copies:
            continue
        right = at and clocks.put_right(camera, at)
        one = Taken(moment_of(right or _EPOCH, offset), number)
        if right:
            of_cameras[camera].append(Span(one, one, right))
        else:
            groups.append([Span(one, one)])  # nothing is near it
    for camera, new in of_cameras.items():
        groups += group_by_gap([*new, *_read_near(connection, camera, new, gap)], gap)
    _write(connection, groups, copies)
    return len(waiting)


def _read_near(connection: Connection, camera: str, new: Sequence[Span], gap: timedelta) -> set[Span]:
    """Return the stored events of a camera that new pictures may be within the gap of.

    Events of a camera don't overlap: of those that begin before a time only the last can reach it. By the clock that is
    so for each of its offsets from UTC.
    """
    offset, at, near = pictures.c.taken_offset, pictures.c.captured_at, set[Span]()
    its_first = pictures.c.camera == camera, pictures.c.event == pictures.c.id
    windows = [(some[0].first.moment - gap, some[-1].last.moment + gap) for some in group_by_gap(new, max(gap, WINDOW))]
    for known in connection.scalars(select(offset).where(*its_first).distinct()).all():
        begun = _STORED.where(*its_first, offset.is_(None) if known is None else offset == known)
        # In the order of the index: PostgreSQL does not see that only one offset is left.
        before = begun.where(at < bindparam("least")).order_by(offset.desc(), at.desc()).limit(1)
        within = begun.where(at >= bindparam("least"), at <= bindparam("most"))
        for window in windows:
            least, most = (_clock_at(moment, known) for moment in window)
            bounds = {"least": least, "most": most}
            for row in (*connection.execute(before, bounds), *connection.execute(within, bounds)):
                first, last = Taken(moment_of(*row[1:3]), row[0]), Taken(moment_of(*row[4:6]), row[3])
                near.add(Span(first, last, is_stored=True))
    return near


def _write(connection: Connection, groups: Iterable[Sequence[Span]], copies: Mapping[int, int]) -> None:
    """Write what makes each group an event, whose number is that of its first picture, and which are copies."""
    joined, ends = list[_Row](), list[_Row]()
    placed = [new_values(number, _NO_EVENT | {"copy_of": first}) for number, first in copies.items()]
    for group in groups:
        event, last = group[0].first.number, max(one.last for one in group).number
        for one in group:
            number = one.first.number
            if not one.is_stored:
                own = {"event": event, "captured_at": one.captured_at, "copy_of": None}
                placed.append(new_values(number, own | {"event_last": last if number == event else None}))
            elif number == event:
                ends.append(new_values(event, {"event_last": last}))
            else:
                joined.append({"former": number, "new_event": event})
    for statement, rows in ((_JOIN, joined), (_SET_END, ends), (_SET, placed)):
        if rows:
            connection.execute(statement, rows)


def _keep_gap(connection: Connection, gap_s: float) -> None:
    """Make all events anew if [events] gap has changed."""
    lock_events(connection)
    before = connection.scalar(select(project_table.c.event_gap))
    if before not in (None, gap_s):
        log.warning("[events] gap is %g s now, and was %g s: all events are made anew", gap_s, before)
        let_wait(connection)
    if before != gap_s:
        connection.execute(update(project_table).values(event_gap=gap_s))


def _clock_at(moment: timedelta, offset: int | None) -> datetime:
    """Return what a clock shows, or the nearest time that there is."""
    shown = moment + timedelta(seconds=offset or 0)
    return _EPOCH + min(max(shown, datetime.min - _EPOCH), datetime.max - _EPOCH)


_WAITING = (
    select(*(pictures.c[name] for name in ("id", "camera", "taken_at", "taken_offset")))
    .where(pictures.c.event == WITHOUT_EVENT)
    .limit(bindparam("count"))
)
_last = pictures.alias("last")
_STORED = select(
    *(one.c[name] for one in (pictures, _last) for name in ("id", "captured_at", "taken_offset"))
).join_from(pictures, _last, _last.c.id == pictures.c.event_last)
_SET_END = set_columns("event_last")
_NO_EVENT: _Row = {"event": IS_COPY, "captured_at": None, "event_last": None}
_SET = set_columns(*_NO_EVENT, "copy_of")
_JOIN = update(pictures).where(pictures.c.event == bindparam("former")).values(event=bindparam("new_event"))
