"""Upserts and deletes of many rows at once: what fails, and the ways that more than one database takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Dialect, Table, bindparam, delete
from sqlalchemy.sql.compiler import SQLCompiler

# Where each id is a parameter. MariaDB counts the rows of fewer than 200 in the index; for more it relies on
# statistics, and without these reads the whole table.
IDS_PER_STATEMENT = 150

T = TypeVar("T")
Merges = Mapping[str, Callable[[object], object]]


class NotWritten(Exception):
    """Rows were not written although no statement failed; writing fewer at a time may succeed."""


class TooLong(NotWritten):
    """A statement is longer than the server accepts."""


class Dropped(NotWritten):
    """The database dropped rows without an error: a trigger or rule of the user skips them."""


class BulkUpsert(Protocol):
    """Upserts rows of one table. Values are passed by column: sequences, and single values that all rows share."""

    def write(
        self, connection: Connection, columns: Mapping[str, Sequence[object]], shared: Mapping[str, object]
    ) -> None:
        """Write the rows. Sequences have one length, and keys must be unique.

        Raises StatementError, UnicodeEncodeError or NotWritten.
        """


class BulkDelete(Protocol):
    """Deletes the rows of given pictures in one table that meet a condition."""

    def execute(self, connection: Connection, numbers: Iterable[int]) -> int:
        """Return how many rows were deleted."""


class DriverValues:
    """Values as a driver takes them, without SQLAlchemy's work for each row."""

    def __init__(self, dialect: Dialect, table: Table) -> None:
        self._processors = {
            column.name: column.type.dialect_impl(dialect).bind_processor(dialect) for column in table.columns
        }

    def of(self, name: str, values: Sequence[object]) -> Sequence[object]:
        """Return the values of a column."""
        processor = self._processors[name]
        return values if processor is None else [processor(value) for value in values]

    def of_all_rows(self, shared: Mapping[str, object]) -> dict[str, object]:
        """Return the values that all rows share, by column."""
        return {name: self.of(name, [value])[0] for name, value in shared.items()}


class RowUpsert:
    """Sends rows of the driver's own types. PyMySQL combines them into one statement, which may hold no parameters."""

    def __init__(self, dialect: Dialect, table: Table, statement: object) -> None:
        self._values = DriverValues(dialect, table)
        self._by_row = compile_once(statement, dialect)

    def write(
        self, connection: Connection, columns: Mapping[str, Sequence[object]], shared: Mapping[str, object]
    ) -> None:
        num_rows = len(next(iter(columns.values())))
        given = self._values.of_all_rows(shared)
        differing = {name: self._values.of(name, values) for name, values in columns.items()}
        rows = driver_rows(self._by_row, differing, given)
        check_kept(num_rows, connection.exec_driver_sql(self._by_row.string, rows).rowcount)


class BatchDelete:
    """Sends IDS_PER_STATEMENT numbers in a statement."""

    def __init__(self, table: Table, condition: ColumnElement[bool]) -> None:
        self._statement = delete(table).where(table.c.picture.in_(bindparam("ids", expanding=True)), condition)

    def execute(self, connection: Connection, numbers: Iterable[int]) -> int:
        return sum(connection.execute(self._statement, {"ids": some}).rowcount for some in in_batches(numbers))


def in_batches(ids: Iterable[T]) -> Iterator[list[T]]:
    """Yield as many at a time as one statement takes as parameters."""
    left = iter(ids)
    while some := list(islice(left, IDS_PER_STATEMENT)):
        yield some


def check_kept(num_rows: int, num_kept: int) -> None:
    """Raise Dropped if fewer rows were kept than sent.

    MariaDB counts an overwritten row twice, and its triggers can't skip rows.
    """
    if num_kept < num_rows:
        raise Dropped(f"{num_rows - num_kept:,} of {num_rows:,} rows were dropped without an error: by a trigger?")


def compile_once(statement: Any, dialect: Dialect) -> SQLCompiler:
    """Compile a statement for reuse: compiling takes longer than writing a small chunk."""
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def driver_rows(
    compiled: SQLCompiler, columns: Mapping[str, Sequence[object]], shared: Mapping[str, object]
) -> list[object]:
    """Return rows as tuples in the order of the statement's placeholders, or as dicts by their names."""
    values: dict[str, Iterable[object]] = {**columns, **{name: repeat(value) for name, value in shared.items()}}
    names = compiled.positiontup or tuple(values)
    rows = zip(*(values[name] for name in names), strict=False)  # `repeat` is infinite
    return list(rows) if compiled.positional else [dict(zip(names, row, strict=True)) for row in rows]
