"""The runs of a day, and whether its counts add up."""

from datetime import date
from typing import Any

from sqlalchemy import Subquery, case, select

from infer_app.base.day import Day
from infer_app.base.run_report import DayCounts
from infer_app.tables.engine.column_types import Query, UtcNow
from infer_app.tables.queries.audit import audit
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import join_results
from infer_app.tables.results.schema import predictions, runs

Row = dict[str, Any]  # by the names of the columns


class DayRows:
    """Reads what is recorded of days."""

    def __init__(self, images: ListedImages) -> None:
        self._images = images

    def find_problems(self, day: Day, model_id: str, counts: DayCounts | None = None) -> list[str]:
        """Return a message for each problem with the day's rows; an empty list means that the counts add up.

        `counts` are those of the day if they are known already.
        """
        counts = counts or self._images.count_day(day, model_id)
        problems = [] if counts.balanced else [f"{counts} does not balance"]
        with self._images.database.read() as connection:
            return problems + list(audit(connection, self._images.source, day, model_id))

    def runs_of(self, day: Day, model_id: str) -> set[str]:
        """Return the ids of the runs that predicted the day's images, as far as their rows are there."""
        run_id = select(predictions.c.run_id).distinct()

        def rows_of(images: Subquery) -> Query:
            return run_id.select_from(join_results(images, predictions, model_id))

        return {row[0] for row in self._images.select(day, rows_of)}

    def runs_of_day(self, day: date, model_id: str) -> list[Row]:
        """Return the day's runs of this version of the model, the newest first."""
        wanted = select(runs).where(runs.c.model_id == model_id, runs.c.day == day)
        is_ahead = case((runs.c.started_at > UtcNow(), 1), else_=0)  # of a clock that was ahead
        newest = wanted.order_by(is_ahead, runs.c.started_at.desc(), runs.c.id.desc()).limit(100)
        with self._images.database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(newest)]
