"""Count and choose, by the database, what a second network makes of a day's objects.

That is of the objects that the detector's thresholds show; which labels count, the second network's own decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, ScalarSelect, Subquery, and_, func, select

from infer_app.ask.figures.figures import Figures, ImageResults, ScoredImage, of_version
from infer_app.ask.figures.object_figures import ObjectCounts, ObjectResults, count_objects
from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject
from infer_app.tables.engine.column_types import AsText, Query
from infer_app.tables.label_groups import read_label_groups
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.thresholds import SHOWN_CROPS, read_thresholds
from infer_app.tables.results.conditions import KeyedJoin, are_shown, threshold_of
from infer_app.tables.results.model_versions import detector_of, gives_several_labels
from infer_app.tables.results.schema import ALL_LABELS, OBJECT_COLUMNS, object_predictions, objects, predictions

_LABEL = AsText(object_predictions.c.label)  # by bytes: MariaDB would consider two labels equal, and refuse to compare


@dataclass(frozen=True, slots=True)
class ScoredCrop(ScoredImage):
    """An object of an image, with the label and the score that a second network gave it."""

    object: int  # its number, of infer_objects
    detected: DetectedObject


class CropResults(ImageResults):
    """The labels and scores that one version of a second network gave to objects; only reads."""

    label, score = _LABEL, object_predictions.c.score

    def __init__(self, images: ListedImages, model: str, model_id: str, manifest: Mapping[str, Any]) -> None:
        super().__init__(images, model_id)
        self._model = model
        self.detector: str = manifest["crop"]["of"]
        self.shown = [are_shown(self.detector)]
        own = read_thresholds(images.database, model).keys() - {ALL_LABELS}
        names = manifest.get("labels", ())
        has_several = gives_several_labels(manifest) or len(set(names)) < len(names)
        self._shows_best_alone = not (own or has_several or read_label_groups(images.database, model))

    def rows_of(self, images: Subquery) -> FromClause:
        found = KeyedJoin(of_version(images, predictions, self._model_id), objects, _is_of_detector(), False)
        return KeyedJoin(found, object_predictions, self._is_made(), False)

    def labels(self, images: Subquery) -> Query:
        if not self._shows_best_alone:
            return self._shown_labels(images)
        return super().labels(images).where(self.score >= threshold_of(self._model, self.label))

    def count(self, day: Day) -> ObjectCounts:
        return count_objects(self._images, day, self._model_id, self._of_image)

    def extremes(self, day: Day, limit: int, highest: bool) -> Sequence[ScoredCrop]:
        """Return the objects with the lowest or the highest score of the second network."""
        found = self._extremes(day, limit, highest, objects.c.object, *OBJECT_COLUMNS)
        return [ScoredCrop(*(*row[:6], DetectedObject(*row[6:]))) for row in found]

    def _of_image(self, images: Subquery, aggregate: ColumnElement[Any]) -> ScalarSelect[Any]:
        taken = select(aggregate).select_from(objects.join(object_predictions, self._is_made()))
        of_image = _is_of_detector()
        return taken.where(of_image, *self.shown).correlate(images, predictions).scalar_subquery()

    def _shown_labels(self, images: Subquery) -> Query:
        """Return the labels and groups that the view shows, which takes longer than to count the best labels.

        Where the best label is not shown, another one may be, or the sum of two classes of one name.
        """
        label = SHOWN_CROPS.c.label
        own = [SHOWN_CROPS.c[name] == predictions.c[name] for name in ("picture", "model_id")]
        on = and_(*own, SHOWN_CROPS.c.model == self._model)
        shown = KeyedJoin(of_version(images, predictions, self._model_id), SHOWN_CROPS, on, False)
        return select(label, func.count()).select_from(shown).where(label.is_not(None)).group_by(label)

    def _is_made(self) -> ColumnElement[bool]:
        """Return the condition that a row of infer_object_predictions is this version's of a row of infer_objects."""
        return and_(object_predictions.c.object_id == objects.c.id, object_predictions.c.model_id == self._model_id)


def _is_of_detector() -> ColumnElement[bool]:
    """Return the condition that an object is one of those that a second network's prediction is of."""
    return and_(objects.c.picture == predictions.c.picture, objects.c.model_id == predictions.c.detector_id)


def open_figures(images: ListedImages, model: str, model_id: str) -> Figures:
    """Return the statistics of a version, whose results are what it takes and the kind of its output."""
    figures = Figures(images, model_id)
    manifest = figures.manifest()
    if detector_of(manifest):
        return Figures(images, model_id, CropResults(images, model, model_id, manifest))
    return Figures(images, model_id, ObjectResults(images, model, model_id)) if figures.kind == "detection" else figures
