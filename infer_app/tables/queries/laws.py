"""Define laws on stored rows, and those on rows of second networks."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, FromClause, Row, Table, and_, exists, func, or_, select

from infer_app.base.domain import Reason
from infer_app.tables.engine.column_types import AsText
from infer_app.tables.results.schema import (
    WITHOUT_EVENT,
    object_predictions,
    objects,
    pictures,
    predictions,
    rejections,
)

ROUNDING = 1e-3  # of scores and of boxes' edges, as shares: fp16, and a sum of several numbers


class Law(NamedTuple):
    noun: str
    fault: str
    is_broken: ColumnElement[bool]


HAS_UNKNOWN_REASON = rejections.c.reason.not_in([reason.value for reason in Reason])


def is_no_score(score: ColumnElement[float]) -> ColumnElement[bool]:
    return or_(score < -ROUNDING, score > 1 + ROUNDING)


def result_laws(table: Table, noun: str, second_networks: Sequence[str]) -> Iterator[Law]:
    """Yield laws on predictions or rejections: which are of a second network, and of which detector's result."""
    row, is_second = table.c, table.c.model_id.in_(second_networks)
    found, rejected = predictions.alias("detected"), rejections.alias("not_detected")
    has_result = or_(*(_is_of(other, row.picture, row.detector_id) for other in (found, rejected)))
    yield Law(
        noun, "without the version of its detector, or with one it has not", is_second != row.detector_id.is_not(None)
    )
    yield Law(noun, "of a detector that has no result of the image", and_(row.detector_id.is_not(None), ~has_result))


def picture_laws(first: FromClause, last: FromClause) -> Iterator[Law]:
    """Yield laws on pictures, each with the first one of its event, a first one with the last."""
    is_other = AsText(first.c.camera) != AsText(pictures.c.camera)
    is_wrong = or_(first.c.event.is_distinct_from(pictures.c.event), is_other)
    fault = "of an event whose first picture is not of it, or is of another camera"
    yield Law("image", fault, and_(pictures.c.event > WITHOUT_EVENT, is_wrong))
    has_no_last = last.c.event.is_distinct_from(pictures.c.event)
    yield Law("image", "of an event whose last picture is not of it", and_(first.c.id == pictures.c.id, has_no_last))


def num_objects_of_prediction() -> ColumnElement[int]:
    """Return how many rows of infer_objects a detector's prediction has."""
    its = objects.c.picture == predictions.c.picture, objects.c.model_id == predictions.c.model_id
    return select(func.count()).select_from(objects).where(*its).scalar_subquery()


def num_crops_of_prediction() -> ColumnElement[int]:
    """Return of how many of its detector's objects a second network's prediction has a row."""
    of_detector = objects.c.picture == predictions.c.picture, objects.c.model_id == predictions.c.detector_id
    its = object_predictions.c.object_id == objects.c.id, object_predictions.c.model_id == predictions.c.model_id
    made = objects.join(object_predictions, and_(*its))
    return select(func.count()).select_from(made).where(*of_detector).scalar_subquery()


def faults_of_run(run: Row[Any], predicted: int, rejected: int) -> Iterator[str]:
    """Yield what is wrong with a run that ended wrong, or whose counters disagree with the number of its rows.

    Rows may be overwritten or deleted later, but each row that is written is counted by its run.
    """
    if run.selected != run.predicted + run.rejected:
        yield "that selected fewer or more images than predicted and rejected"
    if run.state == "done" and (run.exit_code is None or run.ended_at is None):
        yield "done without an exit code or an end"
    if run.predicted < predicted or run.rejected < rejected:
        yield "that wrote more rows than counted"


def crop_laws(classifiers: Sequence[str]) -> Iterator[Law]:
    """Yield laws on predictions of objects that are joined with their objects, and with those of their pictures."""
    row, noun = object_predictions.c, "object prediction"
    lacks_label = or_(row.label.is_(None), row.score.is_(None))
    of_classifier = row.model_id.in_(classifiers)
    yield Law(noun, "without a prediction of its image", predictions.c.picture.is_(None))
    yield Law(noun, "without a label or score", and_(of_classifier, lacks_label))
    yield Law(noun, "with a score outside 0 to 1", and_(of_classifier, is_no_score(row.score)))


def _is_of(table: FromClause, picture: ColumnElement[int], model_id: ColumnElement[str]) -> ColumnElement[bool]:
    return exists().where(table.c.picture == picture, table.c.model_id == model_id)
