"""Encoding of a column's values as one parameter: an array in PostgreSQL's binary format.

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
    """An element type of PostgreSQL: its name, its OID in pg_type, and the encoder of a value."""

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
    """An encoded array, which psycopg sends unchanged by the dumper registered in `postgres.py`."""


def binary_array(values: Sequence[Any], element: Element) -> BinaryArray:
    """Encode the values as an array of one dimension that starts at index 1; None becomes NULL.

    Raises UnicodeEncodeError for text with surrogates.
    """
    pack, encode = _LENGTH.pack, element.encode
    parts = [struct.pack(">iiIii", 1, 1, element.oid, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            content = encode(value)
            parts += (pack(len(content)), content)
    return BinaryArray(b"".join(parts))
