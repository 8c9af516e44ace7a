"""What walks over the watched folders find out about registered images: missing, replaced or moved with their folder.

It is stored with the image: since when its file is missing, and the checksum of a file that has another size or time
than before. An image is replaced as long as a prediction is of other bytes; this is read from the rows each time.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    and_,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from infer_app.base.day import Day
from infer_app.base.domain import ImageFile
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.recorded_sources import our_picture
from infer_app.tables.listing.source import Source
from infer_app.tables.results.conditions import count_each, join_results
from infer_app.tables.results.runs import refuse_during_runs
from infer_app.tables.results.schema import images, predictions

ROWS_AT_ONCE = 5000  # in memory
ROWS_PER_UPDATE = 500
IDS_PER_PAGE = 1 << 15


def is_below(folders: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that an image is in one of the folders, whose names end in a slash, or below it.

    SQLite's LIKE would take /Photos/ and /photos/ for one.
    """
    return or_(False, *(func.substr(images.c.location, 1, len(folder)) == folder for folder in folders))


def has_images_in(database: Database, folders: Sequence[str]) -> bool:
    """Return whether an image in one of the folders is registered; all locations may be read for it."""
    return _read_first(database, select(images.c.id).where(is_below(folders)).limit(1)) is not None


def count_missing(database: Database, folders: Sequence[str]) -> tuple[int, int]:
    """Return how many images in some folders are missing, and how many are registered there."""
    below = is_below(folders)
    with database.read() as connection:
        num_missing, num_images = count_each(
            connection, images, [and_(below, images.c.missing_since.is_not(None)), below]
        )
    return num_missing, num_images


class SeenImages:
    """Which of the images below some folders a walk has seen, of those registered before it: a bit for each."""

    def __init__(self, database: Database, folders: Sequence[str]) -> None:
        self._database = database
        self._last = _read_first(database, select(func.max(images.c.id))) or 0
        self._pages: defaultdict[int, bytearray] = defaultdict(lambda: bytearray(IDS_PER_PAGE // 8))
        self._wanted = and_(is_below(folders), images.c.missing_since.is_(None), images.c.id <= self._last)

    def add(self, ids: Iterable[int]) -> None:
        for row_id in ids:
            if row_id <= self._last:
                page, place = divmod(row_id, IDS_PER_PAGE)
                self._pages[page][place >> 3] |= 1 << (place & 7)

    def __contains__(self, row_id: int) -> bool:
        page, place = divmod(row_id, IDS_PER_PAGE)
        return page in self._pages and bool(self._pages[page][place >> 3] & 1 << (place & 7))

    def __len__(self) -> int:
        return sum(int.from_bytes(page).bit_count() for page in self._pages.values())

    def read_others(self) -> list[tuple[int, str]]:
        """Return (id, location) of the images not seen that were there before; one count shows that there are none."""
        return self._database.ask(self._read_others)

    def _read_others(self, connection: Connection) -> list[tuple[int, str]]:
        if connection.scalar(select(func.count()).select_from(images).where(self._wanted)) == len(self):
            return []
        wanted = select(images.c.id, images.c.location).where(self._wanted)
        rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted)
        return [(row.id, row.location) for row in rows if row.id not in self]


def _read_first(database: Database, statement: Query) -> int | None:
    first: int | None = database.ask(lambda connection: connection.scalar(statement))
    return first


def mark_missing(database: Database, ids: Sequence[int]) -> None:
    """Store that the files of these images are gone."""
    now = datetime.now(UTC).replace(tzinfo=None)

    def mark(connection: Connection, some: Sequence[int]) -> None:
        gone = images.c.id.in_(some), images.c.missing_since.is_(None)
        connection.execute(update(images).where(*gone).values(missing_since=now))

    for first in range(0, len(ids), ROWS_PER_UPDATE):
        database.transact(partial(mark, some=ids[first : first + ROWS_PER_UPDATE]))


class RegisteredElsewhere:
    """The images that are registered outside of some folders: those that were moved may be among them."""

    def __init__(self, database: Database, folders: Sequence[str]) -> None:
        self._database = database
        self._outside = ~is_below(folders)

    def __bool__(self) -> bool:
        return _read_first(self._database, select(images.c.id).where(self._outside).limit(1)) is not None

    def read_locations(self, sizes: Iterable[int | None]) -> Iterator[tuple[str, int]]:
        """Yield (location, size in bytes) of those of some sizes; all rows are read for it."""
        wanted = select(images.c.location, images.c.size).where(images.c.size.in_(set(sizes)), self._outside)
        with self._database.read() as connection:
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted)
            yield from ((row[0], row[1]) for row in rows)

    def read_ids(self, folder: str) -> array[int]:
        """Return the ids of those below a folder, in their order: 8 bytes for each."""
        wanted = select(images.c.id).where(self._outside, is_below([folder]), images.c.missing_since.is_(None))

        def read(connection: Connection) -> array[int]:
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).scalars(wanted.order_by(images.c.id))
            return array("q", rows)

        return self._database.ask(read)

    def read_locations_of(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Return (id, location) of images in the order of their ids."""
        wanted = select(images.c.id, images.c.location).where(images.c.id.in_(ids)).order_by(images.c.id)
        return [(row.id, row.location) for row in self._database.ask(lambda one: one.execute(wanted).all())]

    def read_files(self, ids: Sequence[int]) -> list[tuple[ImageFile, set[str]]]:
        """Return the files of images, as they were registered, with all checksums that they had."""
        columns = (images.c.id, images.c.location, images.c.size, images.c.modified, images.c.sha256)
        picture = our_picture(self._database)

        def read(connection: Connection) -> tuple[Sequence[Any], Sequence[Any]]:
            rows = connection.execute(select(*columns).where(images.c.id.in_(ids)).order_by(images.c.id)).all()
            its = join_results(images, predictions, picture)
            hashed = select(images.c.id, predictions.c.sha256).select_from(its).where(images.c.id.in_(ids))
            return rows, connection.execute(hashed).all()

        rows, hashed = self._database.ask(read)
        known = {row.id: {row.sha256} for row in rows}
        for image_id, sha256 in hashed:
            known[image_id].add(sha256)
        return [(ImageFile(*row[1:4]), known[row.id] - {None}) for row in rows]

    def move(self, old: str, new: str, ids: Sequence[int] | None = None) -> int:
        """Store that what is registered below a folder, or some of it, is below another one; return how many images.

        Raises DayHeld while a run is active, which reads them where they were.
        """
        moved = literal(new, images.c.location.type) + func.substr(images.c.location, len(old) + 1, type_=String)
        below = update(images).where(self._outside, is_below([old])).values(location=moved)

        def move(connection: Connection) -> int:
            refuse_during_runs(connection)
            if ids is None:
                return connection.execute(below).rowcount
            parts = (ids[first : first + ROWS_PER_UPDATE] for first in range(0, len(ids), ROWS_PER_UPDATE))
            return sum(connection.execute(below.where(images.c.id.in_(some))).rowcount for some in parts)

        return self._database.transact(move)


@dataclass(frozen=True, slots=True)
class ChangedImage:
    """An image whose file is gone, or is another one than that predicted."""

    image_id: str
    location: str
    time: datetime  # UTC
    missing_since: datetime | None  # UTC; None: replaced

    @property
    def state(self) -> str:
        return "replaced" if self.missing_since is None else "missing"


@dataclass(frozen=True, slots=True)
class ChangedCounts:
    """How many images were replaced, and how many are missing."""

    replaced: int = 0
    missing: int = 0


UNCHANGED = ChangedCounts()


def count_changed(
    database: Database, source: Source, model_ids: Sequence[str], day: Day | None = None
) -> ChangedCounts:
    """Count the images, of a day or of all, that `read_changed` yields."""
    if not _is_known(database, source):
        return UNCHANGED
    states = (_is_replaced(source, model_ids), images.c.missing_since.is_not(None))
    with database.read() as connection:
        return ChangedCounts(*count_each(connection, images, [and_(*_listed(day), state) for state in states]))


def read_changed(
    database: Database, source: Source, model_ids: Sequence[str], day: Day | None = None
) -> Iterator[ChangedImage]:
    """Yield the images, of a day or of all, that are missing, or of which a model predicted other bytes, by time."""
    if not _is_known(database, source):
        return
    columns = (images.c.id, images.c.location, images.c.added_at, images.c.missing_since)
    changed = or_(images.c.missing_since.is_not(None), _is_replaced(source, model_ids))
    wanted = select(*columns).where(*_listed(day), changed).order_by(images.c.added_at, images.c.id)
    page = wanted
    while True:  # a transaction for each page: its reader may take its time, and an open read can block commits
        with database.read() as connection:
            rows = connection.execute(page.limit(ROWS_AT_ONCE)).all()
        for row_id, location, time, missing_since in rows:
            since = None if missing_since is None else missing_since.replace(tzinfo=UTC)
            yield ChangedImage(str(row_id), location, time.replace(tzinfo=UTC), since)
        if len(rows) < ROWS_AT_ONCE:
            return
        page = wanted.where(tuple_(images.c.added_at, images.c.id) > tuple_(time, row_id))


def _is_known(database: Database, source: Source) -> bool:
    return source.is_ours and source.database is database


def _is_replaced(source: Source, model_ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a prediction is of other bytes: for the few images whose file was looked at again.

    Of one without a checksum, as a remote one, the size tells.
    """
    one: ColumnElement[int] = literal_column("1")
    its = source.picture.of_our_table.owns(predictions), predictions.c.model_id.in_(model_ids)
    has_checksum = images.c.sha256 != ""
    is_other = predictions.c.sha256 != images.c.sha256, or_(has_checksum, predictions.c.size != images.c.size)
    of_others = select(one).where(*its, *is_other).limit(one).scalar_subquery()
    return and_(images.c.missing_since.is_(None), images.c.sha256.is_not(None), of_others.is_not(None))


def _listed(day: Day | None) -> list[ColumnElement[bool]]:
    if day is None:
        return []
    return [images.c.added_at >= day.start.replace(tzinfo=None), images.c.added_at < day.end.replace(tzinfo=None)]
