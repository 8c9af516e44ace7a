"""Statistics of what a second network makes of a detector's objects, computed by the database.

They are of the objects that the detector's thresholds show; which labels count, the second network's own decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, ScalarSelect, Subquery, and_, func, select

from infer_app.ask.figures.figures import Figures, ScoredImage
from infer_app.ask.figures.object_figures import ObjectFigures
from infer_app.base.day import Day
from infer_app.base.domain import MULTI_LABEL, DetectedObject
from infer_app.base.locations import as_location
from infer_app.tables.engine.column_types import AsText, Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.thresholds import ALL_LABELS, SHOWN_CROPS, read_thresholds, threshold_of
from infer_app.tables.results.conditions import KeyedJoin
from infer_app.tables.results.label_groups import read_label_groups
from infer_app.tables.results.schema import OBJECT_COLUMNS, object_predictions, objects, predictions

_LABEL = AsText(object_predictions.c.label)  # by bytes: MariaDB would consider two labels equal, and refuse to compare


@dataclass(frozen=True, slots=True)
class ScoredCrop(ScoredImage):
    """An object of an image, with the label and the score that a second network gave it."""

    object: int  # its number, of infer_objects
    detected: DetectedObject


class CropFigures(ObjectFigures):
    """Statistics of a second network's results: labels and scores are those that it gave to objects. Only reads."""

    def __init__(self, database: Database, source: Source, model: str, model_id: str, detector: str) -> None:
        super().__init__(database, source, model, model_id)
        self._detector = detector
        self._is_shown = objects.c.score >= threshold_of(detector, objects.c.label)
        own, manifest = read_thresholds(database, model).keys() - {ALL_LABELS}, self.manifest()
        is_multi_label = manifest.get("output", {}).get("activation") in MULTI_LABEL
        names = manifest.get("labels", ())
        self._shows_best_alone = not (
            own or is_multi_label or len(set(names)) < len(names) or read_label_groups(database, model)
        )
        self._is_labelled = object_predictions.c.score >= threshold_of(model, _LABEL)

    def read_detector_thresholds(self) -> dict[str, float]:
        return read_thresholds(self._database, self._detector)

    def extremes(self, day: Day, limit: int, highest: bool) -> Sequence[ScoredCrop]:
        """Return the objects with the lowest or the highest score of the second network."""
        score, sign = object_predictions.c.score, -1 if highest else 1

        def wanted(images: Subquery) -> Query:
            own = object_predictions.c
            of_image = (images.c[3], images.c[1], own.label, own.score, predictions.c.sha256, own.object)
            rows = select(score * sign, *of_image, *OBJECT_COLUMNS).select_from(self._detected(images))
            return rows.where(self._is_shown, score.is_not(None))

        return [_scored_crop(row) for row in self._first(day, limit, wanted)]

    def _of_image(self, images: Subquery, aggregate: ColumnElement[Any]) -> ScalarSelect[Any]:
        taken = select(aggregate).select_from(object_predictions.join(objects, _is_its_box()))
        of_image = object_predictions.c.image_id == images.c[3], object_predictions.c.model_id == self._model_id
        return taken.where(*of_image, self._is_shown).correlate(images, predictions).scalar_subquery()

    def _labels(self, images: Subquery) -> Query:
        if not self._shows_best_alone:
            return self._shown_labels(images)
        counted = select(_LABEL, func.count()).select_from(self._detected(images))
        return counted.where(self._is_shown, _LABEL.is_not(None), self._is_labelled).group_by(_LABEL)

    def _shown_labels(self, images: Subquery) -> Query:
        """Return the labels and groups that the view shows, which takes longer than to count the best labels.

        Where the best label is not shown, another one may be, or the sum of two classes of one name.
        """
        label = SHOWN_CROPS.c.label
        own = [SHOWN_CROPS.c[name] == predictions.c[name] for name in ("image_id", "model_id")]
        on = and_(*own, SHOWN_CROPS.c.model == self._model)
        counted = select(label, func.count()).select_from(KeyedJoin(self._predicted(images), SHOWN_CROPS, on, False))
        return counted.where(label.is_not(None)).group_by(label)

    def _scored(self, images: Subquery) -> Subquery:
        scored = select(object_predictions.c.score).select_from(self._detected(images))
        return scored.where(self._is_shown).subquery()

    def _detected(self, images: Subquery) -> FromClause:
        key = [object_predictions.c[name] == predictions.c[name] for name in ("image_id", "model_id")]
        taken = KeyedJoin(self._predicted(images), object_predictions, and_(*key), False)
        return KeyedJoin(taken, objects, _is_its_box(), False)


def _is_its_box() -> ColumnElement[bool]:
    """Return the condition that a row of infer_objects is the object of a row of infer_object_predictions."""
    return and_(
        objects.c.image_id == object_predictions.c.image_id,
        objects.c.model_id == predictions.c.detector_id,
        objects.c.object == object_predictions.c.object,
    )


def _scored_crop(row: Sequence[Any]) -> ScoredCrop:
    _, image_id, location, label, score, sha256, number, *detected = row
    return ScoredCrop(image_id, as_location(location), label, score, sha256, number, DetectedObject(*detected))


def open_figures(database: Database, source: Source, model: str, model_id: str) -> Figures:
    """Return the statistics of a model by what it takes and the kind of its output."""
    figures = Figures(database, source, model_id)
    if crop := figures.manifest().get("crop"):
        return CropFigures(database, source, model, model_id, crop["of"])
    return ObjectFigures(database, source, model, model_id) if figures.kind == "detection" else figures
