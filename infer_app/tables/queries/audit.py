"""Consistency checks of a day's rows, which must hold even after crashes; each check counts the violations."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, FromClause, Subquery, and_, case, func, inspect, or_, select

from infer_app.base.day import Day
from infer_app.base.domain import ReasonFact, reasons_with
from infer_app.base.locations import as_location, picture_key, stored_location
from infer_app.base.printing import counted
from infer_app.tables.engine.column_types import Query, is_utf8
from infer_app.tables.listing.source import PAGE_SIZE, Source
from infer_app.tables.queries.laws import (
    HAS_UNKNOWN_REASON,
    faults_of_run,
    num_crops_of_prediction,
    num_objects_of_prediction,
)
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import count_rows, has_prediction, has_rejection, join_results, picture_of
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections, runs

NUM_EXAMPLES = 3
Row = Sequence[Any]  # id and location of an image, and whether it has a prediction and a rejection
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
    if left_out := source.find_left_out(day).text:
        yield left_out
    found: Counter[tuple[str, str]] = Counter()
    predicted_by, rejected_by = Counter[str](), Counter[str]()
    for images in source.parts(connection, day):
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


def find_unlisted(images: ListedImages, day: Day, model_id: str) -> Iterator[str]:
    """Yield a message on the day's rows of the images' table that are not listed, or with other results than they have.

    The table is read alone, and results by an image's id and location: without the joins and keys of the list. What
    differs is read again, since a run may write meanwhile. A row takes 8 bytes of memory.
    """
    found = _find_differing(images, day, model_id)
    if len(found):
        found = np.intersect1d(found, _find_differing(images, day, model_id))
    if wanted := set(found.tolist()):
        named = (row[0] for row in _rows_of_table(images, day, model_id) if _entry(*row) in wanted)
        examples = ", ".join([*islice(named, NUM_EXAMPLES), *["…"] * (len(wanted) > NUM_EXAMPLES)])
        yield f"{counted(len(wanted), 'row')} of the images' table not listed, or without its result: image {examples}"


def _find_differing(images: ListedImages, day: Day, model_id: str) -> np.ndarray:
    """Return the entries of the table's rows that the list lacks, int64 (N,), sorted."""
    sides = (_rows_of_table, _rows_of_list)  # in this order: a row that is added meanwhile is listed
    table, listed = (np.fromiter((_entry(*row) for row in rows(images, day, model_id)), np.int64) for rows in sides)
    return np.setdiff1d(table, listed)


def _entry(image_id: str, location: object, is_predicted: bool | None, is_rejected: bool | None) -> int:
    """Return what tells a row and its results apart from others."""
    key = picture_key(image_id, stored_location(as_location(location)))
    return key & ~3 | bool(is_predicted) | bool(is_rejected) << 1


def _rows_of_table(images: ListedImages, day: Day, model_id: str) -> Iterator[Row]:
    """Yield the rows with an id; a page of them is in memory."""
    results = has_prediction(pictures.c.id, model_id), has_rejection(pictures.c.id, model_id)
    stored = select(pictures.c.image_id, pictures.c.location, *results).where(images.source.own_pictures)
    with (
        images.source.database.read() as connection,
        connection.execution_options(yield_per=PAGE_SIZE).execute(images.source.in_day(connection, day)) as rows,
    ):
        for page in rows.partitions():
            ids = [row[3] for row in page if row[3] is not None and is_utf8(row[3])]
            with images.database.read() as own:
                its = own.execute(stored.where(pictures.c.image_id.in_(ids)).order_by(pictures.c.id))
                known = {(row[0], row[1]): row[2:] for row in its}
            for _, location, _, image_id in page:
                if image_id is not None:
                    key = image_id, stored_location(as_location(location))
                    yield image_id, location, *known.get(key, (False, False))


def _rows_of_list(images: ListedImages, day: Day, model_id: str) -> Iterator[Row]:
    def rows_of(part: Subquery) -> Query:
        has_results = (has(picture_of(part), model_id) for has in (has_prediction, has_rejection))
        return select(part.c[3], part.c[1], *has_results).where(part.c[3].is_not(None))

    return images.stream(day, rows_of)
