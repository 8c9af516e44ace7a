"""Deletes for good what `infer forget` names: results of models, of pictures that are gone, of days before a date.

None of it is predicted again by itself: a version that was not in use counts on no day, a picture that is gone is not
listed, and images of days before the date belong to no day any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    case,
    delete,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    true,
    update,
)

from infer_app.base.day import Day
from infer_app.base.errors import UsageError
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.forget_results import delete_results
from infer_app.tables.listing.listed_rows import find_sorted
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.results.conditions import is_up_to_date, join_results
from infer_app.tables.results.events import dissolve_events, free_copies
from infer_app.tables.results.runs import refuse_during_runs
from infer_app.tables.results.schema import models, object_predictions, objects, pictures, predictions, rejections

_TABLES = (predictions, rejections)
AT_ONCE = 500  # images whose results one transaction deletes


class StoredResult(NamedTuple):
    """Holds the key of a prediction with the number of its objects, or of a rejection."""

    picture: int
    model_id: str
    num_objects: int | None  # of a detector
    is_rejection: bool = False
    is_made: bool = False  # by a second network, of a detector's objects


class Forgettable(NamedTuple):
    """Holds some results and the rows of infer_pictures that go with them."""

    results: Sequence[StoredResult]
    pictures: Sequence[int] = ()
    is_registered: bool = False  # the pictures are registered here, and go with the results


@dataclass
class ForgettableCounts:
    """Counts what there is to forget."""

    predictions: int = 0
    objects: int = 0
    rejections: int = 0
    images: int = 0  # that are registered
    of_second_networks: int = 0  # of the predictions and rejections
    pages: int = 0  # reports of days

    @property
    def num_results(self) -> int:
        return self.predictions + self.rejections

    @classmethod
    def of(cls, parts: Iterable[Forgettable]) -> ForgettableCounts:
        found = cls()
        for results, numbers, is_registered in parts:
            found.rejections += sum(one.is_rejection for one in results)
            found.predictions += sum(not one.is_rejection for one in results)
            found.objects += sum(one.num_objects or 0 for one in results)
            found.images += len(numbers) if is_registered else 0
            found.of_second_networks += sum(one.is_made for one in results)
        return found


def of_versions(database: Database, model_ids: Iterable[str], at_once: int = AT_ONCE) -> Iterator[Forgettable]:
    """Yield the results of versions, and before those of a detector what is made of its objects."""
    for model_id in sorted(model_ids):
        yield from _every_result(database, "detector_id", model_id, at_once)
        yield from _every_result(database, "model_id", model_id, at_once)


def of_missing(
    database: Database,
    source: Source,
    are_gone: Callable[[Sequence[str]], Sequence[bool]],
    gone_before: datetime | None = None,
) -> Iterator[Forgettable]:
    """Yield the images whose file is gone, with their results.

    Of our own table they are those that walks have not found, and that `are_gone` says are gone, by their locations. Of
    the user's they are those that it does not list; with `gone_before` (naive UTC) those that a run had missed then.
    """
    if source.table is None:
        return _missing_files(source, are_gone)
    is_gone = [] if gone_before is None else [pictures.c.unlisted_since < gone_before]
    return _not_listed(database, source.table, [source.own_pictures, *is_gone])


def _not_listed(
    database: Database, table: UserTable, conditions: Sequence[ColumnElement[bool]]
) -> Iterator[Forgettable]:
    listed = _keys_of(table)
    with database.read() as connection:
        versions = connection.execute(select(models.c.id, models.c.manifest)).all()
    # Second networks first: their results are deleted with those of their detector.
    for _, model_id in sorted({(not manifest.get("crop"), one) for one, manifest in versions}):
        for results, *_ in _every_result(database, "model_id", model_id):
            gone = _gone_among(database, listed, pictures.c.id.in_({one.picture for one in results}), *conditions)
            yield Forgettable([one for one in results if one.picture in gone], sorted(gone))
    unlisted = select(pictures.c.id).where(pictures.c.unlisted_since.is_not(None), *conditions)
    numbers = database.ask(lambda connection: connection.scalars(unlisted).all())
    for first in range(0, len(numbers), AT_ONCE):  # some of them never had a result
        yield Forgettable(
            [], sorted(_gone_among(database, listed, pictures.c.id.in_(numbers[first : first + AT_ONCE])))
        )


def _gone_among(database: Database, listed: np.ndarray, *conditions: ColumnElement[bool]) -> set[int]:
    """Return those of some pictures that have no row among the keys of the user's table."""
    its = select(pictures.c.id, pictures.c.key).where(*conditions)
    rows = database.ask(lambda connection: connection.execute(its).all())
    _, is_known = find_sorted(listed, [row.key for row in rows])
    return {row.id for row, known in zip(rows, is_known, strict=True) if not known}


def _missing_files(source: Source, are_gone: Callable[[Sequence[str]], Sequence[bool]]) -> Iterator[Forgettable]:
    database, last, is_missing = source.database, 0, pictures.c.missing_since.is_not(None)
    while True:
        missing = select(pictures.c.id, pictures.c.location).where(is_missing, pictures.c.id > last)
        with database.read() as connection:
            rows = connection.execute(missing.order_by(pictures.c.id).limit(AT_ONCE)).all()
        if not rows:
            return
        last = rows[-1].id
        gone = [row.id for row, is_gone in zip(rows, are_gone([row.location for row in rows]), strict=True) if is_gone]
        with database.read() as connection:
            results = [
                one for table in _TABLES for one in _read(connection, _keys(table).where(table.c.picture.in_(gone)))
            ]
        # With no read open: beside one, a file with a rollback journal is not written.
        yield Forgettable(results, gone, is_registered=True)


def of_days_before(database: Database, source: Source, day: Day, at_once: int = AT_ONCE) -> Iterator[Forgettable]:
    """Yield the results of the images that the source lists before a day."""
    for page in source.list_pages_before(day, at_once):
        with database.read() as connection:
            backend_of(connection).plan_for_pages(connection)
            listed = source.images_in(page, day)
            both = ((table, join_results(listed, table)) for table in _TABLES)
            results = [one for table, joined in both for one in _read(connection, _keys(table).select_from(joined))]
        yield Forgettable(results)


def forget(database: Database, parts: Iterable[Forgettable], told: ForgettableCounts) -> ForgettableCounts:
    """Delete what is given, each part in a transaction of its own, and return how much it was.

    It can be repeated after it was interrupted. Raises DayHeld while a run is active, and UsageError before more is
    deleted than was told, as when a table was emptied meanwhile.
    """

    def delete_each() -> Iterator[Forgettable]:
        left = told.num_results
        for part in parts:
            left -= len(part.results)
            if left < 0:
                raise UsageError("more is to be forgotten by now than was told", "repeat the command")
            yield database.transact(partial(_delete, part=part))

    return ForgettableCounts.of(delete_each())


def forget_versions(connection: Connection, model_ids: Sequence[str]) -> None:
    """Record that versions were never in use, so that they count on no day.

    Raises DayHeld while a run is active, and UsageError for a version that was put in use meanwhile.
    """
    refuse_during_runs(connection)
    its = models.c.id.in_(model_ids)
    if name := connection.scalar(select(models.c.name).where(its, models.c.in_use_since.is_not(None)).limit(1)):
        raise UsageError(f"a version of {name} was put in use meanwhile", "nothing was deleted")
    connection.execute(update(models).where(its).values(used_until=null()))


def read_rows(database: Database, part: Forgettable) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all rows that go with a part, each with the name of its table."""
    numbers = {model_id: list[int]() for model_id in sorted({one.model_id for one in part.results})}
    for one in part.results:
        numbers[one.model_id].append(one.picture)
    wanted: list[tuple[str, Query]] = []
    of_pictures = select(pictures).where(pictures.c.id.in_({*part.pictures, *(one.picture for one in part.results)}))
    for model_id, some in numbers.items():
        wanted += [
            (table.name, select(table).where(table.c.model_id == model_id, table.c.picture.in_(some)))
            for table in (predictions, objects, rejections)
        ]
        made = object_predictions.join(objects, objects.c.id == object_predictions.c.object_id)
        own = object_predictions.c.model_id == model_id, objects.c.picture.in_(some)
        wanted.append((object_predictions.name, select(object_predictions).select_from(made).where(*own)))
    with database.read() as connection:
        for name, rows in ((pictures.name, of_pictures), *wanted):
            for row in connection.execute(rows).all():
                yield name, dict(row._mapping)


def count_results(database: Database, source: Source | None) -> int:
    """Count the predictions and rejections: of all pictures, or of those of the kind that the source lists."""
    num_results = 0
    with database.read() as connection:
        for table in _TABLES:
            rows = select(func.count()).select_from(table)
            if source is not None:
                rows = rows.join(pictures, pictures.c.id == table.c.picture).where(source.own_pictures)
            num_results += connection.scalar(rows) or 0
    return num_results


def count_only_these(database: Database, model_ids: Iterable[str], in_use: Sequence[str]) -> int:
    """Count the images that these versions have results of, and no version in use."""
    num_images = 0
    for results, *_ in (part for one in model_ids for part in _every_result(database, "model_id", one)):
        ids = {one.picture for one in results}
        with database.read() as connection:
            for table in _TABLES:
                others = table.c.picture.in_(ids), table.c.model_id.in_(in_use), is_up_to_date(table)
                ids = ids.difference(connection.scalars(select(table.c.picture).where(*others)))
        num_images += len(ids)
    return num_images


def _delete(connection: Connection, part: Forgettable) -> Forgettable:
    """Delete what is given without what is no longer missing, and return it."""
    refuse_during_runs(connection)
    part = _without_returned(connection, part)
    for model_id in sorted({one.model_id for one in part.results}):
        delete_results(connection, [one.picture for one in part.results if one.model_id == model_id], model_id)
    free_copies(connection, {one.picture for one in part.results})
    has_result = or_(*(exists().where(table.c.picture == pictures.c.id) for table in _TABLES))
    if part.pictures:
        unused = true() if part.is_registered else ~has_result
        its = pictures.c.id.in_(part.pictures), unused
        dissolve_events(connection, connection.scalars(select(pictures.c.id).where(*its)).all())
        connection.execute(delete(pictures).where(*its))
    return part


def _without_returned(connection: Connection, part: Forgettable) -> Forgettable:
    """Return the part without images whose files a walk has found since; the others stay missing until the commit."""
    if not part.is_registered:
        return part
    known = select(pictures.c.id, pictures.c.missing_since).where(pictures.c.id.in_(part.pictures))
    rows = connection.execute(known.order_by(pictures.c.id).with_for_update())
    back = {row_id for row_id, since in rows if since is None}
    results = [one for one in part.results if one.picture not in back]
    return part._replace(results=results, pictures=[number for number in part.pictures if number not in back])


def _every_result(database: Database, column: str, model_id: str, at_once: int = AT_ONCE) -> Iterator[Forgettable]:
    """Yield pages of the results that name a version in a column."""
    for table in _TABLES:
        key, wanted = (table.c.picture, table.c.model_id), _keys(table).where(table.c[column] == model_id)
        last = StoredResult(0, "", None)
        while True:
            is_later = key[0] >= last.picture, or_(key[0] > last.picture, key[1] > last.model_id)
            page = wanted.where(*is_later).order_by(*key).limit(at_once)
            with database.read() as connection:
                backend_of(connection).plan_for_pages(connection)
                results = _read(connection, page)
            if not results:
                break
            last = results[-1]
            yield Forgettable(results)


def _keys(table: Table) -> Query:
    is_rejection, is_made = table is rejections, table.c.detector_id.is_not(None)
    num_objects = null() if is_rejection else case((~is_made, predictions.c.num_objects))
    return select(table.c.picture, table.c.model_id, num_objects, literal(is_rejection), is_made)


def _read(connection: Connection, keys: Query) -> list[StoredResult]:
    return [StoredResult(*row) for row in connection.execute(keys)]


def _keys_of(table: UserTable) -> np.ndarray:
    """Return the sorted keys of all rows of the user's table, int64 (N,): in little memory, never too few."""

    def read(connection: Connection) -> np.ndarray:
        return np.sort(np.fromiter((row.key for row in table.read_all(connection)), np.int64))

    return table.database.ask(read)
