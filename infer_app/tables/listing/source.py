"""Lists images: those that are registered here, or the rows of the user's table as the program knows them.

Whatever is asked of images is asked of this list. `update_list` keeps it as the user's table is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Row,
    String,
    Subquery,
    TypeDecorator,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    true,
    type_coerce,
)

from infer_app.base.day import Day, each_date, find_zone, naive
from infer_app.base.domain import ImageRef, NewImage
from infer_app.base.locations import listed_location
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import AsText, Query
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.listing.image_registry import CameraOf
from infer_app.tables.listing.user_table import PAGE_SIZE, TableRow, UserTable, key_of, storable_camera
from infer_app.tables.results.conditions import new_among
from infer_app.tables.results.schema import pictures, predictions

MAX_MATCHES = 5  # shown to an operator


class Source:
    """Lists the images of `database`, which has our tables: of the user's table, or those that are registered here."""

    def __init__(
        self, database: Database, table: UserTable | None = None, camera: str | None = None, page_size: int = PAGE_SIZE
    ) -> None:
        self.database = database
        self.table = table
        self.camera = camera
        self.page_size = page_size
        self.registered = table is None
        self.forgotten_before: datetime | None = None  # UTC; images of earlier times belong to no day any more
        self.camera_of: CameraOf | None = None  # None: no setting tells cameras
        self.expects_daily = False  # whether each camera is to bring images every day, of which nothing else is set
        self.not_asked = ""  # why the user's table can't be read
        self.asks_table = False  # whether rows that are not listed yet count as pending; of runs there are none
        self._num_unlisted: dict[date, int] = {}

    @property
    def own_pictures(self) -> ColumnElement[bool]:
        """Return the condition that a picture is of the kind that it lists: registered here, or rows of the user's."""
        return pictures.c.registered == int(self.registered)

    @property
    def is_listed(self) -> ColumnElement[bool]:
        """Return the condition that a picture is listed now, and of the camera."""
        of_camera = [] if self.camera is None else [AsText(pictures.c.camera) == storable_camera(self.camera)]
        return and_(self.own_pictures, pictures.c.unlisted_since.is_(None), *of_camera)

    def images_of(self, days: Day) -> Subquery:
        """Return the images of an interval of days as a relation.

        Its columns are the picture's number, the location, the time (naive UTC), the id as text, and the number again,
        which `conditions.picture_of` reads.
        """
        return self._listed(days).where(*self.within(days)).subquery()

    def older_than(self, connection: Connection, day: Day, num_images: int) -> Subquery:
        """Return about the last `num_images` images of earlier days, as `images_of` does."""
        times = self._times().where(pictures.c.added_at < naive(day.start)).order_by(pictures.c.added_at.desc())
        first = connection.scalar(times.offset(num_images - 1).limit(1))
        since = [] if first is None else [pictures.c.added_at >= first]
        older = (self.is_kept, pictures.c.added_at < naive(day.start), *since)
        return self._listed(day).where(*older).subquery()

    def select_new(self, day: Day, model_id: str) -> Iterator[ImageRef]:
        """Yield the day's images with neither a prediction nor a settled rejection, in order of time."""
        for page in self.select_pages(day, model_id):
            yield from (new.ref for new in page)

    def select_pages(self, day: Day, *model_ids: str) -> Iterator[list[NewImage]]:
        """Yield pages of the images that are new for at least one of the models; any page may be empty."""
        new = new_among(self._listed(day), pictures.c.id, model_ids)
        for page in self._read_pages(new, self.within(day), self.page_size):
            yield [_new_image(row) for row in page]

    def list_pages(self, day: Day | None, size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of a day's images, or of all, as `images_of` has them, each read in its own transaction."""
        return self._read_pages(self._listed(day), _ALWAYS if day is None else self.within(day), size)

    def list_pages_before(self, day: Day, size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of the images of earlier days as `list_pages` does, those that were forgotten too."""
        within = (pictures.c.added_at.is_not(None), pictures.c.added_at < naive(day.start))
        return self._read_pages(self._listed(day), within, size)

    def images_in(self, page: Sequence[Any], days: Day) -> Subquery:
        """Return the images of a page of `list_pages` as `images_of` does."""
        return self._listed(days).where(pictures.c.id.in_([row[0] for row in page])).subquery()

    def _read_pages(self, statement: Query, within: _Bounds, size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of `size` rows between two bounds; the last one is shorter.

        The rows after a page are read in two steps: first those with the time of its last row, then those with later
        times. In one condition, (time, id) > (…), SQLite would read all rows of that time again for each page, and
        MariaDB all of the day; files that arrived together share one time. For the same reason no step has two bounds
        on one side.
        """
        at, number = pictures.c.added_at, pictures.c.id
        pages, (_, end) = statement.order_by(at, number), within
        page = self._read_page(pages.where(*within).limit(size))
        while len(page) == size:
            yield page
            last, time = page[-1][0], page[-1][2]
            page = self._read_page(pages.where(at == time, number > last).limit(size))
            if missing := size - len(page):
                page = [*page, *self._read_page(pages.where(at > time, end).limit(missing))]
        yield page

    def _read_page(self, statement: Query) -> Sequence[Any]:
        def read(connection: Connection) -> Sequence[Any]:
            backend_of(connection).plan_for_pages(connection)
            return connection.execute(statement).all()

        return self.database.ask(read)

    def _listed(self, days: Day | None) -> Query:
        location: ColumnElement[Any] = pictures.c.location
        if self.table is not None:  # which alone has the secrets of a URL: each is known by its picture's key
            is_masked = and_(location.like("%://%"), or_(location.like("%?***"), location.like("%://***@%")))
            with_key = location.concat(_SEPARATOR).concat(AsText(pictures.c.key))
            read_secrets = dict[int, str] if self.not_asked else partial(self.table.read_secrets, days)
            location = type_coerce(case((is_masked, with_key), else_=location), _ListedLocation(read_secrets))
        columns = (
            pictures.c.id,
            location.label("location"),
            pictures.c.added_at,
            pictures.c.image_id.label("infer_image_id"),
            pictures.c.id.label("infer_picture"),
        )
        return select(*columns).where(self.is_listed)

    def within(self, days: Day) -> _Bounds:
        """Return the conditions that a picture is of an interval of days, and was not forgotten."""
        start = days.start if self.forgotten_before is None else max(days.start, self.forgotten_before)
        return pictures.c.added_at >= naive(start), pictures.c.added_at < naive(days.end)

    @property
    def is_kept(self) -> ColumnElement[bool]:
        """Return the condition that a picture belongs to a day that was not forgotten."""
        at = pictures.c.added_at
        return at.is_not(None) if self.forgotten_before is None else at >= naive(self.forgotten_before)

    def _times(self) -> Query:
        return select(pictures.c.added_at).where(self.is_listed, self.is_kept)

    def read_unlisted(self, days: Day) -> Iterator[TableRow]:
        """Yield the rows of the user's table, of an interval of days, that are not listed yet."""
        table = None if self.not_asked else self.table
        if table is None:
            return
        wanted = None if self.camera is None else storable_camera(self.camera)
        for page in table.read_first(table.database.ask(partial(table.find_interval, days=days))):
            rows = {row.key: row for row in filter(self.counts, page)}
            known = self.database.ask(partial(_listed_among, keys=list(rows)))
            for key, row in rows.items():
                if key not in known and (wanted is None or self.camera_of_row(row) == wanted):
                    yield row

    def counts(self, row: TableRow) -> bool:
        """Return whether a row of the user's table belongs to a day: it has a time, and was not forgotten."""
        return row.time is not None and not self.has_forgotten(row.time)

    def camera_of_row(self, row: TableRow) -> str | None:
        """Return the camera of a row of the user's table; None: no setting tells cameras."""
        return self.camera_of(row.camera, row.location) if self.camera_of else None

    def note_unlisted(self, days: Day) -> None:
        """Count the rows of an interval of days that are not listed yet, all days in one read of the user's table."""
        zone = find_zone(days.zone)
        found = Counter(row.time.astimezone(zone).date() for row in self.read_unlisted(days) if row.time)
        last = (days.end - timedelta(seconds=1)).astimezone(zone).date()
        self._num_unlisted |= {one: found[one] for one in each_date(days.date, last)}

    def count_unlisted(self, day: Day) -> int:
        """Return how many rows of a day are not listed yet, if the table is to be asked."""
        if self.asks_table and day.date not in self._num_unlisted:
            self.note_unlisted(day)
        return self._num_unlisted.get(day.date, 0)

    def read_refs(self, day: Day) -> Iterator[ImageRef]:
        """Yield the images of a day, whether or not they have a result, and those that are not listed yet."""
        for page in self.list_pages(day, self.page_size):
            yield from (ImageRef(row[3], row[1]) for row in page)
        yield from (ImageRef(row.image_id, row.location) for row in self.read_unlisted(day))

    def nearest_date(self, day: Day) -> date | None:
        """Return the date, in the day's zone, of the image nearest to the day, or None without images."""
        at, times = pictures.c.added_at, self._times()
        with self.database.read() as connection:
            before = connection.scalar(times.where(at < naive(day.start)).order_by(at.desc()).limit(1))
            after = connection.scalar(times.where(at >= naive(day.end)).order_by(at).limit(1))
        found = [time.replace(tzinfo=UTC) for time in (before, after) if time]
        if self.table is not None and not self.not_asked:
            found += self.table.nearest_times(day, self.forgotten_before)
        nearest = min(found, key=lambda time: abs(time - day.start), default=None)
        return None if nearest is None else nearest.astimezone(find_zone(day.zone)).date()

    def latest_date(self, day: Day) -> date | None:
        """Return the date, in the day's zone, of the latest image up to the end of the day, or None."""
        times = self._times().where(pictures.c.added_at < naive(day.end)).order_by(pictures.c.added_at.desc())
        latest = self.database.ask(lambda connection: connection.scalar(times.limit(1)))
        found = [] if latest is None else [latest.replace(tzinfo=UTC)]
        if self.table is not None and not self.not_asked:
            of_table = self.table.nearest_times(day.before(-1), self.forgotten_before)
            found += [time for time in of_table if time < day.end]
        return max(found).astimezone(find_zone(day.zone)).date() if found else None

    def has_forgotten(self, time: datetime | None) -> bool:
        """Return whether an image of this time (UTC) belongs to no day any more."""
        return time is not None and self.forgotten_before is not None and time < self.forgotten_before

    def has_images(self, day: Day) -> bool:
        return bool(self._read_page(self._listed(day).where(*self.within(day)).limit(1)))

    def find_by_id(self, image_id: str, day: Day | None = None) -> list[tuple[str, datetime | None]]:
        """Return location and time (UTC) of the images with an id, of a day or of all, some at most.

        One that is not listed yet is looked for in the user's table.
        """
        within = () if day is None else self.within(day)
        its = self._read_page(self._listed(day).where(pictures.c.image_id == image_id, *within).limit(MAX_MATCHES))
        found = [(row[1], row[2] and row[2].replace(tzinfo=UTC)) for row in its]
        if found or self.table is None or self.not_asked:
            return found
        rows = self.table.find_rows([image_id])
        return [
            (row.location, row.time)
            for row in rows
            if day is None or (row.time is not None and day.start <= row.time < day.end)
        ][:MAX_MATCHES]

    def find_picture(self, image_id: str, location: str | None) -> int | None:
        """Return the number of an image's picture, or None if it has none.

        Without a location it is one that is no longer listed: the last one with the id.
        """
        is_it = and_(pictures.c.image_id == image_id, self.own_pictures)
        if location is not None and not self.registered:
            is_it = and_(is_it, pictures.c.key == key_of(image_id, location))
        its = select(func.max(pictures.c.id)).where(is_it)
        found: int | None = self.database.ask(lambda connection: connection.scalar(its))
        return found

    def find_listed(self, numbers: Collection[int], kept: bool = False) -> dict[int, str]:
        """Return the locations of those of the pictures that are listed; `kept`: of days that were not forgotten."""
        found = dict[int, str]()
        for some in in_batches(numbers):
            its = self._listed(None).where(pictures.c.id.in_(some), *([self.is_kept] if kept else []))
            found |= {row[0]: row[1] for row in self._read_page(its)}
        return found

    def find_similar(self, text: str) -> list[tuple[str, str]]:
        """Return (id, location) of some images whose id begins with `text`, or whose location contains it."""
        begins = pictures.c.image_id.startswith(text, autoescape=True)
        holds = pictures.c.location.contains(text, autoescape=True)
        rows = self._read_page(self._listed(None).where(or_(begins, holds)).limit(MAX_MATCHES))
        return [(row[3], row[1]) for row in rows]


_Bounds = tuple[ColumnElement[bool], ColumnElement[bool]]
_ALWAYS: _Bounds = (pictures.c.added_at.is_not(None), true())
_SEPARATOR = "\n"
_MASKED = re.compile(r"(.*://.*\*\*\*.*)" + _SEPARATOR + r"(-?\d+)", re.DOTALL)


class _ListedLocation(TypeDecorator[str]):
    """Returns locations as the user's table has them: `listed_location` of the stored ones, or what the table knows."""

    impl = String
    cache_ok = False

    def __init__(self, read_secrets: Callable[[], Mapping[int, str]]) -> None:
        super().__init__()
        self._read_secrets = read_secrets

    def process_result_value(self, value: str | None, dialect: Dialect) -> str:
        masked = _MASKED.fullmatch(value or "")
        return self._read_secrets().get(int(masked[2]), masked[1]) if masked else listed_location(value or "")


def _listed_among(connection: Connection, keys: Sequence[int]) -> set[int]:
    """Return the keys of the rows that are listed, or that have results again once a run lists them."""
    has_result = exists().where(predictions.c.picture == pictures.c.id)
    is_known = or_(pictures.c.unlisted_since.is_(None), has_result)
    listed = select(pictures.c.key).where(pictures.c.registered == 0, is_known)
    return {key for some in in_batches(keys) for key in connection.scalars(listed.where(pictures.c.key.in_(some)))}


def _new_image(row: Row[Any]) -> NewImage:
    """Return the image of a row and, for several models, whether it is new for each."""
    _, location, _, image_id, picture, *is_new = tuple(row)
    model_indices = tuple(index for index, new in enumerate(is_new) if new) if is_new else (0,)
    return NewImage(ImageRef(image_id, location), model_indices, picture=picture)
