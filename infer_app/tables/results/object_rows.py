"""The rows of objects that belong to an image's prediction, and what second networks made of them."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Table, delete, select, true

from infer_app.base.domain import CropOutput, DetectedObject, Output, Prediction
from infer_app.tables.engine.bulk import NotWritten, in_batches
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.counters import next_numbers
from infer_app.tables.results.schema import object_predictions, objects, predictions, rejections


def made_of(detector_id: str) -> dict[Table, ColumnElement[bool]]:
    """Return the conditions of what second networks made of a version's objects, by table.

    What they made of an object goes with the object.
    """
    return {table: table.c.detector_id == detector_id for table in (predictions, rejections)}


class ObjectRows:
    """Writes and deletes the objects of a detector, or what a second network predicted for them."""

    def __init__(self, database: Database, model_id: str, detector_id: str | None) -> None:
        backend, dialect = database.backend, database.dialect
        self._model_id, self._detector_id = model_id, detector_id
        self._objects = backend.bulk_upsert(dialect, objects)
        self._crops = backend.bulk_upsert(dialect, object_predictions)
        self._delete_objects = backend.bulk_delete(objects, objects.c.model_id == model_id)
        self._delete_made, self._delete_refused = (backend.bulk_delete(*item) for item in made_of(model_id).items())

    def replace(self, connection: Connection, good: Mapping[int, Prediction]) -> None:
        """Write what belongs to predictions, in place of what belonged to earlier ones of their pictures."""
        outputs = {picture: prediction.output for picture, prediction in good.items()}
        found = {picture: one.objects for picture, one in outputs.items() if one.objects is not None}
        crops = {picture: one.crops for picture, one in outputs.items() if one.crops is not None}
        if found:
            for delete_all in (self._delete_objects, self._delete_made, self._delete_refused):
                delete_all.execute(connection, found)
        if count := sum(map(len, found.values())):
            numbers = next_numbers(connection, "last_object", count)
            columns: dict[str, Sequence[object]] = {"id": list(numbers), **_object_columns(found)}
            self._objects.write(connection, columns, {"model_id": self._model_id})
        if crops:
            self._replace_crops(connection, crops)

    def delete_made(self, connection: Connection, pictures: Iterable[int]) -> None:
        """Delete what second networks predicted for the objects that this model found in these pictures.

        Their rejections stay until it finds objects again.
        """
        self._delete_made.execute(connection, pictures)
        delete_crops(connection, pictures, objects.c.model_id == self._model_id)

    def delete_crops(self, connection: Connection, pictures: Iterable[int]) -> None:
        """Delete what this model predicted for objects of these pictures, of any version of the detector."""
        delete_crops(connection, pictures, model_id=self._model_id)

    def _replace_crops(self, connection: Connection, crops: Mapping[int, Sequence[CropOutput]]) -> None:
        """Write what was made of each object.

        The number of one that this run has found is looked up by its place, that of a stored one is known. Raises
        NotWritten if the detector has found others since.
        """
        self.delete_crops(connection, crops)
        unknown = [picture for picture, made in crops.items() if any(one.number is None for one in made)]
        of_detector = select(objects.c.picture, objects.c.object, objects.c.id).where(
            objects.c.model_id == self._detector_id
        )
        numbers = {
            (row.picture, row.object): row.id
            for some in in_batches(unknown)
            for row in connection.execute(of_detector.where(objects.c.picture.in_(some)))
        }
        made = [(picture, one) for picture, of_picture in crops.items() for one in of_picture]
        found = [one.number or numbers.get((picture, one.object)) for picture, one in made]
        if None in found:
            raise NotWritten("its detector has found other objects since")
        if made:
            columns = {"object_id": found, **output_columns([one.output for _, one in made])}
            self._crops.write(connection, columns, {"model_id": self._model_id})


def delete_crops(
    connection: Connection, numbers: Iterable[int], *of_objects: ColumnElement[bool], model_id: str | None = None
) -> None:
    """Delete what second networks, or one of them, predicted for objects of these pictures that meet a condition."""
    own = true() if model_id is None else object_predictions.c.model_id == model_id
    for some in in_batches(numbers):
        found = connection.scalars(select(objects.c.id).where(objects.c.picture.in_(some), *of_objects)).all()
        for ids in in_batches(found):
            connection.execute(delete(object_predictions).where(object_predictions.c.object_id.in_(ids), own))


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


def _object_columns(found: Mapping[int, Sequence[DetectedObject]]) -> dict[str, list[object]]:
    """Return the columns of all objects, counted from 0 within each picture."""
    rows = [one for objects_of_picture in found.values() for one in objects_of_picture]
    columns = zip(*rows, strict=True)
    return {
        "picture": [picture for picture, objects_of_picture in found.items() for _ in objects_of_picture],
        "object": [place for objects_of_picture in found.values() for place in range(len(objects_of_picture))],
        **{name: list(column) for name, column in zip(DetectedObject._fields, columns, strict=True)},
    }
