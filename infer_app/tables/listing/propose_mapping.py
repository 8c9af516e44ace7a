"""Proposals of the table that lists the images, and of its columns, from reading a database."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Enum,
    Inspector,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Uuid,
    case,
    func,
    inspect,
    null,
    select,
)
from sqlalchemy import column as untyped
from sqlalchemy.exc import SQLAlchemyError

from infer_app.base.locations import IMAGE_SUFFIXES, as_location, is_relative, is_remote
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.listing.time_column import read_time

SAMPLE_ROWS = 200  # read of each table
SHOWN = 5
MAX_CHARS = 4096  # read of a text: the longest path
_SMALL = (Boolean, Date, DateTime, Enum, Integer, Numeric, Uuid)  # types without large values
_IMAGE = re.compile(rf"({'|'.join(map(re.escape, IMAGE_SUFFIXES))})([?#].*)?$", re.IGNORECASE)
_OWN = "infer_"
# The day of an image is that of its arrival. The time when it was taken differs, and is often unknown.
_ARRIVAL = re.compile(r"add|creat|upload|insert|arriv|receiv|import|ingest", re.IGNORECASE)
_TAKEN = re.compile(r"tak|captur|shot|exif|time|date", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column of times, with one of its values."""

    name: str
    example: object

    @property
    def has_zone(self) -> bool:
        """Return whether each value is an unambiguous instant or a whole day."""
        value = self.example
        if isinstance(value, datetime):
            return value.tzinfo is not None
        if isinstance(value, str):
            return len(value) == 10 or read_time(value, "UTC") == read_time(value, "Asia/Tokyo")
        return True


@dataclass(frozen=True, slots=True)
class Proposal:
    """A possible [source] table, with samples by which an operator can check it."""

    table: str
    id: str
    location: str
    time: TimeColumn
    other_times: tuple[TimeColumn, ...]
    samples: tuple[tuple[object, str, object], ...]  # id, location, time
    index: str | None  # the statement that creates the missing index for reading a day
    folder: str | None  # that contains all local locations of the sample
    not_local: str | None  # a location that is no absolute path: relative or a URL
    share: float  # of the sampled locations that name an image file


def propose(database: Database) -> list[Proposal]:
    """Return a proposal for each table or view that could list images, the likeliest first.

    Raises DatabaseUnavailable.
    """
    with database.read() as connection:
        inspector = inspect(connection)
        found = [
            proposal
            for name, schema in _relations(connection, inspector)
            if (proposal := _inspect(connection, name, schema))
        ]
    return sorted(found, key=lambda proposal: -proposal.share)  # tables stay before views


def _relations(connection: Connection, inspector: Inspector) -> Iterator[tuple[str, str | None]]:
    default = inspector.default_schema_name
    others = backend_of(connection).other_schemas(inspector)
    for schema in (None, *(name for name in others if name != default)):
        for name in (*inspector.get_table_names(schema), *inspector.get_view_names(schema)):
            if not name.startswith(_OWN):
                yield name, schema


def _inspect(connection: Connection, name: str, schema: str | None) -> Proposal | None:
    """Return a proposal, or None if the table can't be read or has no column of locations, of ids or of times."""
    try:
        table = Table(name, MetaData(), schema=schema, autoload_with=connection)
        identity, is_typed = _identity_of(connection, table), backend_of(connection).has_typed_columns
        if identity is None:
            return None
        values = [_sampled(column, identity, is_typed=is_typed).label(column.name) for column in table.columns]
        rows = connection.execute(select(*values).select_from(table).limit(SAMPLE_ROWS)).mappings().all()
    except SQLAlchemyError:
        connection.rollback()
        return None
    location, share = _location_among(table, rows)
    times = sorted(_times_among(table, rows), key=_unlikeliness)
    if location is None or not times:
        return None
    time, *other_times = times
    seen = [str(row[location]) for row in rows if row[location]]
    return Proposal(
        table=f"{schema}.{name}" if schema else name,
        id=identity,
        location=location,
        time=time,
        other_times=tuple(other_times),
        samples=tuple((row[identity], as_location(row[location]), row[time.name]) for row in rows[:SHOWN]),
        index=_missing_index(connection, table, time.name, identity),
        folder=_common_folder(seen),
        not_local=next((one for one in seen if is_relative(one) or is_remote(one)), None),
        share=share,
    )


def _sampled(column: Column[Any], identity: str, *, is_typed: bool) -> ColumnElement[Any]:
    """Return the expression to read of a column: text is truncated, bytes and types that may be large become NULL.

    A table may hold the images themselves: reading whole rows would read gigabytes.
    """
    if not is_typed:  # a value may be of another type than its column
        value: ColumnElement[Any] = untyped(column.name)
        short = func.substr(value, 1, MAX_CHARS)
        return case((func.typeof(value) == "blob", null()), (func.typeof(value) == "text", short), else_=value)
    data_type = getattr(column.type, "data_type", column.type)  # of a domain: its underlying type
    if column.name == identity or isinstance(data_type, _SMALL):
        return column
    return func.substr(column, 1, MAX_CHARS) if isinstance(data_type, String) else null()


def _location_among(table: Table, rows: Sequence[Any]) -> tuple[str | None, float]:
    """Return the column with the largest share of names of image files, and that share; at least half is required."""
    best, best_share = None, 0.5
    for column in table.columns:
        values = [row[column.name] for row in rows if row[column.name]]
        named = sum(isinstance(value, str) and bool(_IMAGE.search(value)) for value in values)
        share = named / len(values) if values else 0.0
        if share >= best_share and (best is None or share > best_share):
            best, best_share = column.name, share
    return best, best_share if best else 0.0


def _identity_of(connection: Connection, table: Table) -> str | None:
    """Return the single column of the primary key, else a column that is unique or named like an id."""
    key = [column.name for column in table.primary_key]
    if len(key) == 1:
        return key[0]
    inspector = inspect(connection)
    if table.name in inspector.get_table_names(table.schema):
        for unique in inspector.get_unique_constraints(table.name, table.schema):
            if len(unique["column_names"]) == 1:
                return unique["column_names"][0]
    named = [column.name for column in table.columns if re.fullmatch(r"(.+_)?(id|uuid)", column.name, re.IGNORECASE)]
    return named[0] if named else None


def _times_among(table: Table, rows: Sequence[Any]) -> Iterator[TimeColumn]:
    for column in table.columns:
        example = next((row[column.name] for row in rows if row[column.name] is not None), None)
        if _is_time(column, example):
            yield TimeColumn(column.name, example)


def _is_time(column: Column[Any], example: Any) -> bool:
    if isinstance(example, date):
        return True
    named = _ARRIVAL.search(column.name) or _TAKEN.search(column.name)
    if isinstance(example, str):
        return len(example) >= 10 and read_time(example, "UTC") is not None
    is_number = isinstance(example, int | float) and not isinstance(example, bool)
    return bool(named and is_number and example > 1e8)  # seconds since 1970


def _unlikeliness(time: TimeColumn) -> int:
    if _ARRIVAL.search(time.name):
        return 0
    return 1 if _TAKEN.search(time.name) else 2


def _missing_index(connection: Connection, table: Table, time: str, identity: str) -> str | None:
    inspector = inspect(connection)
    if table.name not in inspector.get_table_names(table.schema):
        return None  # a view has no indexes
    indexes = [index["column_names"] for index in inspector.get_indexes(table.name, table.schema)]
    if any(columns[:1] == [time] for columns in indexes):
        return None
    quote = connection.dialect.identifier_preparer.quote
    where = ".".join(quote(part) for part in (table.schema, table.name) if part)
    return f"CREATE INDEX {quote(f'ix_{table.name}_{time}')} ON {where} ({quote(time)}, {quote(identity)});"


def _common_folder(locations: Sequence[str]) -> str | None:
    """Return the common folder of absolute paths, or None if it is the root or some locations aren't absolute."""
    folders = [os.path.dirname(path.removeprefix("file://")) for path in locations]  # noqa: PTH120 - maybe no path
    local = [folder for folder in folders if folder.startswith("/") and ".." not in folder]
    common = os.path.commonpath(local) if local and len(local) == len(folders) else "/"
    return None if common == "/" else common
