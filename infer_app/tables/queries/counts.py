"""How many images of a day have a prediction, a rejection or neither."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Subquery, and_, exists, or_, true

from infer_app.base.day import Day
from infer_app.base.run_report import DayCounts
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import (
    ListedPicture,
    added_up,
    count_each,
    has_prediction,
    has_rejection,
    is_new_for_any,
)
from infer_app.tables.results.schema import predictions, rejections


class Counts:
    """Counts the images of days."""

    def __init__(self, images: ListedImages) -> None:
        self._images = images

    def count_day(self, day: Day, model_id: str) -> DayCounts:
        """Count the day's rows. Pending is counted and not computed as a difference, so that an inconsistency shows.

        One statement counts all: on a server each sees what other programs have committed before it.
        """
        with self._images.parts(day) as parts:
            return DayCounts(*added_up(count_each(*part, _counted(part[1], model_id)) for part in parts))

    def count_asked(self, day: Day, model_id: str) -> tuple[int, int]:
        """Count the predicted and the rejected images that the model was given, or that could not be read for it.

        A second network is given no image without an object, and none that its detector has rejected.
        """
        with self._images.parts(day) as parts:
            counts = added_up(count_each(*part, _asked(part[1], model_id)) for part in parts)
        return counts[0], counts[1]

    def count_images(self, days: Day) -> int:
        return self._images.count(days)

    def count_new(self, day: Day, *model_ids: str) -> int:
        """Count the images that a run of the day would select: those that are new for at least one of the models."""
        return self._images.count(day, lambda images: [is_new_for_any(ListedPicture.of(images), model_ids)])

    def count_pending(self, day: Day, *model_ids: str) -> int:
        """Count the images with a result of none of the models."""
        return self._images.count(day, lambda images: without_results(images, model_ids))


def without_results(images: Subquery, model_ids: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of an image with a result of none of the models."""
    return [~known for model_id in model_ids for known in _results_of(images, model_id)]


def _results_of(images: Subquery, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return two conditions: an image has a prediction, and an image has a rejection."""
    return has_prediction(ListedPicture.of(images), model_id), has_rejection(ListedPicture.of(images), model_id)


def _counted(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions of the images that each field of DayCounts counts."""
    predicted, rejected = _results_of(images, model_id)
    return [true(), predicted, and_(~predicted, rejected), and_(~predicted, ~rejected)]


def _asked(images: Subquery, model_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions of the images that `count_asked` counts."""
    picture, of_detector = ListedPicture.of(images), rejections.alias("of_detector")
    key = of_detector.c.image_id == rejections.c.image_id, of_detector.c.model_id == rejections.c.detector_id
    predicted = has_prediction(
        picture, model_id, or_(predictions.c.detector_id.is_(None), predictions.c.num_objects > 0)
    )
    return [
        predicted,
        and_(~has_prediction(picture, model_id), has_rejection(picture, model_id, ~exists().where(*key))),
    ]
