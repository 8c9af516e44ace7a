"""Read what a detector has stored of images, for its second networks: the objects, or why there are none."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from sys import intern

from sqlalchemy import Connection, Double, and_, bindparam, select

from infer_app.base.domain import Broken, DetectedObject, FileFacts, FoundObject, ImageRef, Objects, Reason
from infer_app.base.size import Size
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.schema import OBJECT_COLUMNS, objects, predictions
from infer_app.tables.rows.results import Rejection, rejections_of

_KEY = objects.c.picture == predictions.c.picture, objects.c.model_id == predictions.c.model_id
_FILE = [predictions.c[name] for name in ("sha256", "width", "height")]
_IS_TAKEN = objects.c.score >= bindparam("least", type_=Double)
_FOUND = select(predictions.c.picture, *_FILE, objects.c.object, objects.c.id, *OBJECT_COLUMNS).outerjoin_from(
    predictions, objects, and_(*_KEY, _IS_TAKEN)
)
_REASONS = {reason.value: reason for reason in Reason}


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
    found = defaultdict[int, list[FoundObject]](list)
    files: dict[int, FileFacts] = {}
    of_detector = _FOUND.where(predictions.c.model_id == detector_id).params(least=least_score)
    backend_of(connection).plan_for_pages(connection)
    found_in = (connection.execute(of_detector.where(predictions.c.picture.in_(some))) for some in in_batches(images))
    for picture, sha256, width, height, place, number, *values in chain.from_iterable(found_in):
        files[picture] = FileFacts(sha256=sha256, picture=Size(width, height) if width else None)
        if number is not None:
            label, *numbers = values
            # Labels are pickled once in a chunk.
            found[picture].append(FoundObject(place, DetectedObject(intern(label), *numbers), number))
    detections = {images[one.picture]: _rejected(one, images) for one in rejections_of(connection, images, detector_id)}
    its = ((number, tuple(sorted(found.get(number, ())))) for number in files)
    return detections | {images[number]: StoredDetection(files[number], objects) for number, objects in its}


def _rejected(one: Rejection, images: Mapping[int, ImageRef]) -> StoredDetection:
    why = images[one.picture], _REASONS[one.reason], one.detail, one.stage, one.file, one.decoder
    return StoredDetection(one.file, rejected=Broken(*why))
