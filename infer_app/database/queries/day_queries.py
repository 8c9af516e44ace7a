"""Queries about a day: its counts, its predictions and rejections, and whether the counts add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Subquery, and_, func, or_, select, true

from infer_app.database.engine.connect import Database
from infer_app.database.listing.source import PAGE_SIZE, Source
from infer_app.database.listing.time_column import read_time
from infer_app.database.listing.watched_images import ChangedCounts, ChangedImage, count_changed, read_changed
from infer_app.database.queries.arrivals import ArrivalGap, read_gap
from infer_app.database.queries.audit import audit
from infer_app.database.queries.stream_rows import stream_rows
from infer_app.database.results.conditions import (
    ListedPicture,
    added_up,
    count_each,
    count_rows,
    has_prediction,
    has_rejection,
    is_new,
    is_new_for_any,
    is_settled,
    join_results,
)
from infer_app.database.results.model_versions import RecordedVersion, read_versions
from infer_app.database.results.schema import predictions, rejections, runs
from infer_app.day import Day, find_zone
from infer_app.domain import TRANSIENT_REASONS, FileFacts, Reason
from infer_app.errors import UsageError
from infer_app.locations import as_location
from infer_app.model_names import Version, plain_name, short_name, versions_named
from infer_app.run_report import DayCounts

EXAMINED = 500_000  # images: examining each of ten million would take longer than most runs


@dataclass(frozen=True, slots=True)
class StoredRejection:
    """A rejection as it is stored, with the facts of the rejected file."""

    image_id: str
    location: str
    reason: str
    file: FileFacts

    def differs(self, now: FileFacts) -> bool:
        """Return whether a regular file with these facts is another file than the rejected one."""
        if self.reason == Reason.NOT_REGULAR_FILE:
            return True
        known = self.file.size is not None  # a file that is not allowed was not examined
        return known and (self.file.size, self.file.modified) != (now.size, now.modified)


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """Why an image was rejected, and how often it was tried."""

    reason: str
    attempts: int
    detail: str


@dataclass(frozen=True, slots=True)
class PendingImage:
    """An image to be tried; `failure` is that of its last attempt."""

    image_id: str | None  # None for a row without one, which is left out
    location: str
    time: datetime | None  # UTC
    failure: StoredFailure | None


@dataclass(frozen=True, slots=True)
class PendingDays:
    """Days with pending images: the first, the last and the numbers of images."""

    first: date
    last: date
    num_images: int  # with neither a prediction nor a rejection
    num_retried: int = 0  # rejected for now: the next run that covers their day tries them again


class DayQueries:
    """Queries about days of one database; only reads."""

    def __init__(self, database: Database, source: Source) -> None:
        self._database = database
        self._source = source

    def count_day(self, day: Day, model_id: str) -> DayCounts:
        """Count the day's rows. Pending is counted and not computed as a difference, so that an inconsistency shows.

        One statement counts all: on a server each sees what other programs have committed before it.
        """
        with self._database.read() as connection:
            parts = self._source.parts(connection, day)
            return DayCounts(*added_up(count_each(connection, part, _counted(part, model_id)) for part in parts))

    def runs_of(self, day: Day, model_id: str) -> set[str]:
        """Return the ids of the runs that predicted the day's images, as far as their rows are there."""
        with self._database.read() as connection:
            return {
                run_id
                for part in self._source.parts(connection, day)
                for run_id in connection.scalars(
                    select(predictions.c.run_id)
                    .select_from(join_results(part, predictions, ListedPicture.of(part), model_id))
                    .distinct()
                )
            }

    def count_new(self, day: Day, *model_ids: str) -> int:
        """Count the images that a run of the day would select: those that are new for at least one of the models."""
        with self._database.read() as connection:
            return sum(
                count_rows(connection, images, is_new_for_any(ListedPicture.of(images), model_ids))
                for images in self._source.parts(connection, day)
            )

    def versions_of(self, model_id: str) -> list[str]:
        """Return a version with the others of its name that were in use: what those have done is not pending."""
        recorded = self._recorded(None)
        names = {one.name for one in recorded if one.model_id == model_id}
        others = {one.model_id for one in recorded if one.name in names and one.was_in_use}
        return sorted({model_id, *others})

    def count_images(self, day: Day) -> int:
        with self._database.read() as connection:
            return sum(count_rows(connection, images) for images in self._source.parts(connection, day))

    def count_pending(self, day: Day, *model_ids: str) -> int:
        """Count the images with a result of none of the models."""
        with self._database.read() as connection:
            parts = self._source.parts(connection, day)
            return sum(count_rows(connection, images, *_without_results(images, model_ids)) for images in parts)

    def count_older_pending(self, day: Day, model_id: str) -> int:
        """Count the images without a result of any of `versions_of` among the last EXAMINED images of earlier days."""
        found = self.find_older_pending(day, model_id)
        return found.num_images if found else 0

    def find_older_pending(self, day: Day, model_id: str) -> PendingDays | None:
        """Return the number of images that `count_older_pending` counts, with the first and the last of their days."""
        num_images, dates, versions = 0, list[date](), self.versions_of(model_id)
        with self._database.read() as connection:
            for images in self._source.older_parts(connection, day, EXAMINED):
                time = images.c[2]
                pending = select(func.count(), func.min(time), func.max(time)).select_from(images)
                count, *ends = connection.execute(pending.where(*_without_results(images, versions))).one()
                num_images += count
                dates += [self._date_of(end, day.before(1)) for end in ends if end is not None]
        return PendingDays(min(dates), max(dates), num_images) if num_images else None

    def read_pending_days(self, days: Day, model_id: str) -> Iterator[PendingDays]:
        """Yield each date of an interval of days on which a run would select images, in order."""
        with self._database.read() as connection:
            yield from self._count_by_date(connection, self._source.parts(connection, days), days, model_id)

    def read_older_pending_days(self, day: Day, model_id: str) -> Iterator[PendingDays]:
        """Yield the dates of images without a result of any of `versions_of`, of the last EXAMINED before `day`."""
        others = [one for one in self.versions_of(model_id) if one != model_id]
        with self._database.read() as connection:
            older = self._source.older_parts(connection, day, EXAMINED)
            yield from self._count_by_date(connection, older, day.before(1), model_id, others)

    def read_pending(self, day: Day, model_id: str, done_by: Sequence[str] = ()) -> Generator[PendingImage]:
        """Yield the day's images that a run of the day would select, in order of (time, id).

        Those with a result of the versions `done_by` are left out.
        """

        def rows_of(images: Subquery) -> Select[Any]:
            if done_by:  # first, since the rejections that are joined below are those of another version
                images = select(images).where(*_without_results(images, done_by)).subquery()
            joined = join_results(images, rejections, ListedPicture.of(images), model_id, is_outer=True)
            stored = (rejections.c.reason, rejections.c.attempts, rejections.c.detail)
            statement = select(images.c[3], images.c[1], images.c[2], *stored).select_from(joined)
            is_unsettled = or_(rejections.c.reason.is_(None), ~is_settled())  # as in is_new, for the joined row
            new = statement.where(~has_prediction(ListedPicture.of(images), model_id), is_unsettled)
            return new.order_by(images.c[2], images.c[0])

        for row in stream_rows(self._database, self._source, day, rows_of):
            failure = None if row[3] is None else StoredFailure(*row[3:])
            yield PendingImage(row[0], as_location(row[1]), read_time(row[2], self._source.zone), failure)

    def count_changed(self, model_ids: Sequence[str], day: Day | None = None) -> ChangedCounts:
        """Count the images, of a day or of all, that `read_changed` yields."""
        return count_changed(self._database, self._source, model_ids, day)

    def read_changed(self, model_ids: Sequence[str], day: Day | None = None) -> Iterator[ChangedImage]:
        """Yield the images, of a day or of all, that are missing or of which a model predicted other bytes."""
        return read_changed(self._database, self._source, model_ids, day)

    def find_gap(self, day: Day) -> ArrivalGap | None:
        """Return since when images have stopped coming, if they had come regularly."""
        return read_gap(self._source, day)

    def find_problems(self, day: Day, model_id: str) -> list[str]:
        """Return a message for each problem with the day's rows; an empty list means that the counts add up."""
        counts = self.count_day(day, model_id)
        problems = [] if counts.balanced else [f"{counts} does not balance"]
        with self._database.read() as connection:
            return problems + list(audit(connection, self._source, day, model_id))

    def models_of(self, wanted: str | None = None) -> list[Version]:
        """Return (name, id) of the recorded versions: of each name first the one in use, then those used before it.

        `wanted`: NAME, NAME@ID or ID. Raises UsageError if no such model has run.
        """
        return [(one.name, one.model_id) for one in self._recorded(wanted)]

    def models_in_use(self, wanted: str | None = None) -> list[Version]:
        """Return the versions whose predictions count for `wanted`, in the order in which the view prefers them.

        For a name, or all, they are those in use or formerly in use; for NAME@ID or ID that version. Raises UsageError
        if no such model has run, or none of the name was ever in use.
        """
        return [(one.name, one.model_id) for one in self._counting(wanted)]

    def models_of_day(self, day: Day, wanted: str | None = None) -> list[Version]:
        """Return for each name the version that the day was done with: the one in use if it ran on the day.

        A version that has tried only some of the day's images before it was put in use did not do the day. If none of
        a name ran on the day, it is the one in use. `wanted` is as for `models_in_use`.
        """
        by_name: dict[str, list[RecordedVersion]] = {}
        for version in self._counting(wanted):
            by_name.setdefault(version.name, []).append(version)
        started = select(runs.c.model_id, func.max(runs.c.started_at)).where(runs.c.day == day.date)
        with self._database.read() as connection:
            ran = {row[0]: row[1] for row in connection.execute(started.group_by(runs.c.model_id))}
        chosen = []
        for versions in by_name.values():
            on_day = [one for one in versions if one.model_id in ran]
            if len(on_day) > 1:
                done = (one for one in on_day if self._did_day(day, one, ran[one.model_id]))
                on_day = [next(done, on_day[0])]
            chosen.append((on_day or versions)[0])
        return [(one.name, one.model_id) for one in chosen]

    def _did_day(self, day: Day, version: RecordedVersion, started_at: datetime) -> bool:
        was_in_use = version.in_use_since is not None and started_at >= version.in_use_since
        return was_in_use or not self.count_day(day, version.model_id).pending

    def _counting(self, wanted: str | None) -> list[RecordedVersion]:
        found = self._recorded(wanted)
        used = [one for one in found if one.was_in_use]
        if used or wanted is None or wanted != found[0].name:
            return used or (found if wanted is not None else [])
        tried = short_name(found[0].name, found[0].model_id)
        raise UsageError(
            f"no version of {wanted} is in use yet, {tried} was only tried",
            f"name the version, {tried}, or put it in use: `infer model use {tried}`",
        )

    def ids_in_use(self) -> set[str]:
        """Return the ids of the versions in use."""
        return {one.model_id for one in self._recorded(None) if one.in_use_since}

    def _recorded(self, wanted: str | None) -> list[RecordedVersion]:
        with self._database.read() as connection:
            known = read_versions(connection)
        if wanted is None:
            return known
        named = set(versions_named(wanted, [(one.name, one.model_id) for one in known]))
        if named:
            return [one for one in known if (one.name, one.model_id) in named]
        name = plain_name(wanted)
        ids = ", ".join(short_name(one.name, one.model_id) for one in known if one.name == name)
        names = ", ".join(sorted({one.name for one in known}))
        hint = f"those that have: {ids or names}" if known else "`infer run` first"
        raise UsageError(f"no model {wanted!r} has run on this database", hint)

    def read_current_predictions(self, day: Day, versions: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Yield one prediction of each image for each name: that of the first version that has one.

        `versions`: as `models_in_use` returns them. With all of them the result equals infer_current_predictions.
        """
        for _, rows in groupby(self.read_predictions(day), key=itemgetter("image_id")):
            by_version = {row["model_id"]: row for row in rows}
            current: dict[str, str] = {}
            for name, model_id in versions:
                if model_id in by_version:
                    current.setdefault(name, model_id)
            yield from (by_version[model_id] | {"model": name} for name, model_id in sorted(current.items()))

    def read_predictions(self, day: Day, model_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the day's predictions with their locations, in order of time, without their vectors."""
        wanted = [column for column in predictions.columns if column.name != "vector"]
        yield from self._read_joined(day, predictions, wanted, model_id)

    def read_rejections(self, day: Day, model_id: str | None = None) -> Iterator[dict[str, Any]]:
        yield from self._read_joined(day, rejections, list(rejections.columns), model_id)

    def final_rejections(self, day: Day, model_id: str) -> Generator[StoredRejection]:
        """Yield the day's rejections that are final because of the image's content, with the facts of the file."""
        for row in self.read_rejections(day, model_id):
            if row["reason"] not in TRANSIENT_REASONS:
                facts = FileFacts(row["size"], row["modified"], row["sha256"])
                yield StoredRejection(row["image_id"], as_location(row["location"]), row["reason"], facts)

    def _count_by_date(
        self,
        connection: Connection,
        parts: Iterator[Subquery],
        days: Day,
        model_id: str,
        done_by: Sequence[str] = (),
    ) -> Iterator[PendingDays]:
        new, retried = Counter[date](), Counter[date]()
        for day, is_retried in self._new_by_date(connection, parts, days, model_id, done_by):
            (retried if is_retried else new)[day] += 1
        for day in sorted(new.keys() | retried.keys()):
            yield PendingDays(day, day, new[day], retried[day])

    def _new_by_date(
        self, connection: Connection, parts: Iterator[Subquery], days: Day, model_id: str, done_by: Sequence[str]
    ) -> Iterator[tuple[date, bool]]:
        """Yield the date of each image that a run would select, and whether it was rejected for now."""
        streaming = connection.execution_options(yield_per=PAGE_SIZE)
        for images in parts:
            is_retried = has_rejection(ListedPicture.of(images), model_id)
            is_pending = (is_new(ListedPicture.of(images), model_id), *_without_results(images, done_by))
            new = select(images.c[2], is_retried).where(*is_pending).order_by(images.c[2])
            for time, retried in streaming.execute(new):
                yield self._date_of(time, days), bool(retried)

    def _date_of(self, time: Any, days: Day) -> date:
        """Return the date of a time column's value; that of `days`, in which it lies, if it can't be read."""
        instant = read_time(time, self._source.zone)
        return days.date if instant is None else instant.astimezone(find_zone(days.zone)).date()

    def runs_of_day(self, day: date, model_id: str) -> list[dict[str, Any]]:
        """Return the day's runs of this version of the model, the newest first."""
        wanted = select(runs).where(runs.c.model_id == model_id, runs.c.day == day)
        newest = wanted.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(100)
        with self._database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(newest)]

    def _read_joined(self, day: Day, table: Any, wanted: list[Any], model_id: str | None) -> Iterator[dict[str, Any]]:
        """Yield the rows of `table` for the day's images, with the images' locations."""

        def rows_of(images: Subquery) -> Select[Any]:
            joined = join_results(images, table, ListedPicture.of(images), model_id)
            statement = select(*wanted, images.c[1].label("image_location")).select_from(joined)
            return statement.order_by(images.c[2], images.c[0], table.c.model_id)

        for row in stream_rows(self._database, self._source, day, rows_of):
            found = dict(row._mapping)
            yield found | {"location": found.pop("image_location")}


def _results_of(images: Subquery, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return two conditions: an image has a prediction, and an image has a rejection."""
    return has_prediction(ListedPicture.of(images), model_id), has_rejection(ListedPicture.of(images), model_id)


def _counted(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions of the images that each field of DayCounts counts."""
    predicted, rejected = _results_of(images, model_id)
    return [true(), predicted, and_(~predicted, rejected), and_(~predicted, ~rejected)]


def _without_results(images: Subquery, model_ids: Sequence[str]) -> list[ColumnElement[bool]]:
    return [~known for model_id in model_ids for known in _results_of(images, model_id)]
