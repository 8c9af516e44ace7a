"""The images without a prediction, one by one, and how many are pending."""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from itertools import compress

from sqlalchemy import ColumnElement, Connection, Subquery, and_, func, literal_column, or_, select, true

from infer_app.base.day import Day, find_zone
from infer_app.tables.engine.column_types import Query
from infer_app.tables.queries.listed_images import Conditions, ListedImages, without_results
from infer_app.tables.queries.scope import Versions
from infer_app.tables.results.conditions import (
    Picture,
    has_prediction,
    has_rejection,
    is_new,
    is_settled,
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
class UnpredictedImage:
    """An image without a prediction; `failure` is that of its last attempt."""

    image_id: str
    location: str
    day: date
    failure: StoredFailure | None
    former_detector: str | None = None  # the version whose objects its result is of; it is no longer in use


@dataclass(frozen=True, slots=True)
class PendingDays:
    """Days with pending images: the first, the last and the number of images."""

    first: date
    last: date
    num_images: int


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
            older = self._images.source.older_than(connection, day, examined)
            return self._add_up(connection, older, day, self._without_any(model_ids))

    def find_pending_between(self, days: Day, model_id: str) -> PendingDays | None:
        """Return what `find_older_pending` returns, of all images of an interval of days."""
        with self._images.database.read() as connection:
            images = self._images.source.images_of(days)
            return self._add_up(connection, images, days, self._without_any([model_id]))[model_id]

    def find_older_selected(self, day: Day, model_id: str, done_by: Sequence[str]) -> PendingDays | None:
        """Return those of the last EXAMINED images before a day that a run of their days would select.

        Those with a result of the versions `done_by` are left out.
        """
        wanted = {model_id: partial(_selected, model_id=model_id, done_by=done_by)}
        with self._images.database.read() as connection:
            older = self._images.source.older_than(connection, day, EXAMINED)
            return self._add_up(connection, older, day, wanted)[model_id]

    def read_pending(self, days: Day, model_id: str, done_by: Sequence[str] = ()) -> Generator[UnpredictedImage]:
        """Yield the images of an interval of days that a run of their days would select, in order of time.

        Those with a result of the versions `done_by` are left out. Rows that are not listed yet come last.
        """
        yield from self._read_unpredicted(days, model_id, partial(_selected, model_id=model_id, done_by=done_by))
        source = self._images.source
        for row in source.read_unlisted(days) if source.asks_table else ():
            day = row.time.astimezone(find_zone(days.zone)).date() if row.time else days.date
            yield UnpredictedImage(row.image_id, row.location, day, None)

    def read_rejected(self, day: Day, model_id: str) -> Generator[UnpredictedImage]:
        """Yield the rejected images of a day, in order of time."""
        return self._read_unpredicted(day, model_id, partial(_rejected, model_id=model_id))

    def _read_unpredicted(self, days: Day, model_id: str, conditions: Conditions) -> Generator[UnpredictedImage]:
        def rows_of(images: Subquery) -> Query:
            images = select(images).where(*conditions(images)).subquery()  # first, since rejections are joined below
            joined = join_results(images, rejections, model_id, is_outer=True, counting=True)
            stored = (rejections.c.reason, rejections.c.attempts, rejections.c.detail, is_settled())
            former = _former_detector(picture_of(images), model_id)
            statement = select(images.c[3], images.c[1], images.c[2], former, *stored).select_from(joined)
            return statement.order_by(images.c[2], images.c[0])

        for image_id, location, time, former, reason, attempts, detail, settled in self._images.stream(days, rows_of):
            has_failed = reason is not None and not former
            failure = StoredFailure(reason, attempts, detail, bool(settled)) if has_failed else None
            yield UnpredictedImage(image_id, location, _date_of(time, days), failure, former)

    def _add_up(
        self, connection: Connection, images: Subquery, days: Day, wanted: Mapping[str, Conditions]
    ) -> dict[str, PendingDays | None]:
        """Add up the images that meet the conditions of each model."""
        found = {model_id: list[PendingDays]() for model_id in wanted}
        # Each image is asked about once, and only those that are pending for a model are counted.
        pending = [and_(true(), *conditions(images)) for conditions in wanted.values()]
        flags = [one.label(f"pending_{number}") for number, one in enumerate(pending)]
        some = select(images.c[2].label("time"), *flags).where(or_(*pending)).subquery()
        ends = func.count(), func.min(some.c.time), func.max(some.c.time)
        for *is_pending, count, first, last in connection.execute(select(*some.c[1:], *ends).group_by(*some.c[1:])):
            of_days = PendingDays(_date_of(first, days), _date_of(last, days), count)
            for model_id in compress(wanted, is_pending):
                found[model_id].append(of_days)
        return {model_id: add_up(some_days) for model_id, some_days in found.items()}

    def _without_any(self, model_ids: Collection[str]) -> dict[str, Conditions]:
        """Return for each model the conditions of an image without a result of its version or one before it."""
        versions = {model_id: self._versions.versions_of(model_id) for model_id in model_ids}
        return {model_id: partial(without_results, model_ids=ids) for model_id, ids in versions.items()}


def _date_of(time: datetime, days: Day) -> date:
    """Return the date of a time (naive UTC) in the zone of the days."""
    return time.replace(tzinfo=UTC).astimezone(find_zone(days.zone)).date()


def add_up(found: Iterable[PendingDays | None]) -> PendingDays | None:
    """Return all pending images of some days as one; None if there are none."""
    some = [one for one in found if one]
    if not some:
        return None
    first, last = min(one.first for one in some), max(one.last for one in some)
    return PendingDays(first, last, sum(one.num_images for one in some))


def _selected(images: Subquery, model_id: str, done_by: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of an image that a run of its day selects; a run of older days, without `done_by`."""
    return [is_new(picture_of(images), model_id), *without_results(images, done_by)]


def _rejected(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    picture = picture_of(images)
    return [~has_prediction(picture, model_id), has_rejection(picture, model_id)]


def _former_detector(picture: Picture, model_id: str) -> ColumnElement[str | None]:
    """Return the version of a detector whose objects the result of a pending image is of, which counts no more."""
    former = (
        select(table.c.detector_id).where(
            table.c.picture == picture, table.c.model_id == model_id, ~is_up_to_date(table)
        )
        for table in (rejections.alias("former"), predictions)
    )
    return func.coalesce(*(one.limit(literal_column("1")).scalar_subquery() for one in former))
