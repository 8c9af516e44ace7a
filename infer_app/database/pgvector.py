"""Turns the column of vectors into pgvector's type, by which PostgreSQL can search for what is near, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, text

from infer_app.database.connect import Database
from infer_app.database.ledger import Ledger
from infer_app.database.vectors import to_bytes, to_text, vector_type
from infer_app.errors import DayHeld, UsageError

Storage = Literal["bytes", "pgvector"]
BATCH = 500  # vectors in memory while they are converted
_VIEW = "infer_current_predictions"


def store_vectors(database: Database, storage: Storage) -> int:
    """Makes the column of vectors hold bytes or pgvector's type, and returns how many were converted.

    Raises UsageError where the extension is not there, DayHeld while a run is at work.
    """
    if storage == "pgvector" and database.dialect.name != "postgresql":
        raise UsageError("only PostgreSQL has pgvector", "other databases keep vectors as bytes")
    with database.write() as connection:
        now = vector_type(connection)
        if (storage == "pgvector") == (now is not None):
            return 0
        type_name = "bytea" if storage == "bytes" else _extension_type(connection)
        # No run can begin until this is done: it would write vectors of the other type.
        connection.execute(text("LOCK TABLE infer_runs IN EXCLUSIVE MODE"))
        if Ledger(database).living_runs():
            raise DayHeld("a run is at work, which writes vectors as they are now", "wait for it to end")
        return _convert(connection, storage, type_name)


def _extension_type(connection: Connection) -> str:
    found = text(
        "SELECT format_type(t.oid, NULL) FROM pg_extension e JOIN pg_depend d ON d.refobjid = e.oid"
        " JOIN pg_type t ON t.oid = d.objid WHERE e.extname = 'vector' AND t.typname = 'vector'"
    )
    name: str | None = connection.scalar(found)
    if name is None:
        raise UsageError(
            "this database has no extension pgvector",
            "CREATE EXTENSION vector; in it, by a role that may, where the server has pgvector installed",
        )
    return name


def _convert(connection: Connection, storage: Storage, type_name: str) -> int:
    """The view names the column, so it is made again; who may read it is then for its owner to say again."""
    definition = connection.scalar(text(f"SELECT pg_get_viewdef('{_VIEW}'::regclass)"))
    connection.exec_driver_sql(f"ALTER TABLE infer_predictions ADD COLUMN converted {type_name}")
    converted = 0
    last = ("", "")
    while page := _read_after(connection, last):
        _write(connection, page, storage, type_name)
        converted += len(page)
        last = (page[-1].image_id, page[-1].model_id)
    for statement in (
        f"DROP VIEW {_VIEW}",
        "ALTER TABLE infer_predictions DROP COLUMN vector",
        "ALTER TABLE infer_predictions RENAME COLUMN converted TO vector",
        f"CREATE VIEW {_VIEW} AS {definition}",
    ):
        connection.exec_driver_sql(statement.replace("%", "%%"))
    return converted


def _read_after(connection: Connection, key: tuple[str, str]) -> Sequence[Any]:
    wanted = text(
        "SELECT image_id, model_id, vector, vector_dtype FROM infer_predictions"
        " WHERE vector IS NOT NULL AND (image_id, model_id) > (:image_id, :model_id)"
        " ORDER BY image_id, model_id LIMIT :batch"
    )
    return connection.execute(wanted, {"image_id": key[0], "model_id": key[1], "batch": BATCH}).all()


def _write(connection: Connection, page: Sequence[Any], storage: Storage, type_name: str) -> None:
    lists = {
        "image_ids": [row.image_id for row in page],
        "model_ids": [row.model_id for row in page],
        "vectors": [_converted(row, storage) for row in page],
    }
    elements = ", ".join(f"json_array_elements_text(CAST(:{name} AS json))" for name in lists)
    value = "decode(given.vector, 'hex')" if storage == "bytes" else f"CAST(given.vector AS {type_name})"
    update = text(
        f"UPDATE infer_predictions AS p SET converted = {value}, vector_dtype = 'float32'"
        f" FROM ROWS FROM ({elements}) AS given (image_id, model_id, vector)"
        " WHERE p.image_id = given.image_id AND p.model_id = given.model_id"
    )
    connection.execute(update, {name: json.dumps(values) for name, values in lists.items()})


def _converted(row: Any, storage: Storage) -> str | None:
    return to_bytes(row.vector).hex() if storage == "bytes" else to_text(bytes(row.vector), row.vector_dtype)
