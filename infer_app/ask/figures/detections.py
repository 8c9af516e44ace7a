"""The predictions of a day with their objects, streamed: memory does not grow with their number."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Subquery, and_, or_, select

from infer_app.ask.figures.figures import REJECTED, RejectedImage
from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject, OutputKind
from infer_app.base.size import Size
from infer_app.tables.engine.column_types import AsText, Query
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.thresholds import find_threshold
from infer_app.tables.results.conditions import KeyedJoin, has_prediction, is_preferred, join_results, picture_of
from infer_app.tables.results.schema import OBJECT_COLUMNS, object_predictions, objects, predictions, rejections

_PREDICTION = ("picture", "model_id", "width", "height", "label", "score", "variant", "sha256", "created_at")
_VECTOR = ("vector", "vector_dtype")
_OUTPUT_COLUMNS: list[ColumnElement[Any]] = [
    AsText(predictions.c.output),
    *(predictions.c[name] for name in _VECTOR),
]
_NUMBER, _MODEL = 2, 3  # indices of the columns that tell pictures apart, and versions
_FIRST = 2 + len(_PREDICTION)  # index of the first column of an object or an output
_CROP_COLUMNS: list[ColumnElement[Any]] = [object_predictions.c[name] for name in ("object_id", "label", "score")]
_CROP_COLUMNS += [AsText(object_predictions.c.output), *(object_predictions.c[name] for name in _VECTOR)]
_IS_OF_OBJECT = and_(
    object_predictions.c.object_id == objects.c.id, object_predictions.c.model_id == predictions.c.model_id
)
_FIRST_OF_CROP = _FIRST + len(OBJECT_COLUMNS)


class Part(Enum):
    """Says what is read of a prediction besides its label and score."""

    OUTPUT = auto()
    OBJECTS = auto()
    CROPS = auto()  # of a second network: the objects of its detector, with its prediction for those that it took


def part_of(kind: str, detector: object) -> Part:
    """Return what is read for a kind of output; a second network has a detector."""
    return Part.CROPS if detector else Part.OBJECTS if kind == OutputKind.DETECTION else Part.OUTPUT


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What a prediction holds besides its label, score and objects."""

    text: str  # JSON, as docs/outputs.md has it for each kind
    vector: bytes | None  # little-endian
    vector_dtype: str | None

    @property
    def details(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.text)
        return found


class PredictedCrop(NamedTuple):
    """Holds what a second network predicted for an object of its detector."""

    label: str | None
    score: float | None
    output: StoredOutput
    object_id: int | None = None  # of infer_objects; None for a whole image


@dataclass(frozen=True, slots=True)
class PredictedImage:
    """A prediction with the objects that it found, the best first; empty for other kinds of models."""

    image_id: str
    location: str
    picture: Size | None  # None: the row lacks it
    label: str | None
    score: float | None
    objects: tuple[DetectedObject, ...]
    model_id: str = ""
    variant: str = ""
    sha256: str | None = None  # of the file
    output: StoredOutput | None = None  # None if it was not asked for
    crops: tuple[PredictedCrop | None, ...] = ()  # of a second network, for each object; None: it did not take it
    number: int = 0  # of its picture in infer_pictures: images of two days may have one id
    created_at: datetime = datetime.min  # of the prediction, UTC without a zone

    def shown(self, thresholds: Mapping[str, float]) -> tuple[DetectedObject, ...]:
        """Return the objects with at least the threshold of their label, as `read_thresholds` returns them."""
        return tuple(one for one in self.objects if one.score >= find_threshold(thresholds, one.label))


def read_predicted_images(
    images: ListedImages, days: Day, *model_ids: str, part: Part = Part.OBJECTS
) -> Iterator[PredictedImage]:
    """Yield the predictions of an interval of days in order of (time, id).

    Of several versions of a model the first one that has a result of an image counts.
    """
    for rows in _read_images(images, days, model_ids, part, one_alone=True):
        yield _of_part(_preferred(rows, model_ids), part)


def read_together(
    images: ListedImages, days: Day, model_ids: Sequence[str], part: Part = Part.OBJECTS
) -> Iterator[tuple[PredictedImage, ...]]:
    """Yield the predictions of each image that all models predicted, in order of (time, id)."""
    for rows in _read_images(images, days, model_ids, part, one_alone=False):
        by_model = {model_id: list(own) for model_id, own in groupby(rows, key=itemgetter(_MODEL))}
        if len(by_model) == len(model_ids):
            yield tuple(_of_part(by_model[model_id], part) for model_id in model_ids)


def _read_images(
    images: ListedImages, days: Day, model_ids: Sequence[str], part: Part, one_alone: bool
) -> Iterator[list[Any]]:
    """Yield the rows of each image, by model and object; with `one_alone` none that a preferred version rejected."""
    columns: list[ColumnElement[Any]] = [predictions.c[name] for name in _PREDICTION]
    columns += _OUTPUT_COLUMNS if part is Part.OUTPUT else OBJECT_COLUMNS
    columns += _CROP_COLUMNS if part is Part.CROPS else []

    def rows_of(listed: Subquery) -> Query:
        joined = join_results(listed, predictions, *model_ids, counting=one_alone)
        order = [listed.c[2], listed.c[0], predictions.c.model_id]
        if part is not Part.OUTPUT:
            detector = predictions.c.detector_id if part is Part.CROPS else predictions.c.model_id
            of_prediction = and_(objects.c.picture == predictions.c.picture, objects.c.model_id == detector)
            joined = KeyedJoin(joined, objects, of_prediction, True)
            order.append(objects.c.object)
        if part is Part.CROPS:
            joined = KeyedJoin(joined, object_predictions, _IS_OF_OBJECT, True)
        wanted = select(listed.c[3], listed.c[1], *columns).select_from(joined).order_by(*order)
        if one_alone:
            wanted = wanted.where(is_preferred(predictions, picture_of(listed), model_ids))
        return wanted

    for _, of_image in groupby(images.stream(days, rows_of), key=itemgetter(_NUMBER)):
        yield list(of_image)


def read_rejected_images(images: ListedImages, days: Day, *model_ids: str) -> Iterator[RejectedImage]:
    """Yield the images whose first version with a result has rejected them, in order of (time, id)."""
    columns = [rejections.c[name] for name in ("picture", "model_id", *REJECTED)]

    def rows_of(listed: Subquery) -> Query:
        joined = join_results(listed, rejections, *model_ids, counting=True)
        wanted = select(listed.c[3], listed.c[1], *columns).select_from(joined)
        picture = picture_of(listed)
        up_to = ((model_id, model_ids[index:]) for index, model_id in enumerate(model_ids))
        its = (or_(rejections.c.model_id.not_in(ids), ~has_prediction(picture, one)) for one, ids in up_to)
        return wanted.where(*its).order_by(listed.c[2], listed.c[0])

    for _, of_image in groupby(images.stream(days, rows_of), key=itemgetter(_NUMBER)):
        image_id, location, _, _, *rejection = _preferred(list(of_image), model_ids)[0]
        yield RejectedImage(image_id, location, *rejection)


def _preferred(rows: list[Any], model_ids: Sequence[str]) -> list[Any]:
    """Return the rows of an image that are of the first version that has any."""
    if len(model_ids) == 1:
        return rows
    chosen = min((row[_MODEL] for row in rows), key=model_ids.index)
    return [row for row in rows if row[_MODEL] == chosen]


def _of_part(rows: list[Any], part: Part) -> PredictedImage:
    if part is Part.OUTPUT:
        return _image(rows[0], output=StoredOutput(*rows[0][_FIRST:]))
    is_empty = rows[0][_FIRST] is None
    found = () if is_empty else tuple([DetectedObject._make(row[_FIRST:_FIRST_OF_CROP]) for row in rows])
    has_crops = len(rows[0]) > _FIRST_OF_CROP and not is_empty
    crops = tuple([_crop(*row[_FIRST_OF_CROP:]) for row in rows]) if has_crops else ()
    return _image(rows[0], found, crops=crops)


def _crop(number: int | None, label: str | None, score: float | None, *output: Any) -> PredictedCrop | None:
    return None if number is None else PredictedCrop(label, score, StoredOutput(*output), number)


def _image(row: Any, objects: tuple[DetectedObject, ...] = (), **more: Any) -> PredictedImage:
    image_id, location, number, model_id, width, height, label, score, variant, sha256, created_at = row[:_FIRST]
    picture = None if width is None else Size(width, height)
    shared = image_id, location, picture, label, score
    return PredictedImage(*shared, objects, model_id, variant, sha256, number=number, created_at=created_at, **more)
