"""Queries over the images of a source, as counts or row by row: memory does not grow with their number."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Subquery, and_, exists, func, or_, select, true

from infer_app.base.day import Day
from infer_app.base.domain import Reason
from infer_app.base.run_report import DayCounts
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.user_table import PAGE_SIZE
from infer_app.tables.results.conditions import (
    count_each,
    count_rows,
    has_prediction,
    has_rejection,
    is_new_for_any,
    is_settled,
    join_results,
    picture_of,
)
from infer_app.tables.results.schema import pictures, predictions, rejections

IMAGES_AT_ONCE = 250  # whose rows are in memory, perhaps 300 objects of each

# What to select, and the conditions of what is counted, for a relation of images as `Source.images_of` returns it.
RowsOf = Callable[[Subquery], Query]
Conditions = Callable[[Subquery], Sequence[ColumnElement[bool]]]


@dataclass(frozen=True)
class ListedImages:
    """The images that a source lists, and the database with the results of them."""

    database: Database
    source: Source

    def count(self, days: Day, conditions: Conditions = lambda images: ()) -> int:
        """Count the images that meet all conditions."""
        images = self.source.images_of(days)
        with self.database.read() as connection:
            return count_rows(connection, images, *conditions(images))

    def count_day(self, day: Day, model_id: str) -> DayCounts:
        """Count the day's rows. Pending is counted and not computed as a difference, so that an inconsistency shows.

        One statement counts all: on a server each sees what other programs have committed before it.
        """
        images = self.source.images_of(day)
        with self.database.read() as connection:
            eligible, predicted, rejected, pending = count_each(connection, images, _counted(images, model_id))
        num_new = self.source.count_unlisted(day)
        return DayCounts(eligible + num_new, predicted, rejected, pending + num_new)

    def count_asked(self, day: Day, model_id: str) -> tuple[int, int]:
        """Count the predicted and the rejected images that the model was given, or that could not be read for it.

        A second network is given no image without an object, and none that its detector has rejected. A file that a
        walk has found gone is not counted: somebody deleted it.
        """
        images = self.source.images_of(day)
        with self.database.read() as connection:
            predicted, rejected = count_each(connection, images, _asked(images, model_id))
        return predicted, rejected

    def count_of_other_runs(self, day: Day, model_id: str, run_id: str) -> tuple[int, dict[tuple[str, str], int]]:
        """Count what other runs than this one have predicted, and by reason and stage what they have rejected for good.

        As for `count_asked` only what the model was given counts, or could not be read for it.
        """
        images, kind = self.source.images_of(day), (rejections.c.reason, rejections.c.stage)
        predicted = join_results(images, predictions, model_id, counting=True)
        rejected = select(*kind, func.count()).select_from(join_results(images, rejections, model_id, counting=True))
        rejected = rejected.where(rejections.c.run_id != run_id, is_settled(), ~_is_of_detector()).group_by(*kind)
        with self.database.read() as connection:
            num_predicted = count_rows(connection, predicted, predictions.c.run_id != run_id, _was_asked())
            return num_predicted, {(row[0], row[1]): row[2] for row in connection.execute(rejected)}

    def count_new(self, day: Day, *model_ids: str) -> int:
        """Count the images that a run of the day would select: those that are new for at least one of the models."""
        return self.count(day, lambda images: [is_new_for_any(picture_of(images), model_ids)])

    def count_pending(self, day: Day, *model_ids: str) -> int:
        """Count the images with a result of none of the models."""
        return self.count(day, lambda images: without_results(images, model_ids)) + self.source.count_unlisted(day)

    def select(self, days: Day, rows_of: RowsOf) -> list[Any]:
        """Return the rows that `rows_of` selects."""
        with self.database.read() as connection:
            return list(connection.execute(rows_of(self.source.images_of(days))))

    def select_first(self, days: Day, limit: int, rows_of: RowsOf) -> list[Any]:
        """Return the first rows in the order of their first two columns, of which the second one is the image's id."""

        def first_of(images: Subquery) -> Query:
            rows = rows_of(images)
            return rows.order_by(*list(rows.selected_columns)[:2]).limit(limit)

        return self.select(days, first_of)

    def tally(self, days: Day, rows_of: RowsOf) -> dict[str, int]:
        """Add up the numbers by the name that `rows_of` selects before each, the highest number first."""
        found = Counter[str]()
        for name, number in self.select(days, rows_of):
            found[name] += number
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def stream(self, days: Day, rows_of: RowsOf) -> Iterator[Any]:
        """Yield the rows that `rows_of` selects, in their order.

        A caller may take its time, as when it writes to a full pipe; a transaction is open meanwhile. Where that would
        block a run's commits, the rows of a few images at a time are read in a transaction of their own, which ends
        before they are yielded: a prediction is seen whole or not at all, but the day is no consistent snapshot.
        """
        if self.database.readers_block_commits:
            for page in self.source.list_pages(days, self.source.page_size):
                for first in range(0, len(page), IMAGES_AT_ONCE):
                    with self.database.read() as connection:
                        images = self.source.images_in(page[first : first + IMAGES_AT_ONCE], days)
                        rows = connection.execute(rows_of(images)).all()
                    yield from rows
            return
        with self.database.read() as connection:
            streaming = connection.execution_options(yield_per=PAGE_SIZE)
            yield from streaming.execute(rows_of(self.source.images_of(days)))

    def stream_keys(self, model_ids: Sequence[str], day: Day | None) -> Iterator[tuple[int, str]]:
        """Yield (picture, model id) of the predictions of some models: those of a day, or all."""
        keys = select(predictions.c.picture, predictions.c.model_id)
        of_models = predictions.c.model_id.in_(model_ids)
        if day is not None:

            def rows_of(images: Subquery) -> Query:
                return keys.select_from(join_results(images, predictions)).where(of_models)

            yield from ((number, model_id) for number, model_id in self.stream(day, rows_of))
            return
        its = keys.join(pictures, pictures.c.id == predictions.c.picture).where(of_models, self.source.own_pictures)
        with self.database.read() as connection:
            found = connection.execution_options(yield_per=PAGE_SIZE).execute(its)
            yield from ((number, model_id) for number, model_id in found)


def without_results(images: Subquery, model_ids: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of an image with a result of none of the models."""
    return [~known for model_id in model_ids for known in _results_of(images, model_id)]


def _results_of(images: Subquery, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return two conditions: an image has a prediction, and an image has a rejection."""
    return has_prediction(picture_of(images), model_id), has_rejection(picture_of(images), model_id)


def _counted(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions of the images that each field of DayCounts counts."""
    predicted, rejected = _results_of(images, model_id)
    return [true(), predicted, and_(~predicted, rejected), and_(~predicted, ~rejected)]


def _asked(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions of the images that `count_asked` counts."""
    picture = picture_of(images)
    its = pictures.c.id == rejections.c.picture, pictures.c.missing_since.is_not(None)
    is_gone = and_(rejections.c.reason == Reason.NOT_FOUND, exists().where(*its))
    return [
        has_prediction(picture, model_id, _was_asked()),
        and_(~has_prediction(picture, model_id), has_rejection(picture, model_id, ~_is_of_detector(), ~is_gone)),
    ]


def _was_asked() -> ColumnElement[bool]:
    """Return the condition that the model of a prediction was given the image: a second network only with an object."""
    return or_(predictions.c.detector_id.is_(None), predictions.c.num_objects > 0)


def _is_of_detector() -> ColumnElement[bool]:
    """Return the condition that a second network has a rejection because its detector rejected the image."""
    of_detector = rejections.alias("of_detector")
    key = of_detector.c.picture == rejections.c.picture, of_detector.c.model_id == rejections.c.detector_id
    return exists().where(*key)
