"""The rows of objects that belong to an image's prediction, and what second networks made of them."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Table, exists

from infer_app.base.domain import CropOutput, DetectedObject, Output, Prediction
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.schema import object_predictions, objects, predictions, rejections


def made_of(detector_id: str) -> dict[Table, ColumnElement[bool]]:
    """Return the conditions of the rows that second networks made of a version's objects, by table.

    They are to be deleted in this order: a row of an object doesn't say itself which detector found it.
    """
    of_detector = {table: table.c.detector_id == detector_id for table in (predictions, rejections)}
    crops = object_predictions.c
    key = predictions.c.image_id == crops.image_id, predictions.c.model_id == crops.model_id
    return {object_predictions: exists().where(*key, of_detector[predictions]), **of_detector}


class ObjectRows:
    """Writes and deletes the objects of a detector, or what a second network predicted for them."""

    def __init__(self, database: Database, model_id: str) -> None:
        backend, dialect = database.backend, database.dialect
        self._model_id = model_id
        self._objects = backend.bulk_upsert(dialect, objects)
        self._crops = backend.bulk_upsert(dialect, object_predictions)
        self._delete_objects, self._delete_crops = (
            backend.bulk_delete(dialect, table, table.c.model_id == model_id) for table in (objects, object_predictions)
        )
        *self._delete_made, self._delete_refused = (
            backend.bulk_delete(dialect, *item) for item in made_of(model_id).items()
        )

    def replace(self, connection: Connection, good: Mapping[str, Prediction]) -> None:
        """Write what belongs to predictions, in place of what belonged to earlier ones of their images."""
        outputs = {image_id: prediction.output for image_id, prediction in good.items()}
        found = {image_id: one.objects for image_id, one in outputs.items() if one.objects is not None}
        crops = {image_id: one.crops for image_id, one in outputs.items() if one.crops is not None}
        shared = {"model_id": self._model_id}
        if found:
            self._delete_objects.execute(connection, found)
            self.delete_made(connection, found)
            self._delete_refused.execute(connection, found)
        if any(found.values()):
            self._objects.write(connection, _object_columns(found), shared)
        if crops:
            self._delete_crops.execute(connection, crops)
        if any(crops.values()):
            self._crops.write(connection, _crop_columns(crops), shared)

    def delete(self, connection: Connection, image_ids: Iterable[str]) -> None:
        """Delete what belongs to predictions of these images."""
        for delete in (self._delete_objects, self._delete_crops):
            delete.execute(connection, image_ids)

    def delete_made(self, connection: Connection, image_ids: Iterable[str]) -> None:
        """Delete what second networks predicted for the objects that this model found in these images.

        Their rejections stay until it finds objects again.
        """
        for delete in self._delete_made:
            delete.execute(connection, image_ids)


def output_columns(outputs: Sequence[Output]) -> dict[str, list[object]]:
    """Return the columns of outputs that all rows have."""
    return {
        "label": [output.label for output in outputs],
        "score": [output.score for output in outputs],
        "output": [output.details for output in outputs],
        "vector": [output.vector for output in outputs],
        "vector_dtype": [output.vector_dtype for output in outputs],
        "vector_dim": [output.vector_dim for output in outputs],
    }


def _object_columns(found: Mapping[str, Sequence[DetectedObject]]) -> dict[str, list[object]]:
    """Return the columns of all objects, numbered from 0 within each image."""
    rows = [one for objects_of_image in found.values() for one in objects_of_image]
    columns = zip(*rows, strict=True)
    return {
        "image_id": [image_id for image_id, objects_of_image in found.items() for _ in objects_of_image],
        "object": [number for objects_of_image in found.values() for number in range(len(objects_of_image))],
        **{name: list(column) for name, column in zip(DetectedObject._fields, columns, strict=True)},
    }


def _crop_columns(crops: Mapping[str, Sequence[CropOutput]]) -> dict[str, list[object]]:
    rows = [one for crops_of_image in crops.values() for one in crops_of_image]
    return {
        "image_id": [image_id for image_id, crops_of_image in crops.items() for _ in crops_of_image],
        "object": [one.object for one in rows],
        **output_columns([one.output for one in rows]),
    }
