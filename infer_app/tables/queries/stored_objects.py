"""Read what a detector has stored of images, for its second networks: the objects, or why there are none."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from sqlalchemy import Connection, Double, and_, bindparam, select

from infer_app.base.domain import Broken, DetectedObject, FileFacts, FoundObject, ImageRef, Objects, Reason
from infer_app.base.size import Size
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.schema import OBJECT_COLUMNS, objects, predictions, rejections

_KEY = objects.c.picture == predictions.c.picture, objects.c.model_id == predictions.c.model_id
_FILE = [predictions.c[name] for name in ("sha256", "width", "height")]
_IS_TAKEN = objects.c.score >= bindparam("least", type_=Double)
_FOUND = select(predictions.c.picture, *_FILE, objects.c.object, objects.c.id, *OBJECT_COLUMNS).outerjoin_from(
    predictions, objects, and_(*_KEY, _IS_TAKEN)
)
_REASONS = {reason.value: reason for reason in Reason}
_NAMES = ("picture", "reason", "detail", "stage", "size", "modified", "sha256", "decoder")
_REJECTED = select(*(rejections.c[name] for name in _NAMES))


@dataclass(frozen=True, slots=True)
class StoredDetection:
    """The stored result of a detector for one image: of which file it is, and its objects or why there are none."""

    file: FileFacts
    objects: Objects = ()
    rejected: Broken | None = None


def read_detections(
    connection: Connection, images: Mapping[int, ImageRef], detector_id: str, least_score: float = 0.0
) -> dict[ImageRef, StoredDetection]:
    """Return what a detector's version has stored of each image; one without a row of it is left out.

    `images`: by the numbers of their pictures.
    """
    rejected = _read_rejected(connection, images, detector_id)
    found = defaultdict[int, list[FoundObject]](list)
    files: dict[int, FileFacts] = {}
    of_detector = _FOUND.where(predictions.c.model_id == detector_id).params(least=least_score)
    for picture, sha256, width, height, place, number, *values in _rows(connection, of_detector, images):
        files[picture] = FileFacts(sha256=sha256, picture=Size(width, height) if width else None)
        if number is not None:
            label, *numbers = values
            # Labels are pickled once in a chunk.
            found[picture].append(FoundObject(place, DetectedObject(intern(label), *numbers), number))
    detections = {number: StoredDetection(broken.file, rejected=broken) for number, broken in rejected.items()}
    detections |= {
        number: StoredDetection(file, tuple(sorted(found.get(number, ())))) for number, file in files.items()
    }
    return {images[number]: detection for number, detection in detections.items()}


def _read_rejected(connection: Connection, images: Mapping[int, ImageRef], detector_id: str) -> dict[int, Broken]:
    """Return the stored rejection of each image that a detector's version has rejected."""
    of_detector = _REJECTED.where(rejections.c.model_id == detector_id)
    return {
        row.picture: Broken(
            images[row.picture],
            _REASONS[row.reason],
            row.detail,
            row.stage,
            FileFacts(row.size, row.modified, row.sha256),
            row.decoder,
        )
        for row in _rows(connection, of_detector, images)
    }


def _rows(connection: Connection, wanted: Query, pictures: Iterable[int]) -> Iterator[Any]:
    """Yield the rows of these pictures, each of which is looked up by its key."""
    backend_of(connection).plan_for_pages(connection)
    for some in in_batches(pictures):
        yield from connection.execute(wanted.where(wanted.selected_columns.picture.in_(some)))
