"""Consistency checks of a day's rows, which must hold even after crashes; each check counts the violations."""

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, FromClause, Subquery, and_, case, func, inspect, or_, select

from infer_app.base.day import Day
from infer_app.base.domain import ReasonFact, reasons_with
from infer_app.base.printing import counted
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.laws import (
    HAS_UNKNOWN_REASON,
    faults_of_run,
    num_crops_of_prediction,
    num_objects_of_prediction,
)
from infer_app.tables.results.conditions import count_rows, has_prediction, has_rejection, join_results, picture_of
from infer_app.tables.results.schema import object_predictions, objects, predictions, rejections, runs

Check = tuple[str, str, FromClause, ColumnElement[bool]]  # a noun, a fault, and of which rows it is one if it holds


def _checks(images: Subquery, model_id: str) -> Iterator[Check]:
    """Yield what is checked of the rows of one model for some of a day's images."""
    picture = picture_of(images)
    predicted, rejected = (join_results(images, table, model_id) for table in (predictions, rejections))
    has_both = and_(has_prediction(picture, model_id), has_rejection(picture, model_id))
    yield "image", "with both a prediction and a rejection", images, has_both
    yield "rejection", "with a reason outside the list", rejected, HAS_UNKNOWN_REASON
    hashed = rejections.c.reason.in_(sorted(reasons_with(ReasonFact.HASHED)))
    lacks = or_(rejections.c.size.is_(None), rejections.c.sha256.is_(None))
    yield "rejection", "without the size or checksum of the file", rejected, and_(hashed, lacks)
    for table, noun, rows in ((predictions, "prediction", predicted), (rejections, "rejection", rejected)):
        yield noun, "of a run that is not in infer_runs", rows, table.c.run_id.not_in(select(runs.c.id))
    written = case((predictions.c.detector_id.is_(None), num_objects_of_prediction()), else_=num_crops_of_prediction())
    is_other = func.coalesce(predictions.c.num_objects, 0) != written
    yield "prediction", "with another number of objects than it counts", predicted, is_other


def audit(connection: Connection, source: Source, day: Day, model_id: str) -> Iterator[str]:
    """Yield a message for each problem with the day's rows. Nothing is repaired."""
    for table in (predictions, objects, object_predictions, rejections):
        key = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
        if set(key) != {column.name for column in table.primary_key}:
            yield f"{table.name} has lost its primary key: an image may have two rows of one model"
    images = source.images_of(day)
    found: Counter[tuple[str, str]] = Counter()
    predicted_by, rejected_by = Counter[str](), Counter[str]()
    for noun, fault, rows, is_so in _checks(images, model_id):
        found[noun, fault] += count_rows(connection, rows, is_so)
    for table, counts in ((predictions, predicted_by), (rejections, rejected_by)):
        written = join_results(images, table, model_id)
        by_run = select(table.c.run_id, func.count()).select_from(written).group_by(table.c.run_id)
        counts.update({row[0]: row[1] for row in connection.execute(by_run)})
    of_day = select(runs).where(runs.c.day == day.date, runs.c.model_id == model_id)
    for run in connection.execute(of_day):
        found.update(("run", fault) for fault in faults_of_run(run, predicted_by[run.id], rejected_by[run.id]))
    yield from (f"{counted(count, noun)} {fault}" for (noun, fault), count in found.items() if count)
