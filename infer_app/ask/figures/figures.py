"""Statistics of a day's results, computed by the database: memory does not grow with the number of results.

A `Day` may span several days here: any half-open interval of time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Integer, Subquery, Table, and_, func, literal_column, or_, select

from infer_app.base.day import Day
from infer_app.tables.engine.column_types import Query
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import count_each, has_prediction, join_results, picture_of
from infer_app.tables.results.model_versions import kind_of, read_manifest
from infer_app.tables.results.schema import predictions, rejections, runs


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
    sha256: str | None = None  # of the bytes that were rejected; None if they were not read
    number: int = 0  # of its picture in infer_pictures: images of two days may have one id


REJECTED = ("reason", "stage", "detail", "attempts", "sha256", "picture")


class ImageResults:
    """The labels and scores that are counted of one version's results: of images; of objects or crops in a subclass."""

    label: ColumnElement[Any] = predictions.c.label
    score: ColumnElement[Any] = predictions.c.score
    shown: Sequence[ColumnElement[bool]] = ()  # the conditions of what is counted

    def __init__(self, images: ListedImages, model_id: str) -> None:
        self._images = images
        self._model_id = model_id

    def rows_of(self, images: Subquery) -> FromClause:
        """Return the relation of what is counted."""
        return of_version(images, predictions, self._model_id)

    def labels(self, images: Subquery) -> Query:
        """Return the labels, each with the number of its results."""
        counted = select(self.label, func.count()).select_from(self.rows_of(images))
        return counted.where(*self.shown, self.label.is_not(None)).group_by(self.label)

    def scores(self, images: Subquery) -> Subquery:
        """Return a relation with one column, `score`."""
        return select(self.score.label("score")).select_from(self.rows_of(images)).where(*self.shown).subquery()

    def extremes(self, day: Day, limit: int, highest: bool) -> Sequence[ScoredImage]:
        """Return those with the lowest or the highest scores."""
        return [ScoredImage(*row) for row in self._extremes(day, limit, highest)]

    def _extremes(self, day: Day, limit: int, highest: bool, *more: ColumnElement[Any]) -> Iterator[Any]:
        """Yield the fields of a ScoredImage, and more columns."""
        place = self.score * (-1 if highest else 1)

        def wanted(of_day: Subquery) -> Query:
            columns = place, of_day.c[3], of_day.c[1], self.label, self.score, predictions.c.sha256, *more
            return select(*columns).select_from(self.rows_of(of_day)).where(*self.shown, self.score.is_not(None))

        return (row[1:] for row in self._images.select_first(day, limit, wanted))


class Figures:
    """Statistics of one version; labels and scores are those of its `results`. Only reads."""

    def __init__(self, images: ListedImages, model_id: str, results: ImageResults | None = None) -> None:
        self._images = images
        self._model_id = model_id
        self.results = results or ImageResults(images, model_id)

    def count_labels(self, day: Day) -> dict[str, int]:
        """Count by label, the most frequent first; empty for a model without labels."""
        return self._images.tally(day, self.results.labels)

    def has_predicted(self, days: Day) -> bool:
        """Return whether there are predictions, also such as no longer count."""
        one = select(literal_column("1", Integer)).limit(1)

        def rows_of(images: Subquery) -> Query:
            return one.select_from(join_results(images, predictions, self._model_id))

        return any(True for _ in self._images.select(days, rows_of))

    def count_predicted(self, day: Day) -> int:
        count = select(func.count())
        rows = self._images.select(
            day, lambda images: count.select_from(of_version(images, predictions, self._model_id))
        )
        return sum(row[0] for row in rows)

    def count_reasons(self, day: Day) -> dict[str, int]:
        """Count rejected images by reason, the most frequent first."""
        reason = rejections.c.reason
        return self._images.tally(day, lambda images: self._rejected(images, reason, func.count()).group_by(reason))

    def score_range(self, day: Day) -> tuple[float, float] | None:
        """Return the lowest and the highest score, or None without scores."""

        def rows_of(images: Subquery) -> Query:
            score = self.results.scores(images).c.score
            return select(func.min(score), func.max(score))

        found = [value for row in self._images.select(day, rows_of) for value in row if value is not None]
        return (min(found), max(found)) if found else None

    def count_scores(self, day: Day, edges: Sequence[float]) -> list[int]:
        """Count the scores in each [edges[i], edges[i + 1]); the first and last one include all scores beyond them."""
        scored = self.results.scores(self._images.source.images_of(day))
        with self._images.database.read() as connection:
            return count_each(connection, scored, _between(scored.c.score, edges))

    def some_rejected(self, day: Day, reason: str, limit: int) -> list[RejectedImage]:
        """Return the first images, by id, that were rejected for the reason."""
        columns = [rejections.c[name] for name in REJECTED]

        def rows_of(images: Subquery) -> Query:
            wanted = self._rejected(images, rejections.c.reason, images.c[3], images.c[1], *columns)
            return wanted.where(rejections.c.reason == reason)

        found = self._images.select_first(day, limit, rows_of)
        return [RejectedImage(row[1], row[2], *row[3:]) for row in found]

    def last_runs(self, model: str, until: date, limit: int) -> list[dict[str, object]]:
        """Return runs of all versions of the model over days up to `until`, without those that found no new image."""
        did_something = or_(runs.c.selected > 0, runs.c.state != "done")
        wanted = select(runs).where(runs.c.model == model, runs.c.day <= until, did_something)
        newest = wanted.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        with self._images.database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(newest)]

    def manifest(self) -> dict[str, Any]:
        """Return the manifest as of the model's last run; empty if it never ran."""
        with self._images.database.read() as connection:
            return read_manifest(connection, self._model_id)

    @property
    def kind(self) -> str:
        """Return the kind of the model's output; empty if it never ran."""
        return kind_of(self.manifest())

    def _rejected(self, images: Subquery, *columns: ColumnElement[Any]) -> Query:
        """Select from the rejected images; with both rows an image counts as predicted."""
        wanted = select(*columns).select_from(of_version(images, rejections, self._model_id))
        return wanted.where(~has_prediction(picture_of(images), self._model_id))


def of_version(images: Subquery, table: Table, model_id: str) -> FromClause:
    """Join the results that count; those of objects of another version of the detector are pending."""
    return join_results(images, table, model_id, counting=True)


def _between(score: ColumnElement[float], edges: Sequence[float]) -> list[ColumnElement[bool]]:
    lower = [score.is_not(None), *(score >= edge for edge in edges[1:-1])]
    upper = [*(score < edge for edge in edges[1:-1]), score.is_not(None)]
    return [and_(*both) for both in zip(lower, upper, strict=True)]
