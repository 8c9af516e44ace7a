"""The rows of pictures: a result names the number of the picture that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from infer_app.base.domain import Broken, FileFacts, Prediction
from infer_app.base.locations import stored_location
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.schema import OURS, database_id, pictures, sources
from infer_app.tables.results.sources import OUR_IDENTITY, numbers_of_pictures, read_sources

_FACTS = ("size", "modified", "sha256")  # of a picture's file, as it was last seen
_ALL = [column.name for column in pictures.columns]
_COLUMNS = ("id", "source_id", "image_id", "location", "key", "first_seen", *_FACTS)
_OTHERS = dict.fromkeys(name for name in _ALL if name not in _COLUMNS)
_SELECT = select(*(pictures.c[name] for name in _COLUMNS))


def picture_key(image_id: str, location: str) -> int:
    """Return 64 bits, as a signed integer, that tell the pictures of a source apart: BLAKE2b (RFC 7693) of both.

    `location` is as it is stored. Of our own pictures, whose ids we give, the location alone counts: their id is "".
    """
    digest = blake2b(f"{image_id}\0{location}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def next_numbers(connection: Connection, counter: str, count: int) -> range:
    """Return numbers by `last_picture` or `last_object`, never given before; others wait for the transaction's end."""
    column = database_id.c[counter]
    connection.execute(update(database_id).values({counter: column + count}))
    last: int = connection.execute(select(column)).scalar_one()
    return range(last - count + 1, last + 1)


class PictureRows:
    """The rows of the pictures that a run has results of."""

    def __init__(self, database: Database, source_id: int | None) -> None:
        """Take the number of the run's source in infer_sources; None: its pictures are ours."""
        self._source_id = source_id
        kept = {name: partial(_kept, name) for name in _ALL if name not in _FACTS}
        self._rows = database.backend.bulk_upsert(database.dialect, pictures, kept)
        self._sources: Sequence[int] = ()  # among whose pictures they may be: first that of the run

    def write(self, connection: Connection, results: Iterable[Prediction | Broken]) -> dict[str, int]:
        """Return the numbers of the results' pictures, by image id.

        A picture without a row gets one. Its row has the facts of the file as it was read last.
        """
        self._sources = self._sources or _sources_of(connection, self._source_id)
        wanted = {one.ref.image_id: one for one in results}
        known = self._read(connection, wanted)
        new = list(wanted.keys() - known.keys())
        if new and self._sources[0] != OURS:
            numbers = next_numbers(connection, "last_picture", len(new))
            known |= self._read(connection, {one: wanted[one] for one in new})  # another run may have written some
            rows = [_new_row(wanted[one], number, self._sources[0]) for one, number in zip(new, numbers, strict=True)]
        else:
            rows = [_new_row(wanted[one], int(one), OURS) for one in new]
        rows = [row for row in rows if row["image_id"] not in known]
        rows += [row | _facts(wanted[key].file) for key, row in known.items() if _is_other(row, wanted[key].file)]
        if rows:
            rows.sort(key=itemgetter("id"))  # two runs lock the rows in one order
            self._rows.write(connection, {name: [row[name] for row in rows] for name in _COLUMNS}, _OTHERS)
        return {image_id: row["id"] for image_id, row in known.items()} | {row["image_id"]: row["id"] for row in rows}

    def _read(self, connection: Connection, wanted: Mapping[str, Prediction | Broken]) -> dict[str, dict[str, Any]]:
        """Return the rows of those that have one, by image id; the latest row if two sources came to be one."""
        found = dict[str, dict[str, Any]]()
        for some in in_batches(wanted):
            own = pictures.c.source_id.in_(self._sources), pictures.c.image_id.in_(some)
            for row in connection.execute(_SELECT.where(*own).order_by(pictures.c.id)).mappings():
                is_ours = row["source_id"] == OURS  # which keep their numbers wherever they move
                if is_ours or row["location"] == stored_location(wanted[row["image_id"]].ref.location):
                    found[row["image_id"]] = dict(row)
        return found


def _sources_of(connection: Connection, source_id: int | None) -> Sequence[int]:
    """Return the sources among whose pictures those of a source are, first the one that new ones belong to."""
    if source_id is None or (own := read_sources(connection).get(source_id)) == OUR_IDENTITY:
        return [OURS]
    if own is None:  # what a dry run records is rolled back
        return [source_id]
    base = connection.scalar(select(sources.c.base).where(sources.c.id == source_id))
    return numbers_of_pictures(connection, own, base)


def _new_row(result: Prediction | Broken, number: int, source_id: int) -> dict[str, Any]:
    image_id, location = result.ref.image_id, stored_location(result.ref.location)
    row = {"id": number, "source_id": source_id, "image_id": image_id, "location": location}
    row |= {"key": picture_key("" if source_id == OURS else image_id, location)}
    return row | {"first_seen": datetime.now(UTC).replace(tzinfo=None)} | _facts(result.file)


def _facts(file: FileFacts) -> dict[str, Any]:
    return {name: getattr(file, name) for name in _FACTS}


def _is_other(row: Mapping[str, Any], file: FileFacts) -> bool:
    """Return whether a file that was read differs from that of its picture's row."""
    if file.size is None:
        return False
    is_same = (row["size"], row["modified"]) == (file.size, file.modified)
    return not is_same or row["sha256"] not in (None, file.sha256)


def _kept(name: str, _: object) -> ColumnElement[Any]:
    return pictures.c[name]
