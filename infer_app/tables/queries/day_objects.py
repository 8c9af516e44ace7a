"""The objects of a day that a second network has found before it, takes and has predicted."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, select, true

from infer_app.artifact.specs import CropSpec
from infer_app.base.day import Day
from infer_app.base.run_report import DayObjects
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import KeyedJoin, count_each, picture_of
from infer_app.tables.results.schema import models, object_predictions, objects


def count_day_objects(images: ListedImages, day: Day, model_id: str) -> DayObjects | None:
    """Count the objects of a day's images for a second network; None for any other model.

    They are those of the version of its detector that is in use.
    """
    with images.database.read() as connection:
        crop = _crop_of(connection, model_id)
        if crop is None:
            return None
        in_use = select(models.c.id).where(models.c.name == crop.of, models.c.in_use_since.is_not(None))
        detector_id = connection.scalar(in_use)
    is_made = object_predictions.c.object_id == objects.c.id, object_predictions.c.model_id == model_id
    is_taken = _is_taken(crop)
    wanted = [true(), is_taken, and_(is_taken, exists().where(*is_made))]

    listed = images.source.images_of(day)
    is_its = and_(objects.c.picture == picture_of(listed), objects.c.model_id == detector_id)
    with images.database.read() as connection:
        return DayObjects(*count_each(connection, KeyedJoin(listed, objects, is_its), wanted))


def _crop_of(connection: Connection, model_id: str) -> CropSpec | None:
    manifest: Mapping[str, Any] | None = connection.scalar(
        select(models.c.manifest).where(models.c.id == model_id).limit(1)
    )
    crop = (manifest or {}).get("crop")
    return CropSpec.from_json(crop) if crop else None


def _is_taken(crop: CropSpec) -> ColumnElement[bool]:
    """Return the condition that an object is a picture of the network, as `CropSpec.takes` has it."""
    is_label = objects.c.label.in_(crop.labels) if crop.labels else true()
    return and_(objects.c.score >= crop.min_score, is_label)
