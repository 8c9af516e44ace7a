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
    code: str = ""  # of numbers, in the formats of `struct`


TEXT = Element("text", 25, str.encode)
JSON = Element("json", 114, str.encode)
BYTES = Element("bytea", 17, bytes)
INTEGER = Element("integer", 23, struct.Struct(">i").pack, "i")
BIGINT = Element("bigint", 20, struct.Struct(">q").pack, "q")
DOUBLE = Element("float8", 701, struct.Struct(">d").pack, "d")


class BinaryArray(bytes):
    """An encoded array, which psycopg sends unchanged by the dumper registered in `postgres.py`."""


def binary_array(values: Sequence[Any], element: Element) -> BinaryArray:
    """Encode the values as an array of one dimension that starts at index 1; None becomes NULL.

    Raises UnicodeEncodeError for text with surrogates.
    """
    header = struct.pack(">iiIii", 1, 1, element.oid, len(values), 1)
    if element.code and None not in values:
        return BinaryArray(header + _numbers(values, element.code))
    pack, encode = _LENGTH.pack, element.encode
    parts = [header]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            content = encode(value)
            parts += (pack(len(content)), content)
    return BinaryArray(b"".join(parts))


def _numbers(values: Sequence[Any], code: str) -> bytearray:
    """Return the numbers, each after its length, with no work in Python for each of them."""
    size = struct.calcsize(f">{code}")
    packed = struct.pack(f">{len(values)}{code}", *values)
    step = _LENGTH.size + size
    rows = bytearray(step * len(values))
    rows[_LENGTH.size - 1 :: step] = bytes((size,)) * len(values)  # a length under 256 is its last byte
    for place in range(size):
        rows[_LENGTH.size + place :: step] = packed[place::size]
    return rows
