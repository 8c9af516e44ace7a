"""Read what a detector has stored of images, for its second networks: the objects, or why there are none."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

from sqlalchemy import Connection, Double, and_, bindparam, select

from infer_app.base.domain import Broken, DetectedObject, FileFacts, ImageRef, Objects, Reason
from infer_app.base.size import Size
from infer_app.tables.engine.bulk import IDS_PER_STATEMENT
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.schema import OBJECT_COLUMNS, objects, predictions, rejections

_KEY = objects.c.image_id == predictions.c.image_id, objects.c.model_id == predictions.c.model_id
_FILE = [predictions.c[name] for name in ("size", "modified", "sha256", "width", "height")]
_IS_TAKEN = objects.c.score >= bindparam("least", type_=Double)
_FOUND = select(predictions.c.image_id, *_FILE, objects.c.object, *OBJECT_COLUMNS).outerjoin_from(
    predictions, objects, and_(*_KEY, _IS_TAKEN)
)
_REASONS = {reason.value: reason for reason in Reason}
_NAMES = ("image_id", "location", "reason", "detail", "stage", "size", "modified", "sha256", "decoder")
_REJECTED = select(*(rejections.c[name] for name in _NAMES))


@dataclass(frozen=True, slots=True)
class StoredDetection:
    """The stored result of a detector for one image: of which file it is, and its objects or why there are none."""

    file: FileFacts
    objects: Objects = ()
    rejected: Broken | None = None


def read_detections(
    connection: Connection, image_ids: Sequence[str], detector_id: str, least_score: float = 0.0
) -> dict[str, StoredDetection]:
    """Return what a detector's version has stored of each image; one without a row of it is left out."""
    rejected = _read_rejected(connection, image_ids, detector_id)
    found = defaultdict[str, list[tuple[int, DetectedObject]]](list)
    files: dict[str, FileFacts] = {}
    of_detector = _FOUND.where(predictions.c.model_id == detector_id).params(least=least_score)
    for image_id, size, modified, sha256, width, height, number, *values in _rows(connection, of_detector, image_ids):
        picture = Size(width, height) if width else None
        files[image_id] = FileFacts(size, modified, sha256, picture)
        if number is not None:
            label, *numbers = values
            found[image_id].append((number, DetectedObject(intern(label), *numbers)))  # pickled once in a chunk
    detections = {image_id: StoredDetection(broken.file, rejected=broken) for image_id, broken in rejected.items()}
    return detections | {
        image_id: StoredDetection(file, tuple(sorted(found.get(image_id, ())))) for image_id, file in files.items()
    }


def _read_rejected(connection: Connection, image_ids: Sequence[str], detector_id: str) -> dict[str, Broken]:
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
