"""How many images of a day have a prediction, a rejection or neither."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Subquery, and_, true

from infer_app.database.queries.source_queries import SourceQueries
from infer_app.database.results.conditions import (
    ListedPicture,
    added_up,
    count_each,
    count_rows,
    has_prediction,
    has_rejection,
    is_new_for_any,
)
from infer_app.day import Day
from infer_app.run_report import DayCounts


class CountQueries(SourceQueries):
    """Counts the images of days."""

    def count_day(self, day: Day, model_id: str) -> DayCounts:
        """Count the day's rows. Pending is counted and not computed as a difference, so that an inconsistency shows.

        One statement counts all: on a server each sees what other programs have committed before it.
        """
        with self._parts(day) as parts:
            return DayCounts(*added_up(count_each(*part, _counted(part[1], model_id)) for part in parts))

    def count_images(self, days: Day) -> int:
        with self._parts(days) as parts:
            return sum(count_rows(*part) for part in parts)

    def count_new(self, day: Day, *model_ids: str) -> int:
        """Count the images that a run of the day would select: those that are new for at least one of the models."""
        with self._parts(day) as parts:
            return sum(
                count_rows(connection, images, is_new_for_any(ListedPicture.of(images), model_ids))
                for connection, images in parts
            )

    def count_pending(self, day: Day, *model_ids: str) -> int:
        """Count the images with a result of none of the models."""
        with self._parts(day) as parts:
            return sum(
                count_rows(connection, images, *without_results(images, model_ids)) for connection, images in parts
            )


def without_results(images: Subquery, model_ids: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of an image with a result of none of the models."""
    return [~known for model_id in model_ids for known in _results_of(images, model_id)]


def _results_of(images: Subquery, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return two conditions: an image has a prediction, and an image has a rejection."""
    return has_prediction(ListedPicture.of(images), model_id), has_rejection(ListedPicture.of(images), model_id)


def _counted(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions of the images that each field of DayCounts counts."""
    predicted, rejected = _results_of(images, model_id)
    return [true(), predicted, and_(~predicted, rejected), and_(~predicted, ~rejected)]
