"""What the rows of a day must be, whoever died while they were written; each check counts those that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, Table, func, inspect, or_, select

from infer_app.database.schema import predictions, rejections, runs
from infer_app.database.source import Source
from infer_app.day import Day
from infer_app.records import Reason

# Reasons that are found in the bytes of a file, which therefore were read.
READ_REASONS = (Reason.UNSUPPORTED_FORMAT, Reason.TRUNCATED, Reason.CORRUPT, Reason.NON_FINITE_OUTPUT)


@dataclass(frozen=True, slots=True)
class Scope:
    """One model's rows of one day."""

    connection: Connection
    source: Source
    day: Day
    model_id: str

    def images(self) -> Select[Any]:
        return self.source.in_day(self.connection, self.day)

    def rows_of(self, table: Table, *columns: Any) -> Select[Any]:
        """Of `table` those of the day's images."""
        images = self.images().subquery()
        joined = images.join(table, table.c.image_id == images.c[3])
        return select(*columns or (table.c.image_id,)).select_from(joined).where(table.c.model_id == self.model_id)

    def runs(self) -> Select[Any]:
        return select(runs.c.id).where(runs.c.day == self.day.date, runs.c.model_id == self.model_id)


def with_both(scope: Scope) -> Select[Any]:
    source, model_id = scope.source, scope.model_id
    return scope.images().where(source.has_prediction(model_id), source.has_rejection(model_id))


def with_unknown_reason(scope: Scope) -> Select[Any]:
    return scope.rows_of(rejections).where(rejections.c.reason.not_in([reason.value for reason in Reason]))


def without_facts(scope: Scope) -> Select[Any]:
    lacks = or_(rejections.c.size.is_(None), rejections.c.sha256.is_(None))
    return scope.rows_of(rejections).where(rejections.c.reason.in_([reason.value for reason in READ_REASONS]), lacks)


def without_run(table: Table, scope: Scope) -> Select[Any]:
    return scope.rows_of(table).where(table.c.run_id.not_in(select(runs.c.id)))


def runs_that_do_not_add_up(scope: Scope) -> Select[Any]:
    return scope.runs().where(runs.c.selected != runs.c.predicted + runs.c.rejected)


def runs_that_end_without_a_code(scope: Scope) -> Select[Any]:
    return scope.runs().where(runs.c.state == "done", or_(runs.c.exit_code.is_(None), runs.c.ended_at.is_(None)))


def runs_that_counted_too_few(scope: Scope) -> Select[Any]:
    """A row may be overwritten or deleted later, but none is written that its run didn't count."""
    return scope.runs().where(
        or_(
            runs.c.predicted < _rows_by(scope, predictions),
            runs.c.rejected < _rows_by(scope, rejections),
        )
    )


def _rows_by(scope: Scope, table: Table) -> Any:
    counted = scope.rows_of(table, table.c.run_id, func.count().label("rows")).group_by(table.c.run_id).subquery()
    return func.coalesce(select(counted.c[1]).where(counted.c[0] == runs.c.id).scalar_subquery(), 0)


CHECKS: dict[str, Callable[[Scope], Select[Any]]] = {
    "images have a prediction and a rejection": with_both,
    "rejections have a reason outside the list": with_unknown_reason,
    "rejections lack the size or checksum of the file": without_facts,
    "predictions name a run that is not in infer_runs": partial(without_run, predictions),
    "rejections name a run that is not in infer_runs": partial(without_run, rejections),
    "runs selected other than they predicted and rejected": runs_that_do_not_add_up,
    "runs are done and have no exit code or end": runs_that_end_without_a_code,
    "runs wrote more rows than they counted": runs_that_counted_too_few,
}


def count_rows(connection: Connection, statement: Select[Any]) -> int:
    return connection.scalar(select(func.count()).select_from(statement.subquery())) or 0


def audit(connection: Connection, source: Source, day: Day, model_id: str) -> Iterator[str]:
    """What is wrong with the day's rows, in words. Nothing is repaired."""
    for table in (predictions, rejections):
        key = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
        if set(key) != {column.name for column in table.primary_key}:
            yield f"{table.name} has lost its primary key: an image may have two rows of one model"
    scope = Scope(connection, source, day, model_id)
    for words, find in CHECKS.items():
        if count := count_rows(connection, find(scope)):
            yield f"{count:,} {words}"
