"""The objects of a day that a second network has found before it, takes and has predicted."""

from sqlalchemy import ColumnElement, and_, exists, select, true

from infer_app.artifact.specs import CropSpec
from infer_app.base.day import Day
from infer_app.base.run_report import DayObjects
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import KeyedJoin, count_each, picture_of
from infer_app.tables.results.model_versions import read_manifest
from infer_app.tables.results.schema import models, object_predictions, objects


def count_day_objects(images: ListedImages, day: Day, model_id: str) -> DayObjects | None:
    """Count the objects of a day's images for a second network; None for any other model.

    They are those of the version of its detector that is in use.
    """
    with images.database.read() as connection:
        if not (described := read_manifest(connection, model_id).get("crop")):
            return None
        crop = CropSpec.from_json(described)
        in_use = select(models.c.id).where(models.c.name == crop.of, models.c.in_use_since.is_not(None))
        detector_id = connection.scalar(in_use)
    is_made = object_predictions.c.object_id == objects.c.id, object_predictions.c.model_id == model_id
    is_taken = _is_taken(crop)
    wanted = [true(), is_taken, and_(is_taken, exists().where(*is_made))]

    listed = images.source.images_of(day)
    is_its = and_(objects.c.picture == picture_of(listed), objects.c.model_id == detector_id)
    with images.database.read() as connection:
        return DayObjects(*count_each(connection, KeyedJoin(listed, objects, is_its), wanted))


def _is_taken(crop: CropSpec) -> ColumnElement[bool]:
    """Return the condition that an object is a picture of the network, as `CropSpec.takes` has it."""
    is_label = objects.c.label.in_(crop.labels) if crop.labels else true()
    return and_(objects.c.score >= crop.min_score, is_label)
