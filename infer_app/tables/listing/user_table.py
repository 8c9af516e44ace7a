"""Reads the user's table, view or query that lists images, and never writes to it."""

import json
import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, CursorResult, and_, column, false, func, null, or_, select, text, true
from sqlalchemy import table as lightweight_table
from sqlalchemy.sql.expression import FromClause

from infer_app.base.day import MAX_YEAR, MIN_YEAR, Day, naive
from infer_app.base.domain import ROW
from infer_app.base.locations import as_location, escape_unstorable, location_as_id, picture_key, stored_location
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.column_types import MAX_ID, AsText, Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.time_column import day_bounds, read_examples, read_instant

Bounds = tuple[object, object]  # [start, end) in the format of the time column
FIRST_DAY, LAST_DAY = (Day.of(date(year, 1, 1), "UTC") for year in (MIN_YEAR, MAX_YEAR))  # what is beyond has no day
SPOOLED_BYTES = 16 << 20  # in memory, of rows that are kept for later
PAGE_SIZE = 1000  # rows in memory at a time, however large the table


class TableRow(NamedTuple):
    """Holds a row as the list of images takes it."""

    image_id: str  # as text; the stored location of a row without an id
    location: str  # as the table has it
    time: datetime | None  # UTC; None: it has none that can be read, so it belongs to no day
    clock: object  # that time as the column has it
    camera: object
    taken: object

    @property
    def key(self) -> int:
        return key_of(self.image_id, self.location)


class TableInterval(NamedTuple):
    """Gives an interval of time as the time column has it and as UTC."""

    first: object
    end: object
    since: datetime | None = None  # None: from the first row on
    until: datetime | None = None


class UserTable:
    """Reads the rows of the user's table; `day_zone` is that in which a date without a time begins."""

    def __init__(self, database: Database, settings: SourceSettings, day_zone: str = "UTC") -> None:
        self.database = database
        self.settings = settings
        self.day_zone = day_zone
        self.relation: FromClause = relation_of(settings)
        named = self.relation.c
        self.id: ColumnElement[Any] = named[settings.id]
        self.time: ColumnElement[Any] = named[settings.time]
        has_location = settings.bytes is None or settings.has_files_too
        self.location: ColumnElement[Any] = named[settings.location] if has_location else null()
        self._examples: list[object] = []  # of the time column, once it has a value
        self._secrets: tuple[Day | None, Mapping[int, str]] | None = None  # of the days that were asked about last

    @property
    def described(self) -> str:
        """Return the settings that decide which rows of the database are listed."""
        listing, one = self.settings.query or self.settings.table, self.settings
        return json.dumps([listing.strip(), one.id, one.location, one.bytes, one.bytes and one.time])

    @property
    def read_by(self) -> str:
        """Return the settings that decide what is listed of a row: by others all rows are read again."""
        one = self.settings
        return json.dumps([self.described, one.time, one.camera, one.time_zone, self.day_zone])

    def find_interval(self, connection: Connection, days: Day | None, recent: int = 0) -> TableInterval:
        """Return an interval of days with the last `recent` rows before it; without days all that belong to a day."""
        (first, _), (_, last) = (self._bounds(connection, one) for one in (FIRST_DAY, LAST_DAY))
        if days is None:
            return TableInterval(first, last)
        start, end = self._bounds(connection, days)
        if not recent:
            return TableInterval(start, end, days.start, days.end)
        earlier = select(self.time).select_from(self.relation).where(self._within(first, start))
        found = connection.scalar(earlier.order_by(self.time.desc()).offset(recent - 1).limit(1))
        since = self._time_of(found)
        return TableInterval(first if since is None else found, end, since, days.end)

    def read_first(self, interval: TableInterval) -> Iterator[list[TableRow]]:
        """Yield the rows of an interval in pages, in any order, once all are read: until then a file can't be written.

        They are read in one statement; a read that fails begins anew.
        """
        with SpooledTemporaryFile(SPOOLED_BYTES) as spool:

            def read(connection: Connection) -> None:
                spool.seek(0)
                spool.truncate()
                with self._execute(connection, self._within(interval.first, interval.end)) as rows:
                    for page in rows.partitions():
                        pickle.dump([tuple(row) for row in page], spool)

            self.database.ask(read)
            for page in unpickled(spool):
                yield list(map(self._row, page))

    def read_all(self, connection: Connection) -> Iterator[TableRow]:
        """Yield all rows, those without a time too."""
        return self._read(connection, true())

    def find_rows(self, image_ids: Collection[str]) -> list[TableRow]:
        """Return the rows with these ids; the whole table is read, once."""
        wanted, is_it = set(image_ids), self._has_id(image_ids)

        def read(connection: Connection) -> list[TableRow]:
            return [row for row in self._read(connection, is_it) if row.image_id in wanted]

        return self.database.ask(read)

    def read_secrets(self, days: Day | None) -> Mapping[int, str]:
        """Return the locations of which a secret is not stored, by the keys of their pictures."""
        if self._secrets is None or self._secrets[0] != days:

            def read(connection: Connection) -> dict[int, str]:
                interval = self.find_interval(connection, days)
                rows = self._read(connection, self._within(interval.first, interval.end))
                return {row.key: row.location for row in rows if "***" in stored_location(row.location)}

            self._secrets = days, self.database.ask(read)
        return self._secrets[1]

    def nearest_times(self, day: Day, first: datetime | None) -> list[datetime]:
        """Return the times (UTC) of the last row before a day and of the first one after it; none before `first`."""

        def read(connection: Connection) -> list[object]:
            start, end = self._bounds(connection, day)
            times = select(self.time).select_from(self.relation)
            before = times.where(self._within(self._first(connection), start)).order_by(self.time.desc())
            after = times.where(self._within(end, self._bounds(connection, LAST_DAY)[1])).order_by(self.time)
            return [connection.scalar(one.limit(1)) for one in (before, after)]

        found = (self._time_of(one) for one in self.database.ask(read))
        return [time for time in found if time is not None and (first is None or time >= first)]

    def count_without_time(self) -> int:
        """Count the rows that belong to no day: without a time, or with one that is none or of no year of ours."""
        counted = select(func.count()).select_from(self.relation)

        def count(connection: Connection) -> int:
            first, end = self._first(connection), self._bounds(connection, LAST_DAY)[1]
            is_dated = self._within(first, end) if self._examples else self.time.is_not(None)
            return connection.scalar(counted.where(or_(self.time.is_(None), ~is_dated))) or 0

        return self.database.ask(count)

    def _read(self, connection: Connection, condition: ColumnElement[bool]) -> Iterator[TableRow]:
        with self._execute(connection, condition) as rows:
            yield from map(self._row, rows)

    def _execute(self, connection: Connection, condition: ColumnElement[bool]) -> CursorResult[Any]:
        return connection.execution_options(yield_per=PAGE_SIZE).execute(self._columns().where(condition))

    def _columns(self) -> Query:
        one, named = self.settings, self.relation.c
        facts = (null() if name is None else named[name] for name in (one.camera_column, one.taken))
        has_bytes = false() if one.bytes is None else named[one.bytes].is_not(None) if one.has_files_too else true()
        columns = (AsText(self.id), self.location, self.time, has_bytes, *facts)
        named_so = (value.label(f"infer_{place}") for place, value in enumerate(columns))
        return select(*named_so).select_from(self.relation)

    def _row(self, row: Sequence[Any]) -> TableRow:
        image_id, value, time, has_bytes, *facts = row
        location = f"{ROW}{image_id or ''}@{text_of_time(time)}" if has_bytes else as_location(value)
        stored_id = storable_id(location_as_id(location) if image_id is None else image_id)
        return TableRow(stored_id, location, self._time_of(time), time, *facts)

    def _time_of(self, value: object) -> datetime | None:
        return read_instant(value, self.settings.time_zone, self.day_zone)

    def _has_id(self, image_ids: Collection[str]) -> ColumnElement[bool]:
        """Return a condition of all rows with these ids, and perhaps others."""
        is_odd = any(len(one) >= MAX_ID or "\\" in one or not one.isprintable() for one in image_ids)
        return (
            true() if is_odd or len(image_ids) > PAGE_SIZE else or_(AsText(self.id).in_(image_ids), self.id.is_(None))
        )

    def _first(self, connection: Connection) -> object:
        return self._bounds(connection, FIRST_DAY)[0]

    def _within(self, start: object, end: object) -> ColumnElement[bool]:
        if end is None:  # there is no row with a time
            return false()
        # A text can be compared with others of one format alone: 2026/11/20 is after 2026-12-31.
        is_comparable = self.time.like("____-__-__%") if isinstance(end, str) else true()
        return and_(self.time >= start, self.time < end, is_comparable)

    def _bounds(self, connection: Connection, day: Day) -> Bounds:
        """Return the bounds of the day in the unit and format of the column."""
        self._examples = self._examples or read_examples(connection, self.time, self.relation)
        if not self._examples and self.database.backend.has_typed_columns:
            return None, None  # a server can't compare a time with a column of another type
        return day_bounds(day, self.settings.time, self._examples, self.settings.time_zone)


def relation_of(settings: SourceSettings) -> FromClause:
    """Return the user's table, view or query as a FROM clause."""
    location = settings.location if settings.bytes is None or settings.has_files_too else None
    keys = settings.id, settings.bytes, location, settings.time, settings.camera_column, settings.taken
    names = dict.fromkeys(name for name in keys if name is not None)
    if settings.query is not None:
        # As a window of a database takes it: with a semicolon, or with a comment at its end.
        query = settings.query.rstrip().removesuffix(";").replace(":", r"\:")
        return text(f"{query}\n").columns(*map(column, names)).subquery("source")
    schema, _, name = settings.table.rpartition(".")
    return lightweight_table(name, *map(column, names), schema=schema or None)


def key_of(image_id: str, location: str) -> int:
    """Return by what the picture of a row of the user's table is found."""
    return picture_key(image_id, stored_location(location))


def unpickled(spool: SpooledTemporaryFile[bytes]) -> Iterator[Any]:
    """Yield the objects that were pickled into a file, from its beginning."""
    spool.seek(0)
    with suppress(EOFError):
        while True:
            yield pickle.load(spool)


def text_of_time(value: object) -> str:
    """Return a value of a time column as text that is the same in every session and zone."""
    return str(naive(value) if isinstance(value, datetime) and value.tzinfo is not None else value)


def storable_id(text: str) -> str:
    """Return an id as it is stored: with what no database takes escaped, and a long one cut, with its checksum."""
    if not text.isascii() or "\0" in text:
        text = escape_unstorable(text)
    return text if len(text) <= MAX_ID else f"{text[: MAX_ID - 65]}#{sha256(text.encode()).hexdigest()}"


def storable_camera(named: object) -> str:
    """Return the name of a camera as it is stored, without blanks around it; empty for none."""
    return "" if named is None else _storable_name(str(named))


@lru_cache(maxsize=1000)
def _storable_name(name: str) -> str:
    return escape_unstorable(name)[:MAX_ID].strip()
