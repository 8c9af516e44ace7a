"""The results of pictures, row by row: memory does not grow with their number."""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Subquery, Table, and_, false, func, null, or_, select

from infer_app.base.day import Day
from infer_app.base.domain import NOT_READ, DetectedObject, FileFacts, OutputKind, Reason
from infer_app.base.locations import MASK_DIGITS, is_local_file, mask_checksum
from infer_app.base.size import Size
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import AsText, Query
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import (
    KeyedJoin,
    has_prediction,
    is_preferred,
    is_settled,
    is_static,
    join_results,
)
from infer_app.tables.results.schema import (
    OBJECT_COLUMNS,
    object_predictions,
    objects,
    pictures,
    predictions,
    rejections,
)

_VECTOR = ("vector", "vector_dtype", "vector_dim")
_LARGE = {"output", *_VECTOR, "run_id"}  # of which few are read
_COLUMNS = [column for column in predictions.c if column.name not in _LARGE]
_FIRST = len(_COLUMNS) + 2  # index of the first column of an object or an output, after the image's id and location
_PLACE = _FIRST + len(OBJECT_COLUMNS)
_FIRST_OF_CROP = _PLACE + 1
_UNSEEN = FileFacts()


def _output_of(table: Table) -> list[ColumnElement[Any]]:
    return [AsText(table.c.output), *(table.c[name] for name in _VECTOR)]


_OF_OBJECT = [*OBJECT_COLUMNS, objects.c.object]
_SEEN = [pictures.c[name] for name in ("size", "modified", "sha256")]
_OF_CROP = [*(object_predictions.c[name] for name in ("object_id", "label", "score")), *_output_of(object_predictions)]
_AFTER_CROP = _FIRST_OF_CROP + len(_OF_CROP)
_IS_OF_OBJECT = and_(
    object_predictions.c.object_id == objects.c.id, object_predictions.c.model_id == predictions.c.model_id
)


class Part(Enum):
    """Says what is read of a prediction besides its label, its score and what is known of its picture."""

    LABEL = auto()  # nothing
    FILE = auto()  # what is known of its file now, which may be another one
    TEXT = auto()  # its output, without a vector
    OUTPUT = auto()
    OBJECTS = auto()  # that are at no hidden place
    CROPS = auto()  # of a second network: such objects of its detector, with its prediction for those that it took
    ALL = auto()  # all of these, and the run


_READ: dict[Part, Sequence[ColumnElement[Any]]] = {
    Part.LABEL: (),
    Part.FILE: _SEEN,
    Part.TEXT: [AsText(predictions.c.output), null(), *(predictions.c[name] for name in _VECTOR[1:])],
    Part.OUTPUT: _output_of(predictions),
    Part.OBJECTS: _OF_OBJECT,
    Part.CROPS: [*_OF_OBJECT, *_OF_CROP],
    Part.ALL: [*_OF_OBJECT, *_OF_CROP, *_output_of(predictions), *_SEEN, predictions.c.run_id],
}
_FOUND_BY: dict[Part, ColumnElement[Any]] = {  # the version of the detector
    Part.OBJECTS: predictions.c.model_id,
    Part.CROPS: predictions.c.detector_id,
    Part.ALL: func.coalesce(predictions.c.detector_id, predictions.c.model_id),
}


def part_of(kind: str, detector: object) -> Part:
    """Return what is read for a kind of output; a second network has a detector."""
    return Part.CROPS if detector else Part.OBJECTS if kind == OutputKind.DETECTION else Part.OUTPUT


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What a prediction holds besides its label, score and objects."""

    text: str  # JSON, as docs/outputs.md has it for each kind
    vector: bytes | None  # little-endian
    vector_dtype: str | None
    vector_dim: int | None = None

    @property
    def details(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.text)
        return found


_NOT_READ = StoredOutput("{}", None, None)


class PredictedCrop(NamedTuple):
    """Holds what a second network predicted for an object of its detector."""

    label: str | None
    score: float | None
    output: StoredOutput
    object_id: int | None = None  # of infer_objects; None for a whole image


@dataclass(frozen=True, slots=True)
class Result:
    """The prediction of a picture by a version of a model; the columns of infer_predictions say what each field is."""

    picture: int
    model_id: str
    variant: str
    label: str | None
    score: float | None
    sha256: str | None
    created_at: datetime  # UTC without a zone
    width: int | None
    height: int | None
    num_objects: int | None
    detector_id: str | None
    image_id: str  # images of two days may have one
    location: str
    output: StoredOutput = _NOT_READ
    objects: tuple[DetectedObject, ...] = ()  # the best first; empty for other kinds of models
    crops: tuple[PredictedCrop | None, ...] = ()  # of a second network, for each object; None: it did not take it
    seen: FileFacts = _UNSEEN  # of its file as it was last seen, if that was asked for
    places: tuple[int, ...] = ()  # of the objects among those that the detector found, 0 for the best
    run_id: str = ""  # if all was asked for

    @property
    def upright(self) -> Size | None:
        """Return the size of the upright picture; None: the row lacks it."""
        return None if self.width is None or self.height is None else Size(self.width, self.height)

    @property
    def file(self) -> FileFacts:
        """Return what is known of the file that was predicted; its size and time are those of the file last seen."""
        return replace(self.seen, sha256=self.sha256, picture=self.upright)

    def differs(self, now: FileFacts) -> bool:
        """Return whether a file with this size and time may be another one than was predicted."""
        is_seen = (self.seen.size, self.seen.modified) == (now.size, now.modified)
        return not is_seen or self.seen.sha256 not in (None, self.sha256)


@dataclass(frozen=True, slots=True)
class Rejection:
    """The rejection of a picture by a version of a model; the columns of infer_rejections say what each field is."""

    picture: int
    model_id: str
    run_id: str
    reason: str
    detail: str
    stage: str
    attempts: int
    size: int | None
    modified: float | None
    sha256: str | None
    decoder: str
    created_at: datetime
    detector_id: str | None
    image_id: str
    location: str
    is_settled: bool = False  # no run tries the image again

    @property
    def file(self) -> FileFacts:
        return FileFacts(self.size, self.modified, self.sha256)

    def is_outdated(self, now: FileFacts, location: str) -> bool:
        """Return whether a run deletes it, since its file has changed, or the URL by which it could not be read.

        `location`: as it is listed, with what is masked.
        """
        was_read = len(self.sha256 or "") > MASK_DIGITS
        if self.reason in NOT_READ and not was_read and self.sha256 != mask_checksum(location):
            return True
        if now.size is None or not is_local_file(location):
            return False
        # A file that is not allowed was not examined, nor is what is no file.
        known = self.size is not None and (self.size, self.modified) != (now.size, now.modified)
        return known or self.reason == Reason.NOT_REGULAR_FILE


T = TypeVar("T", Result, Rejection)


@dataclass(frozen=True, slots=True)
class Selection:
    """Says which predictions are read, and what of them."""

    model_ids: Sequence[str] = ()  # of these versions, or of all
    part: Part = Part.LABEL
    names: Iterable[Sequence[str]] = ()  # versions, the preferred one first: what that has rejected is left out
    counting: bool = True  # whether results of objects of a detector that is no longer in use are left out

    def rows_of(self, images: Subquery) -> Query:
        """Select the predictions of images, in order of time and id, each with a row for each of its objects."""
        joined = join_results(images, predictions, *self.model_ids, counting=self.counting)
        order = [images.c[2], images.c[0], predictions.c.model_id]
        if self.part in _FOUND_BY:
            is_hidden = false() if self.part is Part.ALL else is_static()
            key = objects.c.picture == predictions.c.picture, objects.c.model_id == _FOUND_BY[self.part]
            joined = KeyedJoin(joined, objects, and_(*key, ~is_hidden), True)
            order.append(objects.c.object)
        if self.part in (Part.CROPS, Part.ALL):
            joined = KeyedJoin(joined, object_predictions, _IS_OF_OBJECT, True)
        if self.part in (Part.FILE, Part.ALL):
            joined = KeyedJoin(joined, pictures, pictures.c.id == predictions.c.picture, False)
        wanted = select(*_COLUMNS, images.c[3], images.c[1], *_READ[self.part]).select_from(joined)
        preferred = (is_preferred(predictions, predictions.c.picture, ids) for ids in self.names)
        return wanted.where(*preferred).order_by(*order)


def read(images: ListedImages, days: Day, wanted: Selection) -> Iterator[Result]:
    """Yield the predictions of an interval of days in order of time, those of an image by version."""
    return _results(images.stream(days, wanted.rows_of), wanted)


def results_of(connection: Connection, numbers: Iterable[int], wanted: Selection) -> Iterator[Result]:
    """Yield the predictions of some pictures, also of those that are no longer listed; URLs are without secrets."""
    for its in _pictures_of(connection, numbers):
        yield from _results(connection.execute(wanted.rows_of(its)), wanted)


def _pictures_of(connection: Connection, numbers: Iterable[int]) -> Iterator[Subquery]:
    """Yield relations as `Source.images_of` returns them, each of as many pictures as a statement takes."""
    backend_of(connection).plan_for_pages(connection)
    number, more = pictures.c.id, (pictures.c.location, pictures.c.added_at, pictures.c.image_id)
    for some in in_batches(numbers):
        yield select(number, *more, number.label("infer_picture")).where(number.in_(some)).subquery()


def _results(rows: Iterable[Any], wanted: Selection) -> Iterator[Result]:
    key = itemgetter(0) if len(wanted.model_ids) == 1 else itemgetter(0, 1)  # picture and version
    for _, of_result in groupby(rows, key):
        yield _result(list(of_result), wanted.part)


def read_preferred(images: ListedImages, days: Day, model_ids: Sequence[str], part: Part) -> Iterator[Result]:
    """Yield the prediction of each image by the first version of a model that has a result of it."""
    return first_of(model_ids, read(images, days, Selection(model_ids, part, [model_ids])))


def read_together(images: ListedImages, days: Day, model_ids: Sequence[str], part: Part) -> Iterator[list[Result]]:
    """Yield the predictions of each image that all versions have predicted, in the order of the versions."""
    for found in by_image(read(images, days, Selection(model_ids, part, counting=False))):
        if len(found) == len(model_ids):
            yield [found[model_id] for model_id in model_ids]


def _result(rows: list[Any], part: Part) -> Result:
    shared, first = rows[0][:_FIRST], rows[0][_FIRST:]
    if part is Part.FILE:
        return Result(*(*shared, _NOT_READ, (), (), FileFacts(*first)))
    if part not in _FOUND_BY:
        return Result(*(*shared, StoredOutput(*first) if first else _NOT_READ))
    rows = rows if first[0] is not None else []  # of which one stands for no object
    found = tuple([DetectedObject._make(row[_FIRST:_PLACE]) for row in rows])
    places = tuple([row[_PLACE] for row in rows])
    crops = () if part is Part.OBJECTS else tuple([_crop(*row[_FIRST_OF_CROP:_AFTER_CROP]) for row in rows])
    if part is not Part.ALL:
        return Result(*(*shared, _NOT_READ, found, crops, _UNSEEN, places))
    output, seen = StoredOutput(*first[-8:-4]), FileFacts(*first[-4:-1])
    return Result(*(*shared, output, found, crops, seen, places, first[-1]))


def _crop(number: int | None, label: str | None, score: float | None, *output: Any) -> PredictedCrop | None:
    return None if number is None else PredictedCrop(label, score, StoredOutput(*output), number)


def read_rejections(
    images: ListedImages, days: Day, *model_ids: str, conditions: Sequence[ColumnElement[bool]] = ()
) -> Generator[Rejection]:
    """Yield the rejections of an interval of days by some versions, or by all, in order of time."""

    def rows_of(listed: Subquery) -> Query:
        wanted = _rejection_rows(listed, model_ids, counting=True).where(*conditions)
        return wanted.order_by(listed.c[2], listed.c[0], rejections.c.model_id)

    yield from (Rejection(*row) for row in images.stream(days, rows_of))


def rejections_of(connection: Connection, numbers: Iterable[int], *model_ids: str) -> Iterator[Rejection]:
    """Yield the rejections of some pictures as `results_of` does, in any order, also those that no longer count."""
    for its in _pictures_of(connection, numbers):
        yield from (Rejection(*row) for row in connection.execute(_rejection_rows(its, model_ids, counting=False)))


def _rejection_rows(images: Subquery, model_ids: Sequence[str], *, counting: bool) -> Query:
    joined = join_results(images, rejections, *model_ids, counting=counting)
    return select(*rejections.c, images.c[3], images.c[1], is_settled()).select_from(joined)


def read_rejected(images: ListedImages, days: Day, *model_ids: str) -> Iterator[Rejection]:
    """Yield the rejection of each image that the first version of a model with a result of it has rejected."""
    up_to = ((model_id, model_ids[index:]) for index, model_id in enumerate(model_ids))
    of, picture = rejections.c.model_id, rejections.c.picture
    is_first = [or_(of.not_in(ids), ~has_prediction(picture, model_id)) for model_id, ids in up_to]
    return first_of(model_ids, read_rejections(images, days, *model_ids, conditions=is_first))


def by_image(results: Iterable[T]) -> Iterator[dict[str, T]]:
    """Yield the results of each image by version."""
    for _, of_image in groupby(results, key=attrgetter("picture")):
        yield {one.model_id: one for one in of_image}


def first_of(model_ids: Sequence[str], results: Iterable[T]) -> Iterator[T]:
    """Return of each image the result of the first version that has one."""
    if len(model_ids) == 1:
        return iter(results)
    return (next(found[one] for one in model_ids if one in found) for found in by_image(results))
