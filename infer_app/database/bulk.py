"""Many rows in one go, by the fastest way of each database that still overwrites the row of the same key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from sqlalchemy import Column, Connection, Dialect, MetaData, Table, bindparam, select
from sqlalchemy.exc import DBAPIError

from infer_app.database.upsert import Merges, upsert

FEW_ROWS = 32  # below it two statements more cost PostgreSQL more than COPY saves


class BulkUpsert:
    """Writes rows of one table. Values come by column: those that differ as sequences, those that all share as one.

    SQLite and MariaDB get rows of the driver's own types, without SQLAlchemy's work for each row; PyMySQL makes one
    statement of many rows, for which `merges` must hold no parameters. PostgreSQL gets them by COPY into a temporary
    table, and one upsert from there.
    """

    def __init__(self, dialect: Dialect, table: Table, merges: Merges | None = None) -> None:
        self._dialect = dialect
        self._table = table
        self._merges = merges
        self._by_row = upsert(dialect.name, table, merges)
        self._compiled = self._by_row.compile(dialect=dialect)
        self._processors = {column.name: _processor(column, dialect) for column in table.columns}

    def write(self, connection: Connection, columns: Mapping[str, Sequence[Any]], shared: Mapping[str, Any]) -> None:
        """Sequences are of one length; keys must be unique. Raises StatementError or UnicodeEncodeError."""
        if self._dialect.name != "postgresql":
            connection.exec_driver_sql(str(self._compiled), self._driver_rows(columns, shared))
        elif len(next(iter(columns.values()))) < FEW_ROWS:
            rows = zip(*columns.values(), strict=True)
            connection.execute(self._by_row, [{**dict(zip(columns, row, strict=True)), **shared} for row in rows])
        else:
            self._copy(connection, columns, shared)

    def _driver_rows(self, columns: Mapping[str, Sequence[Any]], shared: Mapping[str, Any]) -> list[Any]:
        """Tuples in the order of the statement's places, or dicts by their names."""
        values = {name: self._converted(name, given) for name, given in columns.items()}
        values |= {name: repeat(*self._converted(name, [value])) for name, value in shared.items()}
        names = self._compiled.positiontup or tuple(values)
        rows = zip(*(values[name] for name in names), strict=False)  # what all share has no end
        return list(rows) if self._compiled.positional else [dict(zip(names, row, strict=True)) for row in rows]

    def _converted(self, name: str, values: Sequence[Any]) -> Any:
        processor = self._processors[name]
        return values if processor is None else [processor(value) for value in values]

    def _copy(self, connection: Connection, columns: Mapping[str, Sequence[Any]], shared: Mapping[str, Any]) -> None:
        staged = self._stage(tuple(columns))
        names = ", ".join(columns)
        # For this session only, and made where it is used: a pooler may give each transaction another session.
        definitions = ", ".join(f"{column.name} {column.type.compile(self._dialect)}" for column in staged.columns)
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {staged.name} ({definitions}) ON COMMIT DELETE ROWS"
        )
        cursor: Any = connection.connection.cursor()
        rows = zip(*(self._converted(name, values) for name, values in columns.items()), strict=True)
        copying = f"COPY {staged.name} ({names}) FROM STDIN"
        with _sqlalchemys_errors(connection), cursor, cursor.copy(copying) as copy:
            for row in rows:
                copy.write_row(row)
        table = self._table
        given = [bindparam(f"shared_{name}", value, table.c[name].type).label(name) for name, value in shared.items()]
        found = select(*staged.columns, *given)
        connection.execute(upsert("postgresql", table, self._merges, (*columns, *shared), found))

    def _stage(self, names: tuple[str, ...]) -> Table:
        columns = [Column(name, self._table.c[name].type) for name in names]
        return Table(f"{self._table.name}_staged", MetaData(), *columns)


def _processor(column: Column[Any], dialect: Dialect) -> Any:
    return column.type.dialect_impl(dialect).bind_processor(dialect)


@contextmanager
def _sqlalchemys_errors(connection: Connection) -> Iterator[None]:
    """What the driver raises by itself, as SQLAlchemy raises it from a statement."""
    driver = connection.dialect.loaded_dbapi
    try:
        yield
    except driver.Error as error:
        if connection.dialect.is_disconnect(error, connection.connection, None):
            connection.invalidate(error)
        raise DBAPIError.instance(
            "COPY", None, error, driver.Error, hide_parameters=True, dialect=connection.dialect
        ) from None
