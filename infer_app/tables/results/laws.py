"""Define laws on stored rows, and those on rows of second networks."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, FromClause, Row, Table, and_, exists, func, or_, select

from infer_app.base.domain import Reason
from infer_app.tables.results.schema import object_predictions, objects, predictions, rejections

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
    has_result = or_(*(_is_of(other, row.image_id, row.detector_id) for other in (found, rejected)))
    yield Law(
        noun, "without the version of its detector, or with one it has not", is_second != row.detector_id.is_not(None)
    )
    yield Law(noun, "of a detector that has no result of the image", and_(row.detector_id.is_not(None), ~has_result))


def is_of_prediction(table: Table) -> ColumnElement[bool]:
    """Return the condition that a row of objects, or of predictions of objects, belongs to a prediction."""
    return and_(table.c.image_id == predictions.c.image_id, table.c.model_id == predictions.c.model_id)


def num_rows_of_prediction(table: Table) -> ColumnElement[int]:
    return select(func.count()).select_from(table).where(is_of_prediction(table)).scalar_subquery()


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
    """Yield laws on predictions of objects that are joined with those of their images."""
    row, of = object_predictions.c, predictions.c
    noun, lacks_label = "object prediction", or_(row.label.is_(None), row.score.is_(None))
    of_classifier = row.model_id.in_(classifiers)
    its = objects.c.object == row.object, objects.c.image_id == row.image_id, objects.c.model_id == of.detector_id
    yield Law(noun, "without a prediction of its image", of.image_id.is_(None))
    yield Law(
        noun, "of an object that its detector has not found", and_(of.image_id.is_not(None), ~exists().where(*its))
    )
    yield Law(noun, "without a label or score", and_(of_classifier, lacks_label))
    yield Law(noun, "with a score outside 0 to 1", and_(of_classifier, is_no_score(row.score)))


def _is_of(table: FromClause, image_id: ColumnElement[str], model_id: ColumnElement[str]) -> ColumnElement[bool]:
    return exists().where(table.c.image_id == image_id, table.c.model_id == model_id)
