"""Conversion of the column of vectors to pgvector's type, with which PostgreSQL can search for neighbours, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, text

from infer_app.database.engine.column_types import to_bytes
from infer_app.database.engine.connect import Database
from infer_app.database.results.runs import RunStore
from infer_app.database.results.vectors import to_text
from infer_app.errors import DayHeld, UsageError

Storage = Literal["bytes", "pgvector"]
BATCH = 500  # vectors in memory while they are converted
_VIEW = "infer_current_predictions"
# Returns statements that copy owner, options and grants of the old view and column of vectors to the new ones.
_RIGHTS = f"""
SELECT statement FROM (
    SELECT 0 AS place, format('ALTER VIEW {_VIEW} SET (%s)', array_to_string(reloptions, ', ')) AS statement
    FROM pg_class WHERE oid = '{_VIEW}'::regclass AND reloptions IS NOT NULL
    UNION ALL
    SELECT 1, format('ALTER VIEW {_VIEW} OWNER TO %I', pg_get_userbyid(relowner))
    FROM pg_class WHERE oid = '{_VIEW}'::regclass
    UNION ALL
    SELECT 2, format(
        'GRANT %s ON %s TO %s%s', rights.what, rights.relation,
        CASE rights.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(rights.grantee)) END,
        CASE WHEN rights.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    )
    FROM (
        SELECT a.privilege_type AS what, c.oid::regclass AS relation, c.relowner, a.grantee, a.is_grantable
        FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '{_VIEW}'::regclass
        UNION ALL
        SELECT format('%s (%I)', a.privilege_type, t.attname), c.oid::regclass, c.relowner, a.grantee, a.is_grantable
        FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
        WHERE c.oid = '{_VIEW}'::regclass OR (c.oid = 'infer_predictions'::regclass AND t.attname = 'vector')
    ) AS rights
    WHERE rights.grantee <> rights.relowner
) AS statements ORDER BY place
"""


def store_vectors(database: Database, storage: Storage) -> int:
    """Convert the column of vectors to bytes or to pgvector's type, and return how many vectors were converted.

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
            "install pgvector on the server, and run CREATE EXTENSION vector; in the database by a role that may",
        )
    return name


def _convert(connection: Connection, storage: Storage, type_name: str) -> int:
    """Copy the vectors into a column of the other type, and recreate the view, which depends on the column."""
    definition = connection.scalar(text(f"SELECT pg_get_viewdef('{_VIEW}'::regclass)"))
    rights = connection.scalars(text(_RIGHTS)).all()
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
        *rights,
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
