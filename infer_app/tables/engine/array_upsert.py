"""Rows sent to PostgreSQL as one binary array for each column.

The format is that of `array_recv` in its src/backend/utils/adt/arrayfuncs.c; all numbers are big-endian. For a run's
chunks this takes half the time of COPY into a temporary table, and it needs no privilege to create tables.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Double,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    literal_column,
    select,
    text,
)
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import TypeEngine

from infer_app.tables.engine.bulk import DriverValues, TooLong, check_kept
from infer_app.tables.engine.column_types import EncodedJSON, Query

MAX_MESSAGE_BYTES = 1_000_000_000  # PostgreSQL closes the connection at 1 GiB, as if it were down
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_FIRST_DAY = datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class Element:
    """An element type of PostgreSQL: its name, its OID in pg_type, and the encoder of a value."""

    name: str
    oid: int
    encode: Callable[[Any], bytes]
    code: str = ""  # of numbers, in the formats of `struct`


def _timestamp(at: datetime) -> bytes:
    """Return microseconds since 2000, as `timestamp_recv` in timestamp.c reads them."""
    return struct.pack(">q", (at - _FIRST_DAY) // timedelta(microseconds=1))


TEXT = Element("text", 25, str.encode)
JSON = Element("json", 114, str.encode)
BYTES = Element("bytea", 17, bytes)
INTEGER = Element("integer", 23, struct.Struct(">i").pack, "i")
BIGINT = Element("bigint", 20, struct.Struct(">q").pack, "q")
DOUBLE = Element("float8", 701, struct.Struct(">d").pack, "d")
TIMESTAMP = Element("timestamp", 1114, _timestamp)
_ELEMENTS: dict[type[TypeEngine[Any]], Element] = {
    String: TEXT,
    EncodedJSON: JSON,
    BigInteger: BIGINT,  # before Integer, its base class
    Integer: INTEGER,
    Double: DOUBLE,
    DateTime: TIMESTAMP,
    LargeBinary: BYTES,
}


class ArrayUpsert:
    """Upserts the rows of some columns by a statement that is compiled once for these columns."""

    def __init__(self, dialect: Dialect, table: Table, upsert: Callable[[Sequence[str], Query], Insert]) -> None:
        self._dialect = dialect
        self._table = table
        self._upsert = upsert
        self._values = DriverValues(dialect, table)
        self._statements: dict[tuple[str, ...], str] = {}

    def write(
        self, connection: Connection, columns: Mapping[str, Sequence[object]], shared: Mapping[str, object]
    ) -> None:
        num_rows = len(next(iter(columns.values())))
        given = self._values.of_all_rows(shared)
        statement = self._statement(tuple(columns), tuple(shared))
        sent = {name: binary_array(values, self._element(name)) for name, values in columns.items()}
        if (num_bytes := sum(map(len, sent.values()))) > MAX_MESSAGE_BYTES:
            raise TooLong(f"{num_bytes:,} bytes in one statement")
        check_kept(num_rows, connection.exec_driver_sql(statement, given | sent).rowcount)

    def _statement(self, names: tuple[str, ...], shared: tuple[str, ...]) -> str:
        known = self._statements.get((*names, *shared))
        if known is None:
            statement = self._upsert((*names, *shared), self._rows(names, shared))
            known = self._statements[*names, *shared] = statement.compile(dialect=self._dialect).string
        return known

    def _rows(self, names: Sequence[str], shared: Sequence[str]) -> Query:
        """Return a SELECT that turns the arrays of `names` into rows, followed by the shared values.

        Arrays unnested in the select list are read in step. In FROM each would first be materialised as a table.
        """
        unnested = ", ".join(f"unnest(CAST(:{name} AS {self._element(name).name}[])) AS {name}" for name in names)
        differing: list[ColumnElement[Any]] = [literal_column(f"given.{name}").label(name) for name in names]
        every = [bindparam(name, type_=self._table.c[name].type).label(name) for name in shared]
        return select(*differing, *every).select_from(text(f"(SELECT {unnested}) AS given"))

    def _element(self, name: str) -> Element:
        """Return the element type in which the column's values are sent; a cast to VARCHAR would truncate text."""
        type_ = self._table.c[name].type
        return next(element for kind, element in _ELEMENTS.items() if isinstance(type_, kind))


class ArrayDelete:
    """Sends any number of pictures' numbers as one parameter, and looks each up in the index."""

    def __init__(self, table: Table, condition: ColumnElement[bool]) -> None:
        among = text(f"{table.name}.picture = ANY (CAST(:numbers AS bigint[]))")
        self._statement = delete(table).where(among, condition)

    def execute(self, connection: Connection, numbers: Iterable[int]) -> int:
        return connection.execute(self._statement, {"numbers": list(numbers)}).rowcount


class BinaryArray(bytes):
    """An encoded array, which psycopg sends unchanged by the dumper registered in `postgres_connection.py`."""


def binary_array(values: Sequence[object], element: Element) -> BinaryArray:
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


def _numbers(values: Sequence[object], code: str) -> bytearray:
    """Return the numbers, each after its length, with no work in Python for each of them."""
    size = struct.calcsize(f">{code}")
    packed = struct.pack(f">{len(values)}{code}", *values)
    step = _LENGTH.size + size
    rows = bytearray(step * len(values))
    rows[_LENGTH.size - 1 :: step] = bytes((size,)) * len(values)  # a length under 256 is its last byte
    for place in range(size):
        rows[_LENGTH.size + place :: step] = packed[place::size]
    return rows
