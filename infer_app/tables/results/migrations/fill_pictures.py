"""Fill the tables of layout 2 from those of 1: some results at a time, with all that belongs to their image ids."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    FromClause,
    MetaData,
    Table,
    TableClause,
    and_,
    column,
    delete,
    func,
    insert,
    select,
    table,
    true,
    union_all,
)
from sqlalchemy.schema import CreateTable

from infer_app.base.locations import picture_key
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import MAX_ID, Exact
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.schema import OUR_IMAGES, OURS, metadata, pictures, sources
from infer_app.tables.results.sources import numbers_of_pictures, read_sources

RESULTS_AT_ONCE = 5000  # predictions, or rejections, of a part
_RESULTS = ("infer_predictions", "infer_rejections")
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")  # that every column can hold
_FACTS = ("size", "modified", "sha256")
_OF_LISTED = ("added_at", "queued_at", "missing_since")
# The pictures of a part by their image ids, by which the program itself looks for none.
_numbers = Table(
    "infer_numbers",
    MetaData(),
    Column("former_id", Exact(MAX_ID), primary_key=True),
    Column("picture", BigInteger, primary_key=True, autoincrement=False),
    prefixes=["TEMPORARY"],
)


class _Picture(NamedTuple):
    """The identity of a picture. The location of ours is not part of it: their files move."""

    source_id: int
    image_id: str
    location: str


class Filling:
    """Fills the tables `new`, by their names; `old` tells where the table of layout 1 with a name is.

    Values pass as the driver gives them: what a user has written into a column is kept to the letter.
    """

    def __init__(
        self, connection: Connection, old: Callable[[str], str], new: Mapping[str, Table], last_picture: int
    ) -> None:
        self._connection = connection
        self._listed = _plain(old(OUR_IMAGES), "id", "location", *_FACTS, *_OF_LISTED)
        self._new = {name: _plain(one.name, *one.columns.keys()) for name, one in new.items()}
        self._old = {
            name: _plain(old(name), "image_id", "object", *_FACTS, "location", *one.columns.keys())
            for name, one in new.items()
        }
        self._last_listed = self._last_picture = last_picture
        self._last_object = 0
        known = read_sources(connection)
        bases = connection.execute(select(sources.c.id, sources.c.base)).all()
        # The source among whose pictures those of a source are; of runs that have not recorded theirs the first one.
        self._sources = {row.id: min(numbers_of_pictures(connection, known[row.id], row.base)) for row in bases}
        self._default = min(filter(None, self._sources.values()), default=OURS)
        runs = connection.execute(select(_plain("infer_runs", "id", "source_id")))
        self._source_of_run = {row.id: self._sources.get(row.source_id) for row in runs}

    def fill(self, new_id: str) -> Iterator[int]:
        """Yield how many results each part had, once it is copied; `new_id` is for a database without one."""
        backend_of(self._connection).plan_as_written(self._connection)
        self._connection.execute(CreateTable(_numbers, if_not_exists=True))
        start, is_last = None, False
        while not is_last:
            end = self._end_of_part(start)
            yield self._copy_part(start, end)
            start, is_last = end, end is None
        last = self._copy_listed(None)
        while last is not None:
            last = self._copy_listed(last)
        own = self._connection.scalar(select(self._old["infer_database_id"].c.id)) or new_id
        counters = {"last_picture": self._last_picture, "last_object": self._last_object}
        self._connection.execute(insert(self._new["infer_database_id"]).values(id=own, **counters))

    def _end_of_part(self, start: str | None) -> str | None:
        """Return the last image id of the part that begins after one; None for the last part."""
        ends = []
        for its in (self._old[name].c.image_id for name in _RESULTS):
            nth = select(its).where(_is_within(its, start, None)).order_by(its).offset(RESULTS_AT_ONCE).limit(1)
            ends.append(select(nth.subquery()))
        end: str | None = self._connection.scalar(select(func.min(union_all(*ends).subquery().c.image_id)))
        return end

    def _copy_part(self, start: str | None, end: str | None) -> int:
        rows = [(name, row) for name in _RESULTS for row in self._read(self._old[name], start, end)]
        listed = self._read_listed({row.image_id for _, row in rows})
        found = defaultdict[_Picture, list[Any]](list)
        for _, row in rows:
            found[self._picture_of(row, listed)].append(row)
        numbers = self._write_pictures(found, listed)
        counted = Counter(picture.image_id for picture in found)
        several = [image_id for image_id, count in counted.items() if count > 1]
        for name in _RESULTS:
            image_id = self._old[name].c.image_id
            self._copy_results(name, _is_within(image_id, start, end), image_id.not_in(several))
        for name, row in rows:
            if counted[row.image_id] > 1:
                old, number = self._old[name].c, numbers[self._picture_of(row, listed)]
                its = old.image_id == row.image_id, old.model_id == row.model_id
                self._copy_results(name, *its, _numbers.c.picture == number)
        self._copy_objects(start, end)
        return len(rows)

    def _read(self, results: TableClause, start: str | None, end: str | None) -> list[Any]:
        names = ("image_id", "model_id", "run_id", "location", "created_at", *_FACTS)
        wanted = select(*(results.c[name] for name in names)).where(_is_within(results.c.image_id, start, end))
        return list(self._connection.execute(wanted))

    def _read_listed(self, image_ids: Iterable[str]) -> dict[str, Any]:
        """Return the registered images among ids."""
        numbers = map(int, filter(_NUMBER.fullmatch, image_ids))
        wanted = (select(self._listed).where(self._listed.c.id.in_(some)) for some in in_batches(numbers))
        return {str(row.id): row for one in wanted for row in self._connection.execute(one)}

    def _picture_of(self, row: Any, listed: Mapping[str, Any]) -> _Picture:
        source_id = self._source_of_run.get(row.run_id)
        if source_id is None:
            source_id = OURS if row.image_id in listed else self._default
        return _Picture(source_id, row.image_id, "" if source_id == OURS else row.location or "")

    def _write_pictures(self, found: Mapping[_Picture, list[Any]], listed: Mapping[str, Any]) -> dict[_Picture, int]:
        numbers = {picture: self._number_of(picture) for picture in found}
        rows = []
        for picture, results in found.items():
            latest = max(results, key=lambda row: (row.size is not None, row.created_at))
            own = listed.get(picture.image_id) if picture.source_id == OURS else None
            location = latest.location or "" if own is None else own.location
            rows.append(
                {"id": numbers[picture], "source_id": picture.source_id, "image_id": picture.image_id}
                | {"location": location, "key": picture_key("" if own else picture.image_id, location)}
                | {"first_seen": _seconds(min(row.created_at for row in results))}
                | (_facts(results, latest) if own is None else _facts_of_listed(own, latest))
                | {name: own and getattr(own, name) for name in _OF_LISTED}
            )
        self._connection.execute(delete(_numbers))
        if rows:
            self._connection.execute(insert(self._new["infer_pictures"]), rows)
            found_as = [{"former_id": row["image_id"], "picture": row["id"]} for row in rows]
            self._connection.execute(insert(_numbers), found_as)
        return numbers

    def _number_of(self, picture: _Picture) -> int:
        """Return the number that an image was registered with, or a new one."""
        is_ours = picture.source_id == OURS and _NUMBER.fullmatch(picture.image_id)
        if is_ours and (number := int(picture.image_id)) <= self._last_listed:
            return number
        self._last_picture += 1
        return self._last_picture

    def _copy_listed(self, last: int | None) -> int | None:
        """Copy some registered images without a result; return the last one's id, None if there are no more."""
        its, pictures = self._listed, self._new["infer_pictures"]
        left = its.outerjoin(pictures, pictures.c.id == its.c.id)
        after = true() if last is None else its.c.id > last
        wanted = select(its).select_from(left).where(pictures.c.id.is_(None), after).order_by(its.c.id)
        rows = [
            {"source_id": OURS, "image_id": str(row.id), "key": picture_key("", row.location)}
            | {"first_seen": _seconds(row.added_at)}
            | dict(row)
            for row in self._connection.execute(wanted.limit(RESULTS_AT_ONCE)).mappings()
        ]
        if rows:
            self._connection.execute(insert(pictures), rows)
        return rows[-1]["id"] if rows else None

    def _copy_results(self, name: str, *conditions: ColumnElement[bool]) -> None:
        """Copy results to the picture of their image id, of which there is one by the conditions."""
        old = self._old[name]
        joined = old.join(_numbers, _numbers.c.former_id == old.c.image_id)
        self._insert(name, {"picture": _numbers.c.picture}, joined, conditions)

    def _copy_objects(self, start: str | None, end: str | None) -> None:
        """Copy the objects of predictions, then what second networks have predicted for objects that are there."""
        results, new = self._new["infer_predictions"], self._new["infer_objects"]
        old, made = self._old["infer_objects"], self._old["infer_object_predictions"]
        place = func.row_number().over(order_by=[_numbers.c.picture, old.c.model_id, old.c.object])
        own = {"id": self._last_object + place, "picture": _numbers.c.picture}
        within = (_is_within(old.c.image_id, start, end),)
        self._last_object += self._insert("infer_objects", own, _with_result(old, results), within)
        its = new.c.picture == results.c.picture, new.c.model_id == results.c.detector_id, new.c.object == made.c.object
        joined = _with_result(made, results).join(new, and_(*its))
        within = (_is_within(made.c.image_id, start, end),)
        self._insert("infer_object_predictions", {"object_id": new.c.id}, joined, within)

    def _insert(
        self,
        name: str,
        own: Mapping[str, ColumnElement[Any]],
        rows: FromClause,
        conditions: Iterable[ColumnElement[bool]],
    ) -> int:
        """Insert what a table has of its own, and the other columns as they were; return how many rows it were."""
        new, backend = self._new[name], backend_of(self._connection)
        values = [own.get(one.name, self._old[name].c[one.name]) for one in new.columns]
        wanted = backend.join_as_listed(select(*values).select_from(rows).where(*conditions))
        statement = insert(new).from_select(new.columns.keys(), wanted)
        return self._connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount


def former_columns(name: str) -> set[str]:
    """Return the columns that a table of layout 1 may have."""
    own = metadata.tables.get(name, pictures).columns.keys()
    return {"image_id", "object", "location", "location_sha256", *_FACTS, *_OF_LISTED, *own}


def _plain(name: str, *columns: str) -> TableClause:
    return table(name, *map(column, dict.fromkeys(columns)))


def _is_within(image_id: ColumnElement[Any], start: str | None, end: str | None) -> ColumnElement[bool]:
    """Return the condition of an image id after one and up to another; None is no limit."""
    return and_(true() if start is None else image_id > start, true() if end is None else image_id <= end)


def _with_result(old: TableClause, results: TableClause) -> FromClause:
    """Join rows of objects with the numbers of their pictures and the predictions that they belong to."""
    numbered = old.join(_numbers, _numbers.c.former_id == old.c.image_id)
    its = results.c.picture == _numbers.c.picture, results.c.model_id == old.c.model_id
    return numbered.join(results, and_(*its))


def _facts(results: Iterable[Any], latest: Any) -> dict[str, Any]:
    """Return what is known of a file that is not registered, with its checksum if it has changed meanwhile."""
    has_changed = latest.size is not None and any(row.sha256 != latest.sha256 for row in results)
    return {"size": latest.size, "modified": latest.modified, "sha256": latest.sha256 if has_changed else None}


def _facts_of_listed(listed: Any, latest: Any) -> dict[str, Any]:
    """Return what is known of a registered file: what the latest result says, unless the file has changed since."""
    is_same = listed.sha256 in (None, latest.sha256) or (listed.sha256 == "" and listed.size == latest.size)
    if latest.size is None or not is_same:
        return {name: getattr(listed, name) for name in _FACTS}
    sha256 = None if listed.sha256 is None else latest.sha256
    return {"size": latest.size, "modified": latest.modified, "sha256": sha256}


def _seconds(time: object) -> float:
    """Return a time as the driver gives it, as text or not, in seconds since the epoch."""
    return datetime.fromisoformat(str(time)).replace(tzinfo=UTC).timestamp()
