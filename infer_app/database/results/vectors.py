"""Vectors as they are stored: bytes, or on PostgreSQL pgvector's type where the column is of that.

pgvector's numbers are float32, which also holds those of float16 as they are.
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
    """Little-endian numbers, whatever the column keeps them as."""

    impl = LargeBinary
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], bytes | None]:
        return _to_bytes


Vectors = Vector().with_variant(mysql.LONGBLOB(), *FAMILY)  # its BLOB ends at 64 KiB


def vector_type(connection: Connection) -> str | None:
    """pgvector's type as this database calls it, where the column is of that; else None."""
    if connection.dialect.name != "postgresql":
        return None
    column = text(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = CAST('infer_predictions' AS regclass) AND attname = 'vector'"
    )
    found = connection.scalar(column)
    return None if found in (None, "bytea") else str(found)


def to_text(vector: bytes | None, dtype: str | None) -> str | None:
    """As pgvector reads it: nine digits say which float32 a number is."""
    if vector is None:
        return None
    letter = _LETTERS[str(dtype)]
    numbers = struct.unpack(f"<{len(vector) // struct.calcsize(letter)}{letter}", vector)
    return f"[{','.join(['%.9g'] * len(numbers))}]" % numbers


def to_bytes(shown: str) -> bytes:
    """Little-endian float32 of what pgvector shows."""
    numbers = [float(number) for number in shown.strip("[]").split(",")]
    return struct.pack(f"<{len(numbers)}f", *numbers)


def _to_bytes(value: Any) -> bytes | None:
    """A driver gives a type that it does not know as text."""
    if value is None:
        return None
    return to_bytes(value) if isinstance(value, str) else bytes(value)
