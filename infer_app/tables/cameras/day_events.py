"""The events of a day, with what is shown of their pictures, and the cameras of a source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    String,
    Subquery,
    and_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    or_,
    select,
    table,
)

from infer_app.base.day import Day
from infer_app.base.domain import TimeOrigin
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod, read_cameras
from infer_app.tables.cameras.place_events import moment_of
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import AsText, Microseconds, Query
from infer_app.tables.listing.source import find_listed
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import KeyedJoin, has_prediction, has_rejection, picture_of
from infer_app.tables.results.schema import cameras, pictures, predictions, rejections

A_YEAR = timedelta(days=365)
events = table(
    "infer_events",
    column("id", BigInteger),
    column("camera"),
    column("started_at", Microseconds),
    column("ended_at", Microseconds),
)
_shown = table(
    "infer_shown_results", column("model", String), column("picture", BigInteger), column("label"), column("score")
)


@dataclass(frozen=True, slots=True)
class ShownLabel:
    """Tells what is shown of an event under one label."""

    model: str
    label: str
    count: int  # the most objects of the label in one picture: so many are there at least
    images: int  # with the label
    best_image: str
    score: float | None  # of the best image


@dataclass(frozen=True, slots=True)
class Event:
    """An event; its times are by the clock of its camera, put right, None of a picture without a time."""

    id: int
    camera: str
    started_at: datetime | None
    ended_at: datetime | None
    num_images: int
    labels: tuple[ShownLabel, ...]  # by model, the most frequent first


@dataclass(frozen=True, slots=True)
class CameraRow:
    """A camera, and what there is of it."""

    camera: str
    num_images: int
    num_unread: int  # of the program's own list, those without any result
    num_days: int  # with images, by its own clock
    num_without_time: int  # of their own


def read_events(images: ListedImages, day: Day) -> tuple[list[Event], int]:
    """Return the events whose first picture is of the day, and how many others of its pictures continue.

    A picture that is no longer listed is of no day.
    """
    of_day = _read_day(images, day)
    continued = set[int]()
    if begun := {*of_day.values()} - of_day.keys():
        day_before, before = _read_day(images, day.before(1)), _members_before(images, begun, of_day)
        continued = {event for event, numbers in before.items() if not day_before.keys().isdisjoint(numbers)}
        left = {number: event for event in before.keys() - continued for number in before[event]}
        listed = find_listed(images.source, left, day)  # more than a day before, or gone from the user's table
        continued |= {event for number, event in left.items() if listed.get(number)}
    with images.database.read() as connection:
        own = list(_in_parts(connection, select(events), events.c.id, {*of_day.values()} - continued))
        labels = dict(_read_labels(connection, images, [row.id for row in own]))
    own.sort(key=lambda row: (row.camera, row.started_at or datetime.min, row.id))
    found = [Event(row.id, row.camera, row.started_at, row.ended_at, *labels[row.id]) for row in own]
    return found, len(continued)


def _read_day(images: ListedImages, day: Day) -> dict[int, int]:
    """Return the pictures of a day that have an event, with its number."""

    def rows_of(listed: Subquery) -> Query:
        joined = KeyedJoin(listed, pictures, pictures.c.id == picture_of(listed))
        return select(pictures.c.id, pictures.c.event).select_from(joined).where(pictures.c.event > 0)

    return dict(images.select(day, rows_of))


def _members_before(images: ListedImages, event_ids: Collection[int], of_day: Collection[int]) -> dict[int, list[int]]:
    """Return the pictures of events that were taken before the first one of the day."""
    columns = (pictures.c[name] for name in ("id", "event", "captured_at", "taken_offset"))
    members = select(*columns).where(images.source.own_pictures, pictures.c.captured_at.is_not(None))
    in_order = defaultdict[int, list[tuple[timedelta, int]]](list)
    with images.database.read() as connection:
        for number, event, at, offset in _in_parts(connection, members, pictures.c.event, event_ids):
            in_order[event].append((moment_of(at, offset), number))
    return {
        event: list(takewhile(lambda number: number not in of_day, (number for _, number in sorted(found))))
        for event, found in in_order.items()
    }


def _read_labels(
    connection: Connection, images: ListedImages, event_ids: Sequence[int]
) -> Iterator[tuple[int, tuple[int, tuple[ShownLabel, ...]]]]:
    """Yield for each event its number of pictures, and what is shown of them."""
    members = select(pictures.c.id, pictures.c.event, pictures.c.image_id).where(images.source.own_pictures)
    event_of, names = dict[int, int](), dict[int, str]()
    for row in _in_parts(connection, members, pictures.c.event, event_ids):
        event_of[row.id], names[row.id] = row.event, row.image_id
    per_picture = (
        select(_shown.c.model, _shown.c.label, _shown.c.picture, func.count(), func.max(_shown.c.score))
        .group_by(_shown.c.model, _shown.c.label, _shown.c.picture)
        .order_by(_shown.c.picture)
    )
    found = defaultdict[tuple[int, str, str], list[Any]](list)
    for model, label, picture, count, score in _in_parts(connection, per_picture, _shown.c.picture, event_of):
        found[event_of[picture], model, label].append((count, score, picture))
    labels = defaultdict[int, list[ShownLabel]](list)
    for (event, model, label), rows in found.items():
        _, score, best = max(rows, key=lambda row: (row[1] if row[1] is not None else 0.0, -row[2]))
        labels[event].append(ShownLabel(model, label, max(row[0] for row in rows), len(rows), names[best], score))
    num_images = Counter(event_of.values())
    for event in event_ids:
        ordered = sorted(labels[event], key=lambda one: (one.model, -one.count, -one.images, one.label))
        yield event, (num_images[event], tuple(ordered))


def _in_parts(connection: Connection, wanted: Any, key: Any, keys: Collection[int]) -> Iterator[Any]:
    for some in in_batches(keys):
        yield from connection.execute(wanted.where(key.in_(some)))


def count_by_camera(images: ListedImages, day: Day, model_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return by camera how many images of a day there are, and how many one of the models has rejected."""

    def rows_of(listed: Subquery) -> Query:
        joined = KeyedJoin(listed, pictures, pictures.c.id == picture_of(listed))
        is_rejected = or_(
            false(),
            *(
                and_(has_rejection(pictures.c.id, model_id), ~has_prediction(pictures.c.id, model_id))
                for model_id in model_ids
            ),
        )
        counted = select(pictures.c.camera, func.count(), func.count(case((is_rejected, 1)))).select_from(joined)
        return counted.where(pictures.c.camera.is_not(None)).group_by(pictures.c.camera)

    found = defaultdict[str, tuple[int, int]](lambda: (0, 0))
    for camera, num_images, num_rejected in images.select(day, rows_of):
        found[camera] = found[camera][0] + num_images, found[camera][1] + num_rejected
    return found


def read_camera_rows(images: ListedImages) -> list[CameraRow]:
    """Return the cameras whose pictures runs have read, by name; their pictures without a camera are the last."""
    its_own = (TimeOrigin.COLUMN, TimeOrigin.EXIF, TimeOrigin.DIGITIZED, TimeOrigin.NAME)
    without_result = [~exists().where(results.c.picture == pictures.c.id) for results in (predictions, rejections)]
    if images.source.forgotten_before:
        without_result.append(pictures.c.added_at >= images.source.forgotten_before.replace(tzinfo=None))
    taken_at, has_none = pictures.c.taken_at, pictures.c.taken_from.not_in([one.value for one in its_own])
    counted = select(
        pictures.c.camera,
        func.count(),
        func.count(case((and_(*without_result), 1))),
        func.count(func.date(taken_at).distinct()),
        func.count(case((has_none, 1))),
    )
    with images.database.read() as connection:
        its = images.source.own_pictures, pictures.c.camera.is_not(None)
        by_name = counted.where(*its).group_by(pictures.c.camera).order_by(pictures.c.camera == "", pictures.c.camera)
        return [CameraRow(*tuple(row)) for row in connection.execute(by_name)]


def read_ends(images: ListedImages) -> dict[tuple[str, CameraPeriod | None], tuple[datetime, datetime]]:
    """Return when the first and the last picture was taken, by the clock put right.

    The keys are a camera and what was set of it, None for its pictures of which nothing was set.
    """
    with images.database.read() as connection:
        periods = read_cameras(connection)
        covers = and_(
            AsText(cameras.c.camera) == AsText(pictures.c.camera),
            or_(cameras.c.since.is_(None), cameras.c.since <= pictures.c.taken_at),
            or_(cameras.c.until.is_(None), cameras.c.until > pictures.c.taken_at),
        )
        ends = select(
            pictures.c.camera, cameras.c.place, func.min(pictures.c.taken_at), func.max(pictures.c.taken_at)
        ).select_from(pictures.outerjoin(cameras, covers))
        its = images.source.own_pictures, pictures.c.camera.is_not(None), pictures.c.taken_at.is_not(None)
        rows = connection.execute(ends.where(*its).group_by(pictures.c.camera, cameras.c.place)).all()
    found = dict[tuple[str, CameraPeriod | None], tuple[datetime, datetime]]()
    for camera, place, first, last in rows:
        period = None if place is None else periods[place]
        found[camera, period] = (period.put_right(first), period.put_right(last)) if period else (first, last)
    return found


def find_jumps(images: ListedImages, clocks: CameraClocks) -> dict[str, datetime]:
    """Return the cameras whose clocks may have jumped back, each with the first such time.

    It is a year or more before what has come on an earlier day: a clock is reset when its battery is empty. Pictures
    of an older card look the same.
    """
    arrival, taken_at = cast(func.floor(pictures.c.first_seen / 86_400), Integer), pictures.c.taken_at
    by_arrival = select(pictures.c.camera, func.min(taken_at), func.max(taken_at)).group_by(pictures.c.camera, arrival)
    latest, jumps = dict[str, datetime](), dict[str, datetime]()
    with images.database.read() as connection:
        dated = by_arrival.where(images.source.own_pictures, pictures.c.camera.is_not(None), taken_at.is_not(None))
        for camera, *ends in connection.execute(dated.order_by(pictures.c.camera, arrival)):
            first, last = sorted(clocks.put_right(camera, time) for time in ends)
            if camera in latest and latest[camera] - first > A_YEAR:
                jumps.setdefault(camera, first)
            latest[camera] = max(last, latest.get(camera, last))
    return jumps
