"""The images that wait for a run, one by one or by their days."""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import compress

from sqlalchemy import ColumnElement, Connection, Subquery, and_, func, literal_column, or_, select, true

from infer_app.base.day import Day, find_zone
from infer_app.base.locations import as_location
from infer_app.tables.engine.column_types import Query
from infer_app.tables.listing.source import PAGE_SIZE
from infer_app.tables.listing.time_column import read_time
from infer_app.tables.queries.listed_images import ListedImages, without_results
from infer_app.tables.queries.scope import Versions
from infer_app.tables.results.conditions import (
    Picture,
    has_rejection,
    is_new,
    is_up_to_date,
    join_results,
    picture_of,
)
from infer_app.tables.results.schema import predictions, rejections

EXAMINED = 100_000  # images: a night without news is to take seconds, whatever there was before


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """Why an image was rejected, and how often it was tried."""

    reason: str
    attempts: int
    detail: str
    is_settled: bool = False  # no run tries the image again, as `conditions.is_settled` has it


@dataclass(frozen=True, slots=True)
class PendingImage:
    """An image to be tried; `failure` is that of its last attempt."""

    image_id: str | None  # None for a row without one, which is left out
    location: str
    time: datetime | None  # UTC
    failure: StoredFailure | None
    former_detector: str | None = None  # the version whose objects its result is of; it is no longer in use


@dataclass(frozen=True, slots=True)
class PendingDays:
    """Days with pending images: the first, the last and the numbers of images."""

    first: date
    last: date
    num_images: int  # with neither a prediction nor a rejection
    num_retried: int = 0  # rejected for now: the next run that covers their day tries them again


class PendingImages:
    """Finds pending images; those of older days have no result of any of `Versions.versions_of` either."""

    def __init__(self, images: ListedImages) -> None:
        self._images = images
        self._versions = Versions(images)

    def find_older_pending(self, day: Day, model_id: str, examined: int = EXAMINED) -> PendingDays | None:
        """Return the pending images among the last `examined` ones of earlier days: their number, first and last day.

        None if there are none.
        """
        return self.find_all_older(day, [model_id], examined)[model_id]

    def find_all_older(
        self, day: Day, model_ids: Collection[str], examined: int = EXAMINED
    ) -> dict[str, PendingDays | None]:
        """Return what `find_older_pending` returns for several models, by reading the images once."""
        with self._images.database.read() as connection:
            older = self._images.source.older_parts(connection, day, examined)
            return self._add_up_pending(((connection, images) for images in older), day.before(1), model_ids)

    def find_pending_between(self, days: Day, model_id: str) -> PendingDays | None:
        """Return what `find_older_pending` returns, of all images of an interval of days."""
        with self._images.parts(days) as parts:
            return self._add_up_pending(parts, days, [model_id])[model_id]

    def read_pending_days(self, days: Day, model_id: str) -> Iterator[PendingDays]:
        """Yield each date of an interval of days on which a run would select images, in order."""
        with self._images.parts(days) as parts:
            yield from self._count_by_date(parts, days, model_id)

    def read_older_pending_days(self, day: Day, model_id: str) -> Iterator[PendingDays]:
        """Yield the dates of the pending images among the last EXAMINED images before `day`."""
        others = [one for one in self._versions.versions_of(model_id) if one != model_id]
        with self._images.database.read() as connection:
            older = self._images.source.older_parts(connection, day, EXAMINED)
            yield from self._count_by_date(((connection, part) for part in older), day.before(1), model_id, others)

    def read_pending(self, day: Day, model_id: str, done_by: Sequence[str] = ()) -> Generator[PendingImage]:
        """Yield the day's images that a run of the day would select, in order of (time, id).

        Those with a result of the versions `done_by` are left out.
        """

        def rows_of(images: Subquery) -> Query:
            is_pending = (is_new(picture_of(images), model_id), *without_results(images, done_by))
            images = select(images).where(*is_pending).subquery()  # first, since rejections are joined below
            joined = join_results(images, rejections, model_id, is_outer=True, counting=True)
            stored = (rejections.c.reason, rejections.c.attempts, rejections.c.detail)
            former = _former_detector(picture_of(images), model_id)
            statement = select(images.c[3], images.c[1], images.c[2], former, *stored).select_from(joined)
            return statement.order_by(images.c[2], images.c[0])

        zone = self._images.source.zone
        for row in self._images.stream(day, rows_of):
            image_id, location, time, former, *stored = row
            failure = None if former or stored[0] is None else StoredFailure(*stored)
            yield PendingImage(image_id, as_location(location), read_time(time, zone), failure, former)

    def _add_up_pending(
        self, parts: Iterable[tuple[Connection, Subquery]], days: Day, model_ids: Collection[str]
    ) -> dict[str, PendingDays | None]:
        versions = [self._versions.versions_of(model_id) for model_id in model_ids]
        found = {model_id: list[PendingDays]() for model_id in model_ids}
        for connection, images in parts:
            # Each image is asked about once, and only those that are pending for a model are counted.
            pending = [and_(true(), *without_results(images, of_model)) for of_model in versions]
            flags = [one.label(f"pending_{number}") for number, one in enumerate(pending)]
            some = select(images.c[2].label("time"), *flags).where(or_(*pending)).subquery()
            ends = func.count(), func.min(some.c.time), func.max(some.c.time)
            for *is_pending, count, first, last in connection.execute(select(*some.c[1:], *ends).group_by(*some.c[1:])):
                of_days = PendingDays(self._date_of(first, days), self._date_of(last, days), count)
                for model_id in compress(model_ids, is_pending):
                    found[model_id].append(of_days)
        return {model_id: add_up(some_days) for model_id, some_days in found.items()}

    def _count_by_date(
        self,
        parts: Iterable[tuple[Connection, Subquery]],
        days: Day,
        model_id: str,
        done_by: Sequence[str] = (),
    ) -> Iterator[PendingDays]:
        """Yield each date with images that a run would select, with the numbers of new ones and of those rejected."""
        new, retried = Counter[date](), Counter[date]()
        for connection, images in parts:
            is_retried = has_rejection(picture_of(images), model_id)
            is_pending = (is_new(picture_of(images), model_id), *without_results(images, done_by))
            wanted = select(images.c[2], is_retried).where(*is_pending).order_by(images.c[2])
            for time, retries in connection.execution_options(yield_per=PAGE_SIZE).execute(wanted):
                (retried if retries else new)[self._date_of(time, days)] += 1
        for day in sorted(new.keys() | retried.keys()):
            yield PendingDays(day, day, new[day], retried[day])

    def _date_of(self, time: object, days: Day) -> date:
        """Return the date of a time column's value; that of `days`, in which it lies, if it can't be read."""
        instant = read_time(time, self._images.source.zone)
        return days.date if instant is None else instant.astimezone(find_zone(days.zone)).date()


def add_up(found: Iterable[PendingDays | None]) -> PendingDays | None:
    """Return all pending images of some days as one; None if there are none."""
    some = [one for one in found if one]
    if not some:
        return None
    first, last = min(one.first for one in some), max(one.last for one in some)
    return PendingDays(first, last, sum(one.num_images for one in some))


def _former_detector(picture: Picture, model_id: str) -> ColumnElement[str | None]:
    """Return the version of a detector whose objects the result of a pending image is of, which counts no more."""
    former = (
        select(table.c.detector_id).where(
            table.c.picture == picture, table.c.model_id == model_id, ~is_up_to_date(table)
        )
        for table in (rejections.alias("former"), predictions)
    )
    return func.coalesce(*(one.limit(literal_column("1")).scalar_subquery() for one in former))
