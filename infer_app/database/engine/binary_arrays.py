"""A column's values as one parameter: an array in PostgreSQL's binary format, which it need not parse.

The format is that of `array_recv` in its src/backend/utils/adt/arrayfuncs.c; all numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


@dataclass(frozen=True, slots=True)
class Element:
    """A type of PostgreSQL's: its name, its number in pg_type, and a value of it as it is sent."""

    name: str
    oid: int
    encode: Callable[[Any], bytes]


TEXT = Element("text", 25, str.encode)
JSON = Element("json", 114, str.encode)
BYTES = Element("bytea", 17, bytes)
INTEGER = Element("integer", 23, struct.Struct(">i").pack)
BIGINT = Element("bigint", 20, struct.Struct(">q").pack)
DOUBLE = Element("double precision", 701, struct.Struct(">d").pack)


class BinaryArray(bytes):
    """What psycopg is to send as it is: `postgres.py` tells it so."""


def binary_array(values: Sequence[Any], element: Element) -> BinaryArray:
    """One dimension, from 1 on; None is NULL. Raises UnicodeEncodeError for text that is none."""
    pack, encode = _LENGTH.pack, element.encode
    parts = [struct.pack(">iiIii", 1, 1, element.oid, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            content = encode(value)
            parts += (pack(len(content)), content)
    return BinaryArray(b"".join(parts))
