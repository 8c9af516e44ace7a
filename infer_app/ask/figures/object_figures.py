"""Count and choose, by the database, a day's detected objects: those that the thresholds show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, ScalarSelect, Subquery, case, func, literal, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from infer_app.ask.figures.figures import ImageResults, ScoredImage, of_version
from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject
from infer_app.tables.engine.column_types import Query
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import are_shown, is_static, join_results, picture_of
from infer_app.tables.results.schema import OBJECT_COLUMNS, objects, predictions

MAX_OBJECTS = 20  # of one image, the best: more boxes would hide the picture

Columns = ReadOnlyColumnCollection[str, Any]
OfImage = Callable[[Subquery, ColumnElement[Any]], ScalarSelect[Any]]  # an aggregate of the shown objects of each image


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """Counts of a day's objects and of the images a detector predicted."""

    num_objects: int  # shown by the thresholds
    num_stored: int
    num_images: int
    num_empty: int  # images without a shown object


@dataclass(frozen=True, slots=True)
class ImageObjects(ScoredImage):
    """An image with its shown objects; label and score are of the best, without any of the best at no hidden place."""

    num_objects: int
    objects: tuple[DetectedObject, ...]  # the best MAX_OBJECTS


def count_objects(images: ListedImages, day: Day, model_id: str, of_image: OfImage) -> ObjectCounts:
    """Count the objects of a version that has predicted images, by `of_image` for each."""

    def rows_of(of_day: Subquery) -> Query:
        image = select(
            predictions.c.num_objects.label("num_stored"), of_image(of_day, func.count()).label("num_objects")
        )
        counted = image.select_from(of_version(of_day, predictions, model_id)).subquery().c
        empty = func.sum(case((counted.num_objects == 0, 1), else_=0))
        return select(func.sum(counted.num_objects), func.sum(counted.num_stored), func.count(), empty)

    # MariaDB's sums are decimals.
    (row,) = images.select(day, rows_of)
    return ObjectCounts(*(int(number or 0) for number in row))


class ObjectResults(ImageResults):
    """The objects that one version of a detector has found; only reads."""

    label, score = objects.c.label, objects.c.score

    def __init__(self, images: ListedImages, model: str, model_id: str) -> None:
        super().__init__(images, model_id)
        self.shown = [are_shown(model)]

    def rows_of(self, images: Subquery) -> FromClause:
        return join_results(images, objects, self._model_id)

    def count(self, day: Day) -> ObjectCounts:
        return count_objects(self._images, day, self._model_id, self._of_image)

    def extremes(self, day: Day, limit: int, highest: bool) -> Sequence[ScoredImage]:
        """Return the images whose best shown object has the lowest or the highest score."""
        sign = -1 if highest else 1
        return self._first(day, limit, lambda image: (image.num_objects > 0, image.score * sign))

    def busiest(self, day: Day, limit: int) -> Sequence[ImageObjects]:
        """Return the images with the most shown objects."""
        return self._first(day, limit, lambda image: (image.num_objects > 0, -image.num_objects))

    def empty(self, day: Day, limit: int) -> Sequence[ImageObjects]:
        """Return images without a shown object, first those with the best stored object that is at no hidden place."""
        return self._first(
            day, limit, lambda image: (image.num_objects == 0, func.coalesce(-image.stored_score, literal(0.0)))
        )

    def _first(
        self, day: Day, limit: int, choose: Callable[[Columns], tuple[ColumnElement[bool], ColumnElement[Any]]]
    ) -> Sequence[ImageObjects]:
        """Return the first images that meet a condition, in an order, those with the same place by id."""

        def wanted(images: Subquery) -> Query:
            image = self._counted(images).c
            is_wanted, place = choose(image)
            columns = (image.id, image.picture, image.location, image.sha256)
            return select(place.label("place"), *columns).where(is_wanted)

        found = self._images.select_first(day, limit, wanted)
        with self._images.database.read() as connection:
            return [self._with_objects(connection, *row[1:]) for row in found]

    def _with_objects(
        self, connection: Connection, image_id: str, picture: int, location: str, sha256: str | None
    ) -> ImageObjects:
        of_image = (objects.c.picture == picture, objects.c.model_id == self._model_id)
        best = select(func.count().over(), *OBJECT_COLUMNS).where(*of_image).order_by(objects.c.object)
        rows = connection.execute(best.where(*self.shown).limit(MAX_OBJECTS)).all()
        shown = tuple(DetectedObject(*row[1:]) for row in rows)
        stored = rows or connection.execute(best.where(~is_static()).limit(1)).all()
        label, score = (stored[0].label, stored[0].score) if stored else (None, None)
        return ImageObjects(image_id, location, label, score, sha256, rows[0][0] if rows else 0, shown)

    def _counted(self, images: Subquery) -> Subquery:
        """Return the images with a prediction, with the number of their shown objects and the score of the best."""
        columns = {
            "id": images.c[3],
            "picture": picture_of(images),
            "location": images.c[1],
            "stored_score": self._of_image(images, func.max(objects.c.score), ~is_static()),
            "sha256": predictions.c.sha256,
            "num_objects": self._of_image(images, func.count()),
            "score": self._of_image(images, func.max(objects.c.score)),
        }
        named = [column.label(name) for name, column in columns.items()]
        return select(*named).select_from(of_version(images, predictions, self._model_id)).subquery()

    def _of_image(
        self, images: Subquery, aggregate: ColumnElement[Any], *conditions: ColumnElement[bool]
    ) -> ScalarSelect[Any]:
        """Return an aggregate of the objects of each image, by default of the shown ones, which are found by key."""
        of_image = (objects.c.picture == picture_of(images), objects.c.model_id == self._model_id)
        return select(aggregate).select_from(objects).where(*of_image, *(conditions or self.shown)).scalar_subquery()
