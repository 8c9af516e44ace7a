"""The events of a day, with what is shown of their pictures, and the cameras of a source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
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
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import KeyedJoin, has_prediction, has_rejection, picture_of
from infer_app.tables.results.schema import WITHOUT_CAMERA, cameras, pictures, predictions, rejections

A_YEAR = timedelta(days=365)
events = table(
    "infer_events",
    column("id", BigInteger),
    column("camera"),
    column("started_at", Microseconds),
    column("ended_at", Microseconds),
)
shown_results = table(
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
    with images.database.read() as connection:
        members = _read_members(connection, images, {*of_day.values()})
    continued = set[int]()
    if begun := members.keys() - of_day.keys():
        day_before = _read_day(images, day.before(1)).keys()
        before = {event: [*takewhile(lambda number: number not in of_day, members[event])] for event in begun}
        continued = {event for event, numbers in before.items() if not day_before.isdisjoint(numbers)}
        left = {number: event for event in begun - continued for number in before[event]}
        listed = images.source.find_listed(left, kept=True)  # more than a day before, or gone from the user's table
        continued |= {event for number, event in left.items() if listed.get(number)}
    own = {event: numbers for event, numbers in members.items() if event not in continued}
    with images.database.read() as connection:
        labels = _read_labels(connection, own)
        rows = list(_in_parts(connection, select(events), events.c.id, own))
    rows.sort(key=lambda row: (row.camera, row.started_at or datetime.min, row.id))
    ends = ((row.started_at, row.ended_at, len(own[row.id]), tuple(labels[row.id])) for row in rows)
    return [Event(row.id, row.camera, *more) for row, more in zip(rows, ends, strict=True)], len(continued)


def _read_day(images: ListedImages, day: Day) -> dict[int, int]:
    """Return the pictures of a day that have an event, with its number."""

    def rows_of(listed: Subquery) -> Query:
        joined = KeyedJoin(listed, pictures, pictures.c.id == picture_of(listed))
        return select(pictures.c.id, pictures.c.event).select_from(joined).where(pictures.c.event > 0)

    return dict(images.select(day, rows_of))


def _read_members(
    connection: Connection, images: ListedImages, event_ids: Collection[int]
) -> dict[int, dict[int, str]]:
    """Return the pictures of events in order of time, with their ids."""
    columns = (pictures.c[name] for name in ("id", "event", "image_id", "captured_at", "taken_offset"))
    members = select(*columns).where(images.source.is_listed)
    found = defaultdict[int, dict[int, str]](dict)
    rows = _in_parts(connection, members, pictures.c.event, event_ids)
    for row in sorted(rows, key=lambda row: (moment_of(row.captured_at or datetime.min, row.taken_offset), row.id)):
        found[row.event][row.id] = row.image_id
    return found


def _read_labels(connection: Connection, members: Mapping[int, Mapping[int, str]]) -> Mapping[int, list[ShownLabel]]:
    """Return for each event what is shown of its pictures."""
    event_of = {number: event for event, numbers in members.items() for number in numbers}
    shown = shown_results.c
    per_picture = (
        select(shown.model, shown.label, shown.picture, func.count(), func.max(shown.score))
        .group_by(shown.model, shown.label, shown.picture)
        .order_by(shown.picture)
    )
    found = defaultdict[tuple[int, str, str], list[Any]](list)
    for model, label, picture, count, score in _in_parts(connection, per_picture, shown.picture, event_of):
        found[event_of[picture], model, label].append((count, score, picture))
    labels = defaultdict[int, list[ShownLabel]](list)
    for (event, model, label), rows in found.items():
        _, score, best = max(rows, key=lambda row: (row[1] if row[1] is not None else 0.0, -row[2]))
        count, best_image = max(row[0] for row in rows), members[event][best]
        labels[event].append(ShownLabel(model, label, count, len(rows), best_image, score))
    for its in labels.values():
        its.sort(key=lambda one: (one.model, -one.count, -one.images, one.label))
    return labels


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
    taken_at, has_none = pictures.c.taken_at, pictures.c.taken_from.not_in([one.value for one in its_own])
    counted = select(
        pictures.c.camera,
        func.count(),
        func.count(case((and_(images.source.is_kept, *without_result), 1))),
        func.count(func.date(taken_at).distinct()),
        func.count(case((has_none, 1))),
    )
    with images.database.read() as connection:
        its = images.source.is_listed, pictures.c.camera.is_not(None)
        by_name = counted.where(*its).group_by(pictures.c.camera).order_by(pictures.c.camera == "", pictures.c.camera)
        return [CameraRow(*tuple(row)) for row in connection.execute(by_name)]


def count_waiting(images: ListedImages, state: int, day: Day | None = None) -> int:
    """Return how many predicted pictures, of a day or of all, are still in this state or a former one.

    The states are WITHOUT_CAMERA and WITHOUT_EVENT. Those that were predicted before cameras were recorded count too.
    """
    waits = func.coalesce(pictures.c.event, WITHOUT_CAMERA).between(WITHOUT_CAMERA, state)
    within = [images.source.is_kept] if day is None else images.source.within(day)
    predicted = exists().where(predictions.c.picture == pictures.c.id)
    with images.database.read() as connection:
        counted = select(func.count()).where(images.source.is_listed, *within, waits, predicted)
        return connection.scalar(counted) or 0


def read_ends(images: ListedImages) -> dict[tuple[str, CameraPeriod | None], tuple[datetime, datetime]]:
    """Return when the first and the last picture was taken that was not forgotten, by the clock put right.

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
        its = images.source.is_listed, images.source.is_kept, pictures.c.camera.is_not(None)
        rows = connection.execute(
            ends.where(*its, pictures.c.taken_at.is_not(None)).group_by(pictures.c.camera, cameras.c.place)
        ).all()
    found = dict[tuple[str, CameraPeriod | None], tuple[datetime, datetime]]()
    for camera, place, first, last in rows:
        period = None if place is None else periods[place]
        found[camera, period] = (period.put_right(first), period.put_right(last)) if period else (first, last)
    return found


def find_jumps(images: ListedImages, clocks: CameraClocks) -> dict[str, datetime]:
    """Return the cameras whose clocks may have jumped back, each with the first such time.

    It is a year or more before what has come on an earlier day, or before the next of the same day: a clock is reset
    when its battery is empty. Pictures of an older card look the same.
    """
    arrival, taken_at = cast(func.floor(pictures.c.first_seen / 86_400), Integer), pictures.c.taken_at
    its = images.source.is_listed, pictures.c.camera.is_not(None), taken_at.is_not(None)
    by_arrival = select(pictures.c.camera, arrival, func.min(taken_at), func.max(taken_at)).where(*its)
    latest, jumps = dict[str, datetime](), dict[str, datetime]()
    with images.database.read() as connection:
        of_camera = by_arrival.group_by(pictures.c.camera, arrival).order_by(pictures.c.camera, arrival)
        for camera, day, *ends in connection.execute(of_camera).all():
            first, last = sorted(clocks.put_right(camera, time) for time in ends)
            is_back = camera in latest and latest[camera] - first > A_YEAR
            if last - first > A_YEAR and not is_back:
                of_day = select(taken_at).where(*its, pictures.c.camera == camera, arrival == day).order_by(taken_at)
                times = [clocks.put_right(camera, time) for time in connection.scalars(of_day)]
                is_back = any(later - time > A_YEAR for time, later in pairwise(times))
            if is_back:
                jumps.setdefault(camera, first)
            latest[camera] = max(last, latest.get(camera, last))
    return jumps
