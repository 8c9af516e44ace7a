"""What a detector has stored of some images, for its second networks: the objects, or why there are none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, and_, select

from infer_app.database.engine.bulk import IDS_PER_STATEMENT
from infer_app.database.engine.column_types import Query
from infer_app.database.engine.connect import backend_of
from infer_app.database.results.schema import OBJECT_COLUMNS, objects, predictions, rejections
from infer_app.domain import Broken, DetectedObject, FileFacts, ImageRef, Objects, Reason

_KEY = objects.c.image_id == predictions.c.image_id, objects.c.model_id == predictions.c.model_id
_FOUND = select(predictions.c.image_id, objects.c.object, *OBJECT_COLUMNS).outerjoin_from(
    predictions, objects, and_(*_KEY)
)
_REASONS = {reason.value: reason for reason in Reason}
_NAMES = ("image_id", "location", "reason", "detail", "stage", "size", "modified", "sha256", "decoder")
_REJECTED = select(*(rejections.c[name] for name in _NAMES))


def read_objects(connection: Connection, image_ids: Sequence[str], detector_id: str) -> dict[str, Objects]:
    """Return the objects of each image that a detector's version has a prediction of, by their numbers."""
    found = defaultdict[str, list[tuple[int, DetectedObject]]](list)
    of_detector = _FOUND.where(predictions.c.model_id == detector_id)
    for image_id, number, *values in _rows(connection, of_detector, image_ids):
        of_image = found[image_id]
        if number is not None:
            of_image.append((number, DetectedObject(*values)))
    return {image_id: tuple(sorted(of_image)) for image_id, of_image in found.items()}


def read_rejected(connection: Connection, image_ids: Sequence[str], detector_id: str) -> dict[str, Broken]:
    """Return the stored rejection of each image that a detector's version has rejected, with its stored location."""
    of_detector = _REJECTED.where(rejections.c.model_id == detector_id)
    return {
        row.image_id: Broken(
            ImageRef(row.image_id, row.location),
            _REASONS[row.reason],
            row.detail,
            row.stage,
            FileFacts(row.size, row.modified, row.sha256),
            row.decoder,
        )
        for row in _rows(connection, of_detector, image_ids)
    }


def _rows(connection: Connection, wanted: Query, image_ids: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of these images, each of which is looked up by its key."""
    backend_of(connection).plan_for_pages(connection)
    image_id = wanted.selected_columns.image_id
    for first in range(0, len(image_ids), IDS_PER_STATEMENT):
        yield from connection.execute(wanted.where(image_id.in_(image_ids[first : first + IDS_PER_STATEMENT])))
