"""The source of a day's images: our table, or the user's table, view or query, which is only read."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    String,
    Subquery,
    and_,
    case,
    column,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    text,
    true,
)
from sqlalchemy import table as lightweight_table
from sqlalchemy.sql.expression import FromClause

from infer_app.base.day import MAX_YEAR, MIN_YEAR, Day, find_zone
from infer_app.base.domain import ROW, ImageRef, NewImage
from infer_app.base.errors import UsageError
from infer_app.base.locations import as_location, escape_unstorable, picture_key, stored_location
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import MAX_ID, AsText, AsUtcText, PictureKey, Query, is_utf8
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.listing.left_out import LeftOut, read_left_out
from infer_app.tables.listing.time_column import day_bounds, read_examples, read_time
from infer_app.tables.results.conditions import KeyedJoin, Picture, new_among
from infer_app.tables.results.schema import OUR_IMAGES, pictures

Bounds = tuple[object, object]  # [start, end) in the format of the time column
FIRST_DAY, LAST_DAY = (Day.of(date(year, 1, 1), "UTC") for year in (MIN_YEAR, MAX_YEAR))  # what is beyond has no day
PAGE_SIZE = 1000  # refs in memory at a time, however large the table

T = TypeVar("T")


class Source:
    """Lists the images of a day in keyset pages over (time, id). Memory and cost per page don't grow with the table."""

    def __init__(
        self,
        database: Database,
        settings: SourceSettings,
        page_size: int = PAGE_SIZE,
        camera: str | None = None,
        results: Database | None = None,
    ) -> None:
        """Open a source, or its images of a camera alone. Raises UsageError if the column names no such camera."""
        self.database = database
        self.results = results or database  # that holds our tables
        self.settings = settings
        self.page_size = page_size
        self.is_ours = settings.query is None and settings.table == OUR_IMAGES
        self.has_key = self.is_ours and settings.id == pictures.c.id.name  # a primary key of integers
        # Whether it lists the pictures that are registered here, which are found by their numbers.
        is_plain = settings.location == "location" and settings.bytes is None
        self.registered = self.has_key and is_plain and self.results is database
        self.zone = "UTC" if self.is_ours else settings.time_zone
        self.relation: FromClause = relation_of(settings)
        self.camera = camera
        self.conditions: tuple[ColumnElement[bool], ...] = ()  # on the pictures of the images
        if camera is not None:
            self.relation = self._of_camera(camera).subquery("source")
        # With the table's name: the tables of results, which are asked for each row, have columns of such names too.
        named = self.relation.c
        self.id: ColumnElement[Any] = named[settings.id]
        self.time: ColumnElement[Any] = named[settings.time]
        self.id_text: ColumnElement[str] = AsText(self.id)
        facts = settings.camera_column, settings.taken
        self._facts = [null() if name is None else named[name].label(f"infer_fact_{name}") for name in facts]
        if settings.bytes is None:
            self.location: ColumnElement[Any] = named[settings.location]
        else:
            at = literal_column("'@'", String).concat(AsUtcText(self.time))  # the id may come again for another picture
            row = literal_column(f"'{ROW}'", String).concat(self.id_text).concat(at)
            self.location = row
            if settings.has_files_too:
                self.location = case((named[settings.bytes].is_(None), named[settings.location]), else_=row)
        self.forgotten_before: datetime | None = None  # UTC; images of earlier times belong to no day any more
        self.has_bytes_for_text = False  # in the column of locations, which no server compares with a stored location
        self._left_out: dict[Day, LeftOut] = {}
        self._examples: list[object] = []  # of the time column, once it has a value

    @property
    def described(self) -> str:
        """Return the settings that decide which rows of the database are listed."""
        listing, one = self.settings.query or self.settings.table, self.settings
        return json.dumps([listing.strip(), one.id, one.location, one.bytes])

    @property
    def own_pictures(self) -> ColumnElement[bool]:
        """Return the condition that a picture is of the kind that it lists: registered here, or rows of the user's."""
        return pictures.c.registered == int(self.registered)

    def find_picture(self, image_id: str, location: str | None) -> int | None:
        """Return the number of an image's picture, or None if it has none.

        Without a location it is one that is no longer listed: the last one with the id.
        """

        def find(connection: Connection) -> int | None:
            is_it = and_(pictures.c.image_id == image_id, self.own_pictures)
            if location is not None and not self.registered:
                is_it = is_listed_picture(literal(picture_key(image_id, stored_location(location)), BigInteger))
            found: int | None = connection.scalar(select(func.max(pictures.c.id)).where(is_it))
            return found

        return self.results.ask(find)

    def select_new(self, day: Day, model_id: str) -> Iterator[ImageRef]:
        """Yield the day's images with neither a prediction nor a settled rejection, in order of (time, id)."""
        for page in self.select_pages(day, model_id):
            yield from (new.ref for new in page)

    def select_pages(self, day: Day, *model_ids: str) -> Iterator[list[NewImage]]:
        """Yield pages of the images that are new for at least one of the models; any page may be empty.

        They are without the rows that `find_left_out` finds.
        """
        left_out = self.find_left_out(day)
        listed, picture = self._with_pictures()
        new = new_among(listed.where(self.id.is_not(None)), picture, model_ids)
        for page in self._read_pages(new, self.database.ask(partial(self._bounds, day=day)), self.page_size):
            yield [new_image(row) for row in page if not left_out.has(row[3])]

    def find_left_out(self, day: Day) -> LeftOut:
        """Return the day's rows that can have no result, read once. Raises UnusableIds as `read_left_out` does."""
        if self.has_key:
            return LeftOut()

        def read(connection: Connection) -> LeftOut:
            listed = self.in_day(connection, day).subquery()
            return read_left_out(connection, listed, f"[source] id = {self.settings.id!r}", day, self.id_limit)

        if day not in self._left_out:
            self._left_out[day] = self.database.ask(read)
        return self._left_out[day]

    def list_pages(self, day: Day, size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of the day's images, as id, location, time and id as text, each read in its own transaction.

        Rows without an id come last.
        """
        return self._every_page(self.database.ask(partial(self._bounds, day=day)), size)

    def list_pages_before(self, day: Day, size: int) -> Iterator[Sequence[object]]:
        """Yield pages of the images of earlier days as `list_pages` does, those that were forgotten too."""
        (first, _), (start, _) = (self.database.ask(partial(self._whole_bounds, day=one)) for one in (FIRST_DAY, day))
        return self._every_page((first, start), size)

    def list_facts(self, day: Day | None, size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of a day's images, or of all, as id, location, time, id as text, camera and capture time."""

        def bounds(connection: Connection) -> Bounds:
            (first, _), (_, last) = (self._whole_bounds(connection, one) for one in (FIRST_DAY, LAST_DAY))
            return (first, last) if day is None else self._bounds(connection, day)

        return self._read_pages(self.with_id().add_columns(*self._facts), self.database.ask(bounds), size)

    def parts(self, connection: Connection, day: Day) -> Iterator[Subquery]:
        """Yield parts of the day's images, in order of (time, id), as relations.

        Their columns are id, location, time, id as text, and the picture's number, which `conditions.picture_of` reads.
        The relations belong to the database that holds our tables, which is that of `connection`. Callers add up over
        the parts.
        """
        yield self._with_pictures()[0].where(self._within(*self._bounds(connection, day))).subquery()

    def older_parts(self, connection: Connection, day: Day, num_images: int) -> Iterator[Subquery]:
        """Yield about the last `num_images` images of earlier days, as relations like those of `parts`."""
        older = self._within(*self._older_bounds(connection, day, num_images))
        yield self._with_pictures()[0].where(older).subquery()

    def _read_pages(self, statement: Query, bounds: Bounds, size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of `size` rows, which must have ids to go on after; the last one is shorter.

        The rows after a page are read in two steps: first those with the time of its last row, then those with later
        times. In one condition, (time, id) > (…), SQLite would read all rows of that time again for each page, and
        MariaDB all of the day; files that arrived together share one time. For the same reason no step has two bounds
        on one side.
        """
        pages, (_, end) = statement.where(self._is_written_for(bounds)).order_by(self.time, self.id), bounds
        page = self._read_page(pages.where(self._within(*bounds)).limit(size))
        while len(page) == size:
            yield page
            last_id, _, last_time = page[-1][:3]
            page = self._read_page(pages.where(self.time == last_time, self.id > last_id).limit(size))
            if missing := size - len(page):
                later = pages.where(self.time > last_time, self.time < end)
                page = [*page, *self._read_page(later.limit(missing))]
        yield page

    def _every_page(self, bounds: Bounds, size: int) -> Iterator[Sequence[Any]]:
        """Yield the pages of `_read_pages` with the rows that share the last one's id, then rows without an id."""
        for page in self._read_pages(self.with_id(), bounds, size):
            yield page
            if len(page) == size and not self.has_key:
                last_id, _, last_time = page[-1][:3]
                num_read = sum(row[0] == last_id and row[2] == last_time for row in page)
                yield from self._read_alike(and_(self.time == last_time, self.id == last_id), size, num_read)
        if not self.has_key:
            yield from self._read_alike(and_(self.id.is_(None), self._within(*bounds)), size)

    def _read_alike(self, alike: ColumnElement[bool], size: int, num_read: int = 0) -> Iterator[Sequence[Any]]:
        """Yield pages of the rows of which none can be told to come after another one, without the first `num_read`."""
        rows = self.listed().where(alike).order_by(self.time, self.id)
        while page := self._read_page(rows.limit(size).offset(num_read)):
            yield page
            num_read += len(page)

    def _read_page(self, statement: Query) -> Sequence[Any]:
        def read(connection: Connection) -> Sequence[object]:
            backend_of(connection).plan_for_pages(connection)
            return connection.execute(statement).all()

        return self.database.ask(read)

    def count_without_time(self) -> int:
        """Count the images that belong to no day: without a time, or with one that is none or of no year of ours."""
        counted = select(func.count()).select_from(self.relation)
        with self.database.read() as connection:
            (start, _), (end, _) = (self._whole_bounds(connection, day) for day in (FIRST_DAY, LAST_DAY))
            is_dated = self._within(start, end) if self._examples else self.time.is_not(None)
            return connection.scalar(counted.where(or_(self.time.is_(None), ~is_dated))) or 0

    @property
    def id_limit(self) -> int | None:
        """Return the maximum length of an id in characters, or None if there is no limit."""
        return MAX_ID if self.database.backend.has_text_limits else None

    def in_day(self, connection: Connection, day: Day) -> Query:
        """Return a SELECT of id, location, time and id as text of the day's images: our tables hold ids as text."""
        return self.listed().where(self._within(*self._bounds(connection, day)))

    def listed(self) -> Query:
        """Return a SELECT of id, location, time and id as text of all images."""
        # A label of its own: if it were `id`, ORDER BY id would sort by it.
        as_text = self.id_text.label("infer_image_id")
        return select(self.id, self.location, self.time, as_text).select_from(self.relation)

    def with_id(self) -> Query:
        """Return what `listed` does, without rows whose id is NULL."""
        return self.listed().where(self.id.is_not(None))

    def key_of(self, image_id: str, location: object) -> int:
        """Return by what a row's picture is found: of our own list its number, which is the id."""
        if self.registered:
            return int(image_id)
        return picture_key(image_id, stored_location(as_location(location)))

    def _with_pictures(self) -> tuple[Query, Picture]:
        """Return what `listed` does with the numbers of the images' pictures, and their column."""
        if self.registered:
            return self.listed().add_columns(self.id.label("infer_picture")), self.id
        is_it = is_listed_picture(PictureKey(self.id_text, self.location))
        joined = KeyedJoin(self.relation, pictures, is_it, True)
        listed = self.listed().select_from(joined).where(*self.conditions)
        return listed.add_columns(pictures.c.id.label("infer_picture")), pictures.c.id

    def _of_camera(self, camera: str) -> Query:
        """Select the rows that are of a camera as far as a column or the program's own list tells it."""
        column, rows = self.settings.camera_column, select(self.relation)
        if column is None:
            self.conditions = (AsText(pictures.c.camera) == storable_camera(camera),)
            read = select(pictures.c.id).where(*self.conditions)
            return rows.where(self.relation.c[self.settings.id].in_(read)) if self.registered else rows
        named = self.relation.c[column]
        values = self.database.ask(lambda connection: connection.execute(select(named, AsText(named)).distinct()).all())
        its = [as_text for value, as_text in values if storable_camera(value) == storable_camera(camera)]
        if not its:
            raise UsageError(f"no image is of a camera {camera!r}", "`infer cameras list` names those with images")
        is_named = AsText(named).in_([one for one in its if one is not None])
        return rows.where(or_(is_named, named.is_(None)) if None in its else is_named)

    def nearest_date(self, day: Day) -> date | None:
        """Return the date, in the day's zone, of the image nearest to the day, or None without images."""
        with self.database.read() as connection:
            start, end = self._bounds(connection, day)
            times = self._times(connection, day)
            before = connection.scalar(times.where(self.time < start).order_by(self.time.desc()).limit(1))
            after = connection.scalar(times.where(self.time >= end).order_by(self.time).limit(1))
        found = [time for time in (read_time(before, self.zone), read_time(after, self.zone)) if time]
        nearest = min(found, key=lambda time: abs(time - day.start), default=None)
        return None if nearest is None else nearest.astimezone(find_zone(day.zone)).date()

    def latest_date(self, day: Day) -> date | None:
        """Return the date, in the day's zone, of the latest image up to the end of the day, or None."""
        with self.database.read() as connection:
            _, end = self._bounds(connection, day)
            times = self._times(connection, day).where(self.time < end)
            latest = read_time(connection.scalar(times.order_by(self.time.desc()).limit(1)), self.zone)
        return None if latest is None else latest.astimezone(find_zone(day.zone)).date()

    def has_forgotten(self, time: datetime | None) -> bool:
        """Return whether an image of this time (UTC) belongs to no day any more."""
        return time is not None and self.forgotten_before is not None and time < self.forgotten_before

    def has_images(self, day: Day) -> bool:
        with self.database.read() as connection:
            return connection.execute(self.in_day(connection, day).limit(1)).first() is not None

    def _older_bounds(self, connection: Connection, day: Day, num_images: int) -> Bounds:
        start, _ = self._bounds(connection, day)
        times = self._times(connection, day).where(self.time < start).order_by(self.time.desc())
        first = connection.scalar(times.offset(num_images - 1).limit(1))
        return self.first_kept(connection, day) if first is None else first, start

    def _times(self, connection: Connection, day: Day) -> Query:
        """Return a SELECT of the times of all images that were not forgotten."""
        return select(self.time).select_from(self.relation).where(self.time >= self.first_kept(connection, day))

    def _within(self, start: object, end: object) -> ColumnElement[bool]:
        return and_(self.time >= start, self.time < end, self._is_written_for((start, end)))

    def _is_written_for(self, bounds: Bounds) -> ColumnElement[bool]:
        """Return the condition that a text can be compared with bounds: 2026/11/20 is after 2026-12-31 as text."""
        return self.time.like("____-__-__%") if isinstance(bounds[1], str) else true()

    def _bounds(self, connection: Connection, day: Day) -> Bounds:
        """Return the bounds of the day in the unit and format of the column, without what was forgotten of it."""
        start, end = self._whole_bounds(connection, day)
        if self.forgotten_before is None or day.start >= self.forgotten_before:
            return start, end
        return (end if day.end <= self.forgotten_before else self.first_kept(connection, day)), end

    def first_kept(self, connection: Connection, day: Day) -> object:
        """Return the least time, as the column has it, of images that belong to a day."""
        if self.forgotten_before is None:
            return self._whole_bounds(connection, FIRST_DAY)[0]
        first = Day.of(self.forgotten_before.astimezone(find_zone(day.zone)).date(), day.zone)
        return self._whole_bounds(connection, replace(first, start=self.forgotten_before))[0]

    def _whole_bounds(self, connection: Connection, day: Day) -> Bounds:
        """Return the bounds of the day in the unit and format of the column."""
        self._examples = self._examples or read_examples(connection, self.time, self.relation)
        if not self._examples and self.database.backend.has_typed_columns:
            nothing: object = literal_column("NULL")  # a server can't compare a time with a column of another type
            return nothing, nothing
        return day_bounds(day, self.settings.time, self._examples, self.zone)


def relation_of(settings: SourceSettings) -> FromClause:
    """Return the user's table, view or query as a FROM clause."""
    location = settings.location if settings.bytes is None or settings.has_files_too else None
    keys = settings.id, settings.bytes, location, settings.time, settings.camera_column, settings.taken
    names = dict.fromkeys(name for name in keys if name is not None)
    if settings.query is not None:
        return text(settings.query.replace(":", r"\:")).columns(*map(column, names)).subquery("source")
    schema, _, name = settings.table.rpartition(".")
    return lightweight_table(name, *map(column, names), schema=schema or None)


def is_listed_picture(key: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a row of `pictures` is that of a row of the user's, by its key."""
    return and_(pictures.c.key == key, pictures.c.registered == 0)


def new_image(row: Row[Any]) -> NewImage:
    """Return the image of a row of a part and, for several models, whether it is new for each."""
    _, location, _, id_text, picture, *is_new = tuple(row)
    model_indices = tuple(index for index, new in enumerate(is_new) if new) if is_new else (0,)
    return NewImage(ImageRef(storable_id(id_text), as_location(location)), model_indices, picture=picture)


def storable_camera(named: object) -> str:
    """Return the name of a camera as it is stored, without blanks around it; empty for none."""
    return "" if named is None else escape_unstorable(str(named))[:MAX_ID].strip()


def storable_id(text: str) -> str:
    if not is_utf8(text):
        raise UsageError(f"the id {text!r} is not text in UTF-8", "fix it, or exclude it by a query")
    return text


MAX_DIGITS = 19  # of a number that every database holds
MAX_MATCHES = 5  # shown to an operator


def find_by_id(source: Source, image_id: str, day: Day | None = None) -> list[tuple[str, datetime | None]]:
    """Return location and time (UTC) of the images with an id: one image, or several if the id is not unique.

    Without a day the whole source is read.
    """
    with source.database.read() as connection:
        among = source.listed() if day is None else source.in_day(connection, day)
        rows = connection.execute(among.where(source.id_text == image_id).limit(MAX_MATCHES)).all()
    return [(as_location(row[1]), read_time(row[2], source.zone)) for row in rows]


def find_locations(source: Source, image_ids: Collection[str], of_days: Day | None = None) -> dict[str, list[str]]:
    """Return the locations of the images with these ids; the whole source is read, once.

    With a day, which tells the zone of days, only those that belong to one: no day that was forgotten.
    """
    found, listed, wanted = defaultdict[str, list[str]](list), source.listed(), set(image_ids)
    if not wanted:
        return found
    if len(wanted) <= source.page_size:
        numbers = (int(one) for one in wanted if one.isdecimal() and len(one) < MAX_DIGITS)
        listed = listed.where(source.id.in_(numbers) if source.has_key else source.id_text.in_(wanted))
    with source.database.read() as connection:
        if of_days is not None:
            listed = listed.where(source.time >= source.first_kept(connection, of_days))
        for row in connection.execution_options(yield_per=source.page_size).execute(listed):
            if row[3] in wanted:
                found[row[3]].append(as_location(row[1]))
    return found


def find_listed(source: Source, numbers: Collection[int], of_days: Day | None = None) -> dict[int, str | None]:
    """Return the listed locations of pictures, None of one whose id is listed at another location.

    `of_days`: as of `find_locations`.
    """
    rows = list[Row[Any]]()
    with source.results.read() as connection:
        for some in in_batches(numbers):
            its = select(pictures.c.id, pictures.c.image_id, pictures.c.location).where(pictures.c.id.in_(some))
            rows += connection.execute(its.where(source.own_pictures))
    listed, found = find_locations(source, [row.image_id for row in rows], of_days), dict[int, str | None]()
    for row in rows:
        if places := listed.get(row.image_id):
            is_it = (one for one in places if source.registered or stored_location(one) == row.location)
            found[row.id] = next(is_it, None)
    return found


def find_similar(source: Source, text: str) -> list[tuple[str, str]]:
    """Return (id, location) of some images whose id begins with `text`, or whose location contains it."""
    begins, holds = (
        source.id_text.startswith(text, autoescape=True),
        AsText(source.location).contains(text, autoescape=True),
    )
    with source.database.read() as connection:
        rows = connection.execute(source.listed().where(or_(begins, holds)).limit(MAX_MATCHES)).all()
    return [(row[3], as_location(row[1])) for row in rows]
