"""Consistency checks of a day's rows, which must hold even after crashes; each check counts the violations."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Subquery, Table, case, exists, func, inspect, or_, select

from infer_app.database.audits.laws import HAS_UNKNOWN_REASON, faults_of_run, num_rows_of_prediction
from infer_app.database.engine.column_types import Query
from infer_app.database.listing.source import Source
from infer_app.database.results.conditions import ListedPicture, count_rows, has_prediction, has_rejection, join_results
from infer_app.database.results.schema import object_predictions, objects, predictions, rejections, runs
from infer_app.day import Day
from infer_app.domain import ReasonFact, reasons_with
from infer_app.plurals import counted


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows of one model for some of a day's images."""

    images: Subquery
    model_id: str

    @property
    def picture(self) -> ListedPicture:
        return ListedPicture.of(self.images)

    def rows_of(self, table: Table, *columns: Any) -> Query:
        """Return a SELECT of the images' rows in `table`."""
        joined = join_results(self.images, table, self.picture, self.model_id)
        return select(*columns or (table.c.image_id,)).select_from(joined)


def with_both(scope: Scope) -> Query:
    both = has_prediction(scope.picture, scope.model_id), has_rejection(scope.picture, scope.model_id)
    return select(scope.images).where(*both)


def with_unknown_reason(scope: Scope) -> Query:
    return scope.rows_of(rejections).where(HAS_UNKNOWN_REASON)


def without_facts(scope: Scope) -> Query:
    lacks = or_(rejections.c.size.is_(None), rejections.c.sha256.is_(None))
    return scope.rows_of(rejections).where(rejections.c.reason.in_(sorted(reasons_with(ReasonFact.HASHED))), lacks)


def without_run(table: Table, scope: Scope) -> Query:
    return scope.rows_of(table).where(table.c.run_id.not_in(select(runs.c.id)))


def with_other_objects(scope: Scope) -> Query:
    found, predicted = (num_rows_of_prediction(table) for table in (objects, object_predictions))
    written = case((predictions.c.detector_id.is_(None), found), else_=predicted)
    return scope.rows_of(predictions).where(func.coalesce(predictions.c.num_objects, 0) != written)


def of_no_prediction(table: Table, scope: Scope) -> Query:
    by_id = ListedPicture(scope.images.c[3])  # they may be those of a former picture with this id
    joined = join_results(scope.images, table, by_id, scope.model_id)
    its = predictions.c.image_id == table.c.image_id, predictions.c.model_id == table.c.model_id
    return select(table.c.image_id).select_from(joined).where(~exists().where(*its))


def of_no_object(scope: Scope) -> Query:
    """Return a SELECT of object predictions whose object the detector's version has not stored."""
    crops = object_predictions.c
    joined = join_results(scope.images, object_predictions, ListedPicture(scope.images.c[3]), scope.model_id)
    of_image = predictions.c.image_id == crops.image_id, predictions.c.model_id == crops.model_id
    its = objects.c.image_id == crops.image_id, objects.c.object == crops.object
    is_found = exists().where(*of_image, *its, objects.c.model_id == predictions.c.detector_id)
    return select(crops.image_id).select_from(joined).where(~is_found)


CHECKS: dict[tuple[str, str], Callable[[Scope], Query]] = {
    ("image", "with both a prediction and a rejection"): with_both,
    ("rejection", "with a reason outside the list"): with_unknown_reason,
    ("rejection", "without the size or checksum of the file"): without_facts,
    ("prediction", "of a run that is not in infer_runs"): partial(without_run, predictions),
    ("rejection", "of a run that is not in infer_runs"): partial(without_run, rejections),
    ("prediction", "with another number of objects than it counts"): with_other_objects,
    ("object", "without a prediction of its image"): partial(of_no_prediction, objects),
    ("object prediction", "without a prediction of its image"): partial(of_no_prediction, object_predictions),
    ("object prediction", "of an object that its detector has not found"): of_no_object,
}


def audit(connection: Connection, source: Source, day: Day, model_id: str) -> Iterator[str]:
    """Yield a message for each problem with the day's rows. Nothing is repaired."""
    for table in (predictions, objects, object_predictions, rejections):
        key = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
        if set(key) != {column.name for column in table.primary_key}:
            yield f"{table.name} has lost its primary key: an image may have two rows of one model"
    if left_out := source.find_left_out(day).text:
        yield left_out
    found: Counter[tuple[str, str]] = Counter()
    predicted_by, rejected_by = Counter[str](), Counter[str]()
    for images in source.parts(connection, day):
        scope = Scope(images, model_id)
        for problem, find in CHECKS.items():
            found[problem] += count_rows(connection, find(scope).subquery())
        predicted_by.update(_rows_by_run(connection, scope, predictions))
        rejected_by.update(_rows_by_run(connection, scope, rejections))
    of_day = select(runs).where(runs.c.day == day.date, runs.c.model_id == model_id)
    for run in connection.execute(of_day):
        found.update(("run", fault) for fault in faults_of_run(run, predicted_by[run.id], rejected_by[run.id]))
    yield from (f"{counted(count, noun)} {fault}" for (noun, fault), count in found.items() if count)


def _rows_by_run(connection: Connection, scope: Scope, table: Table) -> dict[str, int]:
    run_id, number = table.c.run_id, func.count()
    by_run = scope.rows_of(table, run_id, number).group_by(run_id)
    return {row[0]: row[1] for row in connection.execute(by_run)}
