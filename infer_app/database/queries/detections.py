"""The predictions of a day with their objects, streamed: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import select

from infer_app.database.engine.connect import Database
from infer_app.database.listing.source import PAGE_SIZE, Source
from infer_app.database.queries.thresholds import ALL_LABELS
from infer_app.database.results.conditions import join_results
from infer_app.database.results.schema import objects, predictions
from infer_app.day import Day
from infer_app.domain import DetectedObject, Size
from infer_app.locations import as_location

_OBJECT = [objects.c[name] for name in DetectedObject._fields]


@dataclass(frozen=True, slots=True)
class PredictedImage:
    """A prediction with the objects that it found, the best first; none of a model of another kind."""

    image_id: str
    location: str
    picture: Size | None  # None: predicted by an earlier release
    label: str | None
    score: float | None
    objects: tuple[DetectedObject, ...]

    def shown(self, thresholds: Mapping[str, float]) -> tuple[DetectedObject, ...]:
        """Return the objects with at least the threshold of their label, as `read_thresholds` returns them."""
        of_model = thresholds.get(ALL_LABELS, 0.0)
        return tuple(one for one in self.objects if one.score >= thresholds.get(one.label, of_model))


def read_predicted_images(database: Database, source: Source, days: Day, model_id: str) -> Iterator[PredictedImage]:
    """Yield the predictions of an interval of days in order of (time, id)."""
    columns = [predictions.c[name] for name in ("width", "height", "label", "score")]
    with database.read() as connection:
        streaming = connection.execution_options(yield_per=PAGE_SIZE)
        for images in source.parts(connection, days):
            joined = join_results(images, predictions, images.c[3], model_id)
            joined = join_results(joined, objects, images.c[3], model_id, is_outer=True)
            statement = select(images.c[3], images.c[1], *columns, *_OBJECT).select_from(joined)
            rows = streaming.execute(statement.order_by(images.c[2], images.c[0], objects.c.object))
            for _, found in groupby(rows, key=itemgetter(0)):
                yield _predicted_image(list(found))


def _predicted_image(rows: list[Any]) -> PredictedImage:
    image_id, location, width, height, label, score = rows[0][:6]
    picture = None if width is None else Size(width, height)
    found = tuple(DetectedObject(*row[6:]) for row in rows if row[6] is not None)
    return PredictedImage(image_id, as_location(location), picture, label, score, found)
