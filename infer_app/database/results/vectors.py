"""The stored form of vectors: bytes, or on PostgreSQL optionally pgvector's type.

pgvector's numbers are float32, which represents those of float16 exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Dialect, LargeBinary, TypeDecorator, text
from sqlalchemy.dialects import mysql

from infer_app.database.engine.column_types import FAMILY

PGVECTOR_DTYPE = "float32"
_LETTERS = {"float32": "f", "float16": "e"}


class Vector(TypeDecorator[bytes]):
    """Vectors as little-endian numbers, whatever the type of the column is."""

    impl = LargeBinary
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], bytes | None]:
        return _to_bytes


Vectors = Vector().with_variant(mysql.LONGBLOB(), *FAMILY)  # MariaDB's BLOB holds at most 64 KiB


def vector_type(connection: Connection) -> str | None:
    """Return the name of pgvector's type in this database if the column has that type, else None."""
    if connection.dialect.name != "postgresql":
        return None
    column = text(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = CAST('infer_predictions' AS regclass) AND attname = 'vector'"
    )
    found = connection.scalar(column)
    return None if found in (None, "bytea") else str(found)


def to_text(vector: bytes | None, dtype: str | None) -> str | None:
    """Return the vector as text for pgvector: nine digits identify a float32."""
    if vector is None:
        return None
    letter = _LETTERS[str(dtype)]
    numbers = struct.unpack(f"<{len(vector) // struct.calcsize(letter)}{letter}", vector)
    return f"[{','.join(['%.9g'] * len(numbers))}]" % numbers


def to_bytes(shown: str) -> bytes:
    """Return pgvector's text as little-endian float32."""
    numbers = [float(number) for number in shown.strip("[]").split(",")]
    return struct.pack(f"<{len(numbers)}f", *numbers)


def _to_bytes(value: Any) -> bytes | None:
    """Return the bytes of a stored vector; drivers return pgvector's type, which they don't know, as text."""
    if value is None:
        return None
    return to_bytes(value) if isinstance(value, str) else bytes(value)
