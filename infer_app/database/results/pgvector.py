"""Conversion of the columns of vectors to pgvector's type, by which PostgreSQL can search for neighbours, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, text

from infer_app.database.engine.column_types import to_bytes, to_text
from infer_app.database.engine.connect import Database
from infer_app.database.results.runs import RunStore
from infer_app.database.results.views import definitions
from infer_app.errors import DayHeld, UsageError

Storage = Literal["bytes", "pgvector"]
BATCH = 500  # vectors in memory while they are converted


@dataclass(frozen=True, slots=True)
class _Vectors:
    """A table with a column of vectors."""

    table: str
    key: Mapping[str, str]  # its columns with their types
    start: tuple[str | int, ...]  # before all keys

    @property
    def names(self) -> str:
        return ", ".join(self.key)


_OF_IMAGE = {"image_id": "text", "model_id": "text"}
_ALL_VECTORS = (
    _Vectors("infer_predictions", _OF_IMAGE, ("", "")),
    _Vectors("infer_object_predictions", _OF_IMAGE | {"object": "integer"}, ("", "", -1)),
)


def store_vectors(database: Database, storage: Storage) -> int:
    """Convert the columns of vectors to bytes or to pgvector's type, and return how many vectors were converted.

    Raises UsageError if the extension doesn't exist, and DayHeld while a run is active.
    """
    if storage == "pgvector" and not database.backend.has_pgvector:
        raise UsageError("only PostgreSQL has pgvector", "other databases keep vectors as bytes")
    with database.write() as connection:
        now = database.backend.vector_type(connection)
        if (storage == "pgvector") == (now is not None):
            return 0
        type_name = "bytea" if storage == "bytes" else _extension_type(connection)
        # No run can start during the conversion: it would write vectors of the other type.
        connection.execute(text("LOCK TABLE infer_runs IN EXCLUSIVE MODE"))
        if RunStore(database).living_runs():
            raise DayHeld("a run is active, which writes vectors of the current type", "wait for it to end")
        with database.backend.without_views(connection, definitions(connection)):
            return sum(_convert(connection, one, storage, type_name) for one in _ALL_VECTORS)


def _extension_type(connection: Connection) -> str:
    found = text(
        "SELECT format_type(t.oid, NULL) FROM pg_extension e JOIN pg_depend d ON d.refobjid = e.oid"
        " JOIN pg_type t ON t.oid = d.objid WHERE e.extname = 'vector' AND t.typname = 'vector'"
    )
    name: str | None = connection.scalar(found)
    if name is None:
        raise UsageError(
            "this database has no extension pgvector",
            "install pgvector on the server, and run CREATE EXTENSION vector; in the database by a role that may",
        )
    return name


def _convert(connection: Connection, one: _Vectors, storage: Storage, type_name: str) -> int:
    """Copy the vectors into a column of the other type, which takes the place of theirs."""
    connection.exec_driver_sql(f"ALTER TABLE {one.table} ADD COLUMN converted {type_name}")
    converted = 0
    last: Sequence[str | int] = one.start
    while page := _read_after(connection, one, last):
        _write(connection, one, page, storage, type_name)
        converted += len(page)
        last = page[-1][: len(one.key)]
    connection.exec_driver_sql(f"ALTER TABLE {one.table} DROP COLUMN vector")
    connection.exec_driver_sql(f"ALTER TABLE {one.table} RENAME COLUMN converted TO vector")
    return converted


def _read_after(connection: Connection, one: _Vectors, last: Sequence[str | int]) -> Sequence[Any]:
    given = ", ".join(f":{name}" for name in one.key)
    wanted = text(
        f"SELECT {one.names}, vector, vector_dtype FROM {one.table}"
        f" WHERE vector IS NOT NULL AND ({one.names}) > ({given}) ORDER BY {one.names} LIMIT :batch"
    )
    return connection.execute(wanted, dict(zip(one.key, last, strict=True)) | {"batch": BATCH}).all()


def _write(connection: Connection, one: _Vectors, page: Sequence[Any], storage: Storage, type_name: str) -> None:
    lists = {name: [row[place] for row in page] for place, name in enumerate(one.key)}
    lists["vector"] = [_converted(row, storage) for row in page]
    elements = ", ".join(f"json_array_elements_text(CAST(:{name} AS json))" for name in lists)
    value = "decode(given.vector, 'hex')" if storage == "bytes" else f"CAST(given.vector AS {type_name})"
    is_same = " AND ".join(f"p.{name} = CAST(given.{name} AS {kind})" for name, kind in one.key.items())
    update = text(
        f"UPDATE {one.table} AS p SET converted = {value}, vector_dtype = 'float32'"
        f" FROM ROWS FROM ({elements}) AS given ({', '.join(lists)}) WHERE {is_same}"
    )
    connection.execute(update, {name: json.dumps(values) for name, values in lists.items()})


def _converted(row: Any, storage: Storage) -> str | None:
    return to_bytes(row.vector).hex() if storage == "bytes" else to_text(bytes(row.vector), row.vector_dtype)
