"""Events: pictures of one camera that follow each other within a gap.

Whatever order pictures come in, the events are the same: a picture extends the events that it is within a gap of, and
joins two of them to one. Each change is made under one lock, so that it sees the result of the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from sqlalchemy import Connection, bindparam, delete, insert, select, true, update

from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.results.counters import next_numbers
from infer_app.tables.results.schema import WITHOUT_EVENT, events, pictures, project_table

_EPOCH = datetime(1970, 1, 1)
_A_DAY_US = 86_400_000_000


class Clock(Protocol):
    """A clock of cameras, which may be wrong."""

    def put_right(self, camera: str, at: datetime) -> datetime:
        """Return what the clock should have shown when it showed this."""


class Moment(NamedTuple):
    """When a picture was taken, or an event began or ended."""

    us: int  # microseconds since 1970: of UTC where the offset of the clock is stated, else of the clock put right
    shown: datetime  # by the camera's clock, put right


class Interval(NamedTuple):
    """An event that is stored, or a picture that has none."""

    first: Moment
    last: Moment
    first_picture: int
    event: int | None = None


@dataclass(slots=True)
class Placed:
    """What placing pictures has changed."""

    num_pictures: int = 0
    num_new: int = 0  # events
    merged: list[tuple[int, int]] = field(default_factory=list)  # (the event that stays, the one that it has taken in)

    def add(self, other: Placed) -> None:
        self.num_pictures += other.num_pictures
        self.num_new += other.num_new
        self.merged += other.merged


def group_by_gap(intervals: Iterable[Interval], gap_us: int) -> Iterator[list[Interval]]:
    """Yield the intervals that follow each other with no gap longer than this, in order of time."""
    group: list[Interval] = []
    last_us = 0
    for one in sorted(intervals, key=lambda one: (one.first.us, one.first_picture)):
        if group and one.first.us - last_us > gap_us:
            yield group
            group = []
        last_us = max(last_us, one.last.us) if group else one.last.us
        group.append(one)
    if group:
        yield group


def place_pictures(connection: Connection, gap_s: float, clock: Clock, at_once: int) -> Placed:
    """Give an event to `at_once` of the pictures that wait for one; repeat it until there are fewer.

    The caller has called `lock_events` before it read the clock.
    """
    waiting = connection.execute(_WAITING, {"count": at_once}).all()
    of_cameras: dict[str, list[Interval]] = {}
    placed = Placed(len(waiting))
    writer = _Writer(connection, placed)
    for number, camera, taken_at, offset in waiting:
        if taken_at is None:
            writer.add(camera, [Interval(_NEVER, _NEVER, number)])
            continue
        shown = clock.put_right(camera, taken_at)
        moment = Moment(_microseconds(shown) - 1_000_000 * (offset or 0), shown)
        of_cameras.setdefault(camera, []).append(Interval(moment, moment, number))
    gap_us = round(1_000_000 * gap_s)
    for camera, new in of_cameras.items():
        known = dict[int, Interval]()
        for near in group_by_gap(new, max(gap_us, _A_DAY_US)):  # one clock that is wrong by years reads no years
            bounds = {"least": near[0].first.us - gap_us, "most": near[-1].last.us + gap_us}
            for row in connection.execute(_NEAR, bounds | {"camera": camera}):
                known[row[0]] = Interval(Moment(row[1], row[3]), Moment(row[2], row[4]), row[5], row[0])
        for group in group_by_gap([*known.values(), *new], gap_us):
            if len(group) > 1 or group[0].event is None:
                writer.add(camera, group)
    writer.write()
    return placed


def dissolve_events(connection: Connection, numbers: Collection[int]) -> None:
    """Let the pictures of the events of these pictures wait for an event again: one of them changes or goes."""
    lock_events(connection)
    dissolved = set[int]()
    for some in in_batches(numbers):
        dissolved |= set(connection.scalars(_EVENTS_OF, {"ids": some}))
    for part in in_batches(dissolved):
        connection.execute(_MOVE_ALL, {"former": part, "to": WITHOUT_EVENT})
        connection.execute(_DELETE, {"ids": part})


def dissolve_cameras(connection: Connection, cameras: Collection[str] | None = None) -> None:
    """Let all pictures of these cameras, by default of all, that have an event wait for one again."""
    lock_events(connection)
    wanted = true() if cameras is None else events.c.camera.in_(cameras)
    of_them = pictures.c.event.in_(select(events.c.id).where(wanted))
    connection.execute(update(pictures).where(of_them).values(event=WITHOUT_EVENT))
    connection.execute(delete(events).where(wanted))


def lock_events(connection: Connection) -> None:
    """Wait for other changes of events, until the transaction ends; SQLite has one writer at a time."""
    connection.execute(select(project_table).with_for_update()).close()


class _Writer:
    """Collects what is to be written, since few statements with many rows take a fraction of the time."""

    def __init__(self, connection: Connection, placed: Placed) -> None:
        self._connection = connection
        self._placed = placed
        self._new: list[tuple[str, list[Interval]]] = []
        self._changed: list[Mapping[str, object]] = []
        self._moved: list[Mapping[str, int]] = []

    def add(self, camera: str, group: Sequence[Interval]) -> None:
        """Make the intervals one event: the oldest of those that are stored, else a new one."""
        stored = sorted(one.event for one in group if one.event is not None)
        if not stored:
            self._new.append((camera, list(group)))
            return
        kept, *others = stored
        self._placed.merged += [(kept, other) for other in others]
        self._changed.append({"number": kept} | _bounds(group, "new_"))
        self._move(group, kept)
        for some in in_batches(others):
            self._connection.execute(_MOVE_ALL, {"former": some, "to": kept})
            self._connection.execute(_DELETE, {"ids": some})

    def write(self) -> None:
        if self._new:
            rows = []
            numbers = next_numbers(self._connection, "last_event", len(self._new))
            for number, (camera, group) in zip(numbers, self._new, strict=True):
                rows.append({"id": number, "camera": camera} | _bounds(group))
                self._move(group, number)
            self._connection.execute(insert(events), rows)
            self._placed.num_new += len(rows)
        if self._changed:
            self._connection.execute(_SET_BOUNDS, self._changed)
        if self._moved:
            self._connection.execute(_MOVE, self._moved)

    def _move(self, group: Sequence[Interval], event: int) -> None:
        self._moved += [{"number": one.first_picture, "to": event} for one in group if one.event is None]


_NEVER = Moment(-1, _EPOCH)  # of a picture without a time


def _bounds(group: Sequence[Interval], prefix: str = "") -> dict[str, object]:
    first, last = group[0], max(group, key=lambda one: one.last.us)
    row: dict[str, object] = {"first_picture": first.first_picture}
    for name, us, moment in (("started_at", "first_us", first.first), ("ended_at", "last_us", last.last)):
        row |= {name: None, us: None} if moment is _NEVER else {name: moment.shown, us: moment.us}
    return {f"{prefix}{name}": value for name, value in row.items()}


def _microseconds(at: datetime) -> int:
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_WAITING = (
    select(*(pictures.c[name] for name in ("id", "camera", "taken_at", "taken_offset")))
    .where(pictures.c.event == WITHOUT_EVENT)
    .limit(bindparam("count"))
)
_NEAR = select(
    *(events.c[name] for name in ("id", "first_us", "last_us", "started_at", "ended_at", "first_picture"))
).where(
    events.c.camera == bindparam("camera"),
    events.c.last_us >= bindparam("least"),
    events.c.first_us <= bindparam("most"),
)
# Of now: MariaDB would read what was there at the first read of the transaction.
_EVENTS_OF = (
    select(pictures.c.event)
    .where(pictures.c.id.in_(bindparam("ids", expanding=True)), pictures.c.event > WITHOUT_EVENT)
    .with_for_update()
)
_MOVE_ALL = (
    update(pictures).where(pictures.c.event.in_(bindparam("former", expanding=True))).values(event=bindparam("to"))
)
_MOVE = (
    update(pictures)
    .where(pictures.c.id == bindparam("number"), pictures.c.event == WITHOUT_EVENT)
    .values(event=bindparam("to"))
)
_DELETE = delete(events).where(events.c.id.in_(bindparam("ids", expanding=True)))
_SET_BOUNDS = (
    update(events)
    .where(events.c.id == bindparam("number"))
    .values(
        {
            name: bindparam(f"new_{name}", type_=events.c[name].type)
            for name in ("first_picture", "started_at", "ended_at", "first_us", "last_us")
        }
    )
)
