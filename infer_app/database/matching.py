"""Whether our tables have results of an image, as conditions on its id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from infer_app.database.schema import predictions, rejections
from infer_app.records import MAX_ATTEMPTS, TRANSIENT_REASONS, Reason


def new_among(listed: Select[Any], image_id: ColumnElement[str], model_ids: Sequence[str]) -> Select[Any]:
    """Of the listed images those that are new for at least one model; for each of several a column says so."""
    new = [is_new(image_id, model_id) for model_id in model_ids]
    wanted = listed.where(or_(*new))
    if len(new) == 1:
        return wanted
    return wanted.add_columns(*(one.label(f"infer_new_{place}") for place, one in enumerate(new)))


def is_new(image_id: ColumnElement[str], model_id: str) -> ColumnElement[bool]:
    """By two searches for each image. A planner may turn NOT EXISTS into reading all results, once for each page; a
    scalar it can't."""
    one: ColumnElement[int] = literal_column("1")
    predicted = select(one).where(predictions.c.image_id == image_id, predictions.c.model_id == model_id)
    rejected = select(one).where(rejections.c.image_id == image_id, rejections.c.model_id == model_id, stands())
    return and_(predicted.scalar_subquery().is_(None), rejected.scalar_subquery().is_(None))


def has_prediction(image_id: ColumnElement[str], model_id: str) -> ColumnElement[bool]:
    return exists().where(predictions.c.image_id == image_id, predictions.c.model_id == model_id)


def has_rejection(image_id: ColumnElement[str], model_id: str) -> ColumnElement[bool]:
    return exists().where(rejections.c.image_id == image_id, rejections.c.model_id == model_id)


def stands() -> ColumnElement[bool]:
    """Whether a rejection keeps its image from being tried again by the next run that covers its day."""
    transient = rejections.c.reason.in_(sorted(TRANSIENT_REASONS))
    tired = and_(rejections.c.reason != Reason.NOT_FOUND, rejections.c.attempts >= MAX_ATTEMPTS)
    return or_(~transient, tired)


def count_rows(connection: Connection, rows: FromClause, *conditions: ColumnElement[bool]) -> int:
    return connection.scalar(select(func.count()).select_from(rows).where(*conditions)) or 0


def count_each(connection: Connection, rows: FromClause, conditions: Sequence[ColumnElement[bool]]) -> list[int]:
    """How many rows meet each condition, counted in one go."""
    sums = [func.sum(case((condition, 1), else_=0)) for condition in conditions]
    counts = connection.execute(select(*sums).select_from(rows)).one()
    return [int(count or 0) for count in counts]  # MariaDB's sums are decimals


def added_up(counts: Iterable[Sequence[int]]) -> list[int]:
    """The sum of each place, over parts that are at least one."""
    return [sum(of_one) for of_one in zip(*counts, strict=True)]
