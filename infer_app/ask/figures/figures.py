"""Statistics of a day's results, computed by the database: memory does not grow with the number of results.

A `Day` may span several days here: any half-open interval of time.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Integer, Subquery, Table, and_, func, literal_column, or_, select

from infer_app.base.day import Day
from infer_app.base.locations import as_location
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.source_queries import opened_parts
from infer_app.tables.results.conditions import (
    ListedPicture,
    added_up,
    count_each,
    count_rows,
    has_prediction,
    join_results,
)
from infer_app.tables.results.model_versions import kind_of
from infer_app.tables.results.schema import models, predictions, rejections, runs


@dataclass(frozen=True, slots=True)
class ScoredImage:
    """An image with its best label and score."""

    image_id: str
    location: str
    label: str | None
    score: float | None  # None only for an image in which a detector found nothing
    sha256: str | None  # of the bytes that were predicted


@dataclass(frozen=True, slots=True)
class RejectedImage:
    """An image with its rejection."""

    image_id: str
    location: str
    reason: str
    stage: str
    detail: str
    attempts: int
    sha256: str | None = None  # of the bytes that were rejected; None if they were not read, or not asked for


class Figures:
    """Statistics of one model's results; only reads."""

    def __init__(self, database: Database, source: Source, model_id: str) -> None:
        self._database = database
        self._source = source
        self._model_id = model_id

    def count_labels(self, day: Day) -> dict[str, int]:
        """Count predictions by label, the most frequent first; empty for a model without labels."""
        return self._tally(day, self._labels)

    def has_predicted(self, days: Day) -> bool:
        """Return whether there are predictions, also such as no longer count."""
        one = select(literal_column("1", Integer)).limit(1)
        with opened_parts(self._database, self._source, days) as parts:
            joined = (
                (connection, join_results(part, predictions, ListedPicture.of(part), self._model_id))
                for connection, part in parts
            )
            return any(connection.scalar(one.select_from(rows)) for connection, rows in joined)

    def count_predicted(self, day: Day) -> int:
        with opened_parts(self._database, self._source, day) as parts:
            return sum(count_rows(connection, self._predicted(images)) for connection, images in parts)

    def count_reasons(self, day: Day) -> dict[str, int]:
        """Count rejected images by reason, the most frequent first."""
        return self._tally(day, self._reasons)

    def score_range(self, day: Day) -> tuple[float, float] | None:
        """Return the lowest and the highest score, or None without scores."""
        found: list[float] = []
        with opened_parts(self._database, self._source, day) as parts:
            for connection, images in parts:
                scored = self._scored(images)
                both = select(func.min(scored.c.score), func.max(scored.c.score))
                found += [value for value in connection.execute(both).one() if value is not None]
        return (min(found), max(found)) if found else None

    def count_scores(self, day: Day, edges: Sequence[float]) -> list[int]:
        """Count the scores in each [edges[i], edges[i + 1]); the first and last one include all scores beyond them."""
        with opened_parts(self._database, self._source, day) as parts:
            scored = ((connection, self._scored(images)) for connection, images in parts)
            return added_up(count_each(*part, _between(part[1].c.score, edges)) for part in scored)

    def extremes(self, day: Day, limit: int, highest: bool) -> Sequence[ScoredImage]:
        """Return the images with the lowest or the highest scores."""
        score, sign = predictions.c.score, -1 if highest else 1

        def wanted(images: Subquery) -> Query:
            columns = (score * sign, images.c[3], images.c[1], predictions.c.label, score, predictions.c.sha256)
            return select(*columns).select_from(self._predicted(images)).where(score.is_not(None))

        return [ScoredImage(row[1], as_location(row[2]), *row[3:]) for row in self._first(day, limit, wanted)]

    def some_rejected(self, day: Day, reason: str, limit: int) -> list[RejectedImage]:
        """Return the first images, by id, that were rejected for the reason."""
        columns = [rejections.c[name] for name in ("reason", "stage", "detail", "attempts", "sha256")]

        def wanted(images: Subquery) -> Query:
            chosen = select(rejections.c.reason, images.c[3], images.c[1], *columns).select_from(
                self._with_results(images, rejections)
            )
            return chosen.where(self._has_no_prediction(images), rejections.c.reason == reason)

        return [RejectedImage(row[1], as_location(row[2]), *row[3:]) for row in self._first(day, limit, wanted)]

    def _first(self, day: Day, limit: int, wanted: Callable[[Subquery], Query]) -> list[Any]:
        """Return the first rows in the order of their first two columns, of which the second one is the image's id."""
        found: list[object] = []
        with opened_parts(self._database, self._source, day) as parts:
            for connection, images in parts:
                rows = wanted(images)
                ordered = rows.order_by(*list(rows.selected_columns)[:2]).limit(limit)
                found = sorted([*found, *connection.execute(ordered)], key=itemgetter(0, 1))[:limit]
        return found

    def last_runs(self, model: str, until: date, limit: int) -> list[dict[str, object]]:
        """Return runs of all versions of the model over days up to `until`, without those that found no new image."""
        did_something = or_(runs.c.selected > 0, runs.c.state != "done")
        wanted = select(runs).where(runs.c.model == model, runs.c.day <= until, did_something)
        newest = wanted.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(newest)]

    def manifest(self) -> dict[str, Any]:
        """Return the manifest as of the model's last run; empty if it never ran."""
        with self._database.read() as connection:
            return connection.scalar(select(models.c.manifest).where(models.c.id == self._model_id).limit(1)) or {}

    @property
    def kind(self) -> str:
        """Return the kind of the model's output; empty if it never ran."""
        return kind_of(self.manifest())

    def _labels(self, images: Subquery) -> Query:
        label = predictions.c.label
        counted = select(label, func.count()).select_from(self._predicted(images))
        return counted.where(label.is_not(None)).group_by(label)

    def _scored(self, images: Subquery) -> Subquery:
        """Return the scores of the images as a relation with one column, `score`."""
        return select(predictions.c.score).select_from(self._predicted(images)).subquery()

    def _reasons(self, images: Subquery) -> Query:
        reason = rejections.c.reason
        counted = select(reason, func.count()).select_from(self._with_results(images, rejections))
        return counted.where(self._has_no_prediction(images)).group_by(reason)

    def _tally(self, day: Day, counted: Callable[[Subquery], Query]) -> dict[str, int]:
        """Count by the name that `counted` selects, the highest number first."""
        found: Counter[str] = Counter()
        with opened_parts(self._database, self._source, day) as parts:
            for connection, images in parts:
                found.update({row[0]: row[1] for row in connection.execute(counted(images))})
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def _predicted(self, images: Subquery) -> FromClause:
        return self._with_results(images, predictions)

    def _with_results(self, images: Subquery, table: Table) -> FromClause:
        """Join the results that count; those of objects of another version of the detector are pending."""
        return join_results(images, table, ListedPicture.of(images), self._model_id, counting=True)

    def _has_no_prediction(self, images: Subquery) -> Any:
        """Return the condition that an image has no prediction: with both rows it counts as predicted."""
        return ~has_prediction(ListedPicture.of(images), self._model_id)


def _between(score: ColumnElement[float], edges: Sequence[float]) -> list[ColumnElement[bool]]:
    lower = [score.is_not(None), *(score >= edge for edge in edges[1:-1])]
    upper = [*(score < edge for edge in edges[1:-1]), score.is_not(None)]
    return [and_(*both) for both in zip(lower, upper, strict=True)]
