"""Upserts and deletes of many rows at once, in the fastest way of each database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Dialect,
    Double,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    delete,
    literal_column,
    select,
    text,
)
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from infer_app.database.engine import binary_arrays
from infer_app.database.engine.binary_arrays import binary_array
from infer_app.database.engine.column_types import EncodedJSON
from infer_app.database.results.upsert import Merges, upsert
from infer_app.database.results.vectors import Vector

_ELEMENTS: dict[type[TypeEngine[Any]], binary_arrays.Element] = {
    String: binary_arrays.TEXT,
    EncodedJSON: binary_arrays.JSON,
    BigInteger: binary_arrays.BIGINT,  # before Integer, its base class
    Integer: binary_arrays.INTEGER,
    Double: binary_arrays.DOUBLE,
}
MAX_MESSAGE_BYTES = 1_000_000_000  # PostgreSQL closes the connection at 1 GiB, as if it were down
IDS_PER_STATEMENT = 500  # where each id is a parameter


class NotWritten(Exception):
    """Rows were not written although no statement failed; writing fewer at a time may succeed."""


class TooLong(NotWritten):
    """A statement is longer than the server accepts."""


class Dropped(NotWritten):
    """The database dropped rows without an error: a trigger or rule of the user skips them."""


class BulkUpsert:
    """Upserts rows of one table. Values are passed by column: sequences, and single values that all rows share.

    SQLite and MariaDB receive rows of the driver's own types, without SQLAlchemy's work for each row. PyMySQL combines
    the rows into one statement, so `merges` must hold no parameters. PostgreSQL receives one statement with a binary
    array for each column. For a run's chunks this takes half the time of COPY into a temporary table, and it needs no
    privilege to create tables.
    """

    def __init__(
        self, dialect: Dialect, table: Table, merges: Merges | None = None, vector_type: str | None = None
    ) -> None:
        self._dialect = dialect
        self._table = table
        self._vector_type = vector_type  # pgvector's type, which is written as text
        self._merges = merges
        self._processors = {
            column.name: column.type.dialect_impl(dialect).bind_processor(dialect) for column in table.columns
        }
        self._by_column: dict[tuple[str, ...], str] = {}
        if dialect.name != "postgresql":
            self._by_row = compile_once(upsert(dialect.name, table, merges), dialect)

    def write(self, connection: Connection, columns: Mapping[str, Sequence[Any]], shared: Mapping[str, Any]) -> None:
        """Write the rows. Sequences have one length, and keys must be unique.

        Raises StatementError, UnicodeEncodeError or NotWritten.
        """
        num_rows = len(next(iter(columns.values())))
        given = {name: self._for_driver(name, [value])[0] for name, value in shared.items()}
        if self._dialect.name == "postgresql":
            statement = self._from_arrays(tuple(columns), tuple(shared))
            sent = {name: binary_array(values, self._element(name)) for name, values in columns.items()}
            if (num_bytes := sum(map(len, sent.values()))) > MAX_MESSAGE_BYTES:
                raise TooLong(f"{num_bytes:,} bytes in one statement")
            num_kept = connection.exec_driver_sql(statement, given | sent).rowcount
        else:
            differing = {name: self._for_driver(name, values) for name, values in columns.items()}
            rows = driver_rows(self._by_row, differing, given)
            num_kept = connection.exec_driver_sql(self._by_row.string, rows).rowcount
        if num_kept < num_rows:  # MariaDB counts an overwritten row twice, and its triggers can't skip rows
            raise Dropped(f"{num_rows - num_kept:,} of {num_rows:,} rows were dropped without an error: by a trigger?")

    def _for_driver(self, name: str, values: Sequence[Any]) -> Sequence[Any]:
        processor = self._processors[name]
        return values if processor is None else [processor(value) for value in values]

    def _from_arrays(self, names: tuple[str, ...], shared: tuple[str, ...]) -> str:
        known = self._by_column.get((*names, *shared))
        if known is None:
            statement = upsert("postgresql", self._table, self._merges, (*names, *shared), self._rows(names, shared))
            known = self._by_column[*names, *shared] = statement.compile(dialect=self._dialect).string
        return known

    def _rows(self, names: Sequence[str], shared: Sequence[str]) -> Select[Any]:
        """Return a SELECT that turns the arrays of `names` into rows, followed by the shared values.

        Arrays unnested in the select list are read in step. In FROM each would first be materialised as a table.
        """
        unnested = ", ".join(f"unnest(CAST(:{name} AS {self._element(name).name}[])) AS {name}" for name in names)
        differing: list[ColumnElement[Any]] = [literal_column(self._as_stored(name)).label(name) for name in names]
        every = [bindparam(name, type_=self._table.c[name].type).label(name) for name in shared]
        return select(*differing, *every).select_from(text(f"(SELECT {unnested}) AS given"))

    def _element(self, name: str) -> binary_arrays.Element:
        """Return the element type in which the column's values are sent; a cast to VARCHAR would truncate text."""
        type_ = self._table.c[name].type
        if isinstance(type_, Vector):
            return binary_arrays.TEXT if self._vector_type else binary_arrays.BYTES
        return next(element for kind, element in _ELEMENTS.items() if isinstance(type_, kind))

    def _as_stored(self, name: str) -> str:
        is_vector = isinstance(self._table.c[name].type, Vector)
        return f"CAST(given.{name} AS {self._vector_type})" if is_vector and self._vector_type else f"given.{name}"


class BulkDelete:
    """Deletes the rows of given images in one table that meet a condition, which must have no list parameters."""

    def __init__(self, dialect: Dialect, table: Table, condition: ColumnElement[bool]) -> None:
        self._dialect = dialect
        image_id: ColumnElement[str] = table.c.image_id
        if dialect.name == "postgresql":  # one parameter for any number of ids, and an index lookup for each
            among = text(f"{table.name}.image_id = ANY (ARRAY (SELECT json_array_elements_text(CAST(:ids AS json))))")
            self._statement = delete(table).where(among, condition)
        elif dialect.name == "sqlite":
            self._statement = delete(table).where(image_id == bindparam("image_id"), condition)
            self._by_row = compile_once(self._statement, dialect)
        else:
            self._statement = delete(table).where(image_id.in_(bindparam("ids", expanding=True)), condition)

    def execute(self, connection: Connection, image_ids: Iterable[str]) -> int:
        """Return how many rows were deleted."""
        ids = list(image_ids)
        if self._dialect.name == "postgresql":
            return connection.execute(self._statement, {"ids": json.dumps(ids, ensure_ascii=False)}).rowcount
        if self._dialect.name == "sqlite":
            constants = {name: value for name, value in self._by_row.params.items() if name != "image_id"}
            rows = driver_rows(self._by_row, {"image_id": ids}, constants)
            return connection.exec_driver_sql(self._by_row.string, rows).rowcount
        batches = (ids[first : first + IDS_PER_STATEMENT] for first in range(0, len(ids), IDS_PER_STATEMENT))
        return sum(connection.execute(self._statement, {"ids": batch}).rowcount for batch in batches)


def compile_once(statement: Any, dialect: Dialect) -> SQLCompiler:
    """Compile a statement for reuse: compiling takes longer than writing a small chunk."""
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def driver_rows(compiled: SQLCompiler, columns: Mapping[str, Sequence[Any]], shared: Mapping[str, Any]) -> list[Any]:
    """Return rows as tuples in the order of the statement's placeholders, or as dicts by their names."""
    values: dict[str, Iterable[Any]] = {**columns, **{name: repeat(value) for name, value in shared.items()}}
    names = compiled.positiontup or tuple(values)
    rows = zip(*(values[name] for name in names), strict=False)  # `repeat` is infinite
    return list(rows) if compiled.positional else [dict(zip(names, row, strict=True)) for row in rows]
