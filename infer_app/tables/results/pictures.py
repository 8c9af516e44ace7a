"""The rows of pictures: a result names the number of the picture that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, select, update

from infer_app.base.domain import Broken, FileFacts, Prediction
from infer_app.base.locations import stored_location
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.schema import OURS, database_id, pictures, sources
from infer_app.tables.results.sources import OUR_IDENTITY, numbers_of_pictures, read_sources

_FACTS = ("size", "modified", "sha256")  # of a picture's file, as it was last seen
_COLUMNS = ("id", "source_id", "image_id", "location", "key", *_FACTS)
_OTHERS = [column.name for column in pictures.columns if column.name not in _COLUMNS]
# Built once: building it takes longer than reading the rows.
_SELECT = select(*(pictures.c[name] for name in _COLUMNS)).where(
    pictures.c.image_id.in_(bindparam("ids", expanding=True)),
    pictures.c.source_id.in_(bindparam("sources", expanding=True)),
)

_Row: TypeAlias = tuple[Any, ...]  # as _COLUMNS has it


def picture_key(image_id: str, location: str) -> int:
    """Return 64 bits, as a signed integer, that tell the pictures of a source apart: BLAKE2b (RFC 7693) of both.

    `location` is as it is stored. Of our own pictures, whose ids we give, the location alone counts: their id is "".
    """
    digest = blake2b(f"{image_id}\0{location}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def next_numbers(connection: Connection, counter: str, count: int) -> range:
    """Return numbers by `last_picture` or `last_object`, never given before; others wait for the transaction's end."""
    connection.execute(_GIVE[counter], {"count": count})
    last: int = connection.execute(_LAST[counter]).scalar_one()
    return range(last - count + 1, last + 1)


_COUNTERS = ("last_picture", "last_object")
_GIVE = {
    name: update(database_id).values({name: database_id.c[name] + bindparam("count", type_=BigInteger)})
    for name in _COUNTERS
}
_LAST = {name: select(database_id.c[name]) for name in _COUNTERS}


def last_numbers(connection: Connection) -> tuple[int, int]:
    """Return the last numbers that were given to a picture and to an object."""
    last = connection.execute(select(database_id.c.last_picture, database_id.c.last_object)).one()
    return last.last_picture, last.last_object


def raise_numbers(connection: Connection, numbers: Sequence[int]) -> None:
    """Give only numbers above these, of a picture and an object, which were given before a backup was restored."""
    for name, number in zip(_COUNTERS, numbers, strict=False):
        column = database_id.c[name]
        connection.execute(update(database_id).where(column < number).values({name: number}))


class PictureRows:
    """The rows of the pictures that a run has results of."""

    def __init__(self, database: Database, source_id: int | None) -> None:
        """Take the number of the run's source in infer_sources; None: its pictures are ours."""
        self._source_id = source_id
        kept = {name: partial(_kept, name) for name in (*_COLUMNS, *_OTHERS) if name not in _FACTS}
        self._rows = database.backend.bulk_upsert(database.dialect, pictures, kept)
        self._sources: Sequence[int] = ()  # among whose pictures they may be: first that of the run

    def write(self, connection: Connection, results: Iterable[Prediction | Broken]) -> dict[str, int]:
        """Return the numbers of the results' pictures, by image id.

        A picture without a row gets one. Its row has the facts of the file as it was read last.
        """
        self._sources = self._sources or _sources_of(connection, self._source_id)
        wanted = {one.ref.image_id: one for one in results}
        known = self._read(connection, wanted)
        new = [one for image_id, one in wanted.items() if image_id not in known]
        if new and self._sources[0] != OURS:
            numbers: Iterable[int] = next_numbers(connection, "last_picture", len(new))
            self._sources = _sources_of(connection, self._source_id)
            known |= self._read(connection, {one.ref.image_id: one for one in new})  # another run may have written some
            new = [one for one in new if one.ref.image_id not in known]
        else:
            numbers = [int(one.ref.image_id) for one in new]
        rows = [_new_row(one, number, self._sources[0]) for one, number in zip(new, numbers, strict=False)]
        rows += [row for image_id, known_row in known.items() if (row := _updated(known_row, wanted[image_id].file))]
        if rows:
            rows.sort()  # by their numbers: two runs lock them in one order
            shared = dict.fromkeys(_OTHERS) | {"first_seen": datetime.now(UTC).replace(tzinfo=None)}
            self._rows.write(connection, dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True)), shared)
        return {image_id: row[0] for image_id, row in known.items()} | {row[2]: row[0] for row in rows}

    def _read(self, connection: Connection, wanted: Mapping[str, Prediction | Broken]) -> dict[str, _Row]:
        """Return the rows of those that have one, by image id; the latest row if two sources came to be one."""
        found = dict[str, _Row]()
        for some in in_batches(wanted):
            for row in connection.execute(_SELECT, {"ids": some, "sources": self._sources}):
                number, source_id, image_id, location = row[:4]
                listed = wanted[image_id].ref.location
                # Ours keep their numbers wherever they move.
                is_it = source_id == OURS or location in (listed, stored_location(listed))
                if is_it and (image_id not in found or found[image_id][0] < number):
                    found[image_id] = tuple(row)
        return found


def _sources_of(connection: Connection, source_id: int | None) -> Sequence[int]:
    """Return the sources among whose pictures those of a source are, first the one that new ones belong to."""
    if source_id is None or (own := read_sources(connection).get(source_id)) == OUR_IDENTITY:
        return [OURS]
    if own is None:  # what a dry run records is rolled back
        return [source_id]
    base = connection.scalar(select(sources.c.base).where(sources.c.id == source_id))
    return numbers_of_pictures(connection, own, base)


def _new_row(result: Prediction | Broken, number: int, source_id: int) -> _Row:
    """Return the row of a picture that is new: its checksum is stored once its file has changed."""
    image_id, location, file = result.ref.image_id, stored_location(result.ref.location), result.file
    key = picture_key("" if source_id == OURS else image_id, location)
    return number, source_id, image_id, location, key, file.size, file.modified, None


def _updated(row: _Row, file: FileFacts) -> _Row | None:
    """Return a picture's row with the facts of a file that was read, if they are others."""
    *_, size, modified, sha256 = row
    is_same = (size, modified) == (file.size, file.modified) and sha256 in (None, file.sha256)
    return None if is_same or file.size is None else (*row[: -len(_FACTS)], file.size, file.modified, file.sha256)


def _kept(name: str, _: object) -> ColumnElement[Any]:
    return pictures.c[name]
