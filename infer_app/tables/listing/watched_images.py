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

from sqlalchemy import ColumnElement, Connection, and_, func, literal_column, or_, select, tuple_, update

from infer_app.base.day import Day
from infer_app.base.domain import ImageFile
from infer_app.base.locations import picture_key
from infer_app.base.printing import counted, one_line
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.stored_notices import event, record
from infer_app.tables.results.conditions import count_each
from infer_app.tables.results.pictures import new_values, set_columns
from infer_app.tables.results.runs import refuse_during_runs
from infer_app.tables.results.schema import pictures, predictions

ROWS_AT_ONCE = 5000  # in memory
ROWS_PER_UPDATE = 500
IDS_PER_PAGE = 1 << 15


def is_below(folders: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that an image is in one of the folders, whose names end in a slash, or below it.

    SQLite's LIKE would take /Photos/ and /photos/ for one.
    """
    below = (func.substr(pictures.c.location, 1, len(folder)) == folder for folder in folders)
    return and_(pictures.c.registered == 1, or_(False, *below))


def has_images_in(database: Database, folders: Sequence[str]) -> bool:
    """Return whether an image in one of the folders is registered; all locations may be read for it."""
    return _read_first(database, select(pictures.c.id).where(is_below(folders)).limit(1)) is not None


def count_missing(database: Database, folders: Sequence[str]) -> tuple[int, int]:
    """Return how many images in some folders are missing, and how many are registered there."""
    below = is_below(folders)
    with database.read() as connection:
        num_missing, num_images = count_each(
            connection, pictures, [and_(below, pictures.c.missing_since.is_not(None)), below]
        )
    return num_missing, num_images


class SeenImages:
    """Which of the images below some folders a walk has seen, of those registered before it: a bit for each."""

    def __init__(self, database: Database, folders: Sequence[str]) -> None:
        self._database = database
        self._last = _read_first(database, select(func.max(pictures.c.id))) or 0
        self._pages: defaultdict[int, bytearray] = defaultdict(lambda: bytearray(IDS_PER_PAGE // 8))
        self._wanted = and_(is_below(folders), pictures.c.missing_since.is_(None), pictures.c.id <= self._last)

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
        if connection.scalar(select(func.count()).select_from(pictures).where(self._wanted)) == len(self):
            return []
        wanted = select(pictures.c.id, pictures.c.location).where(self._wanted).order_by(pictures.c.id)
        rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted)
        return [(row.id, row.location) for row in rows if row.id not in self]


def _read_first(database: Database, statement: Query) -> int | None:
    first: int | None = database.ask(lambda connection: connection.scalar(statement))
    return first


def mark_missing(database: Database, ids: Sequence[int]) -> None:
    """Store that the files of these images are gone."""
    now = datetime.now(UTC).replace(tzinfo=None)

    def mark(connection: Connection, some: Sequence[int]) -> None:
        gone = pictures.c.id.in_(some), pictures.c.missing_since.is_(None)
        connection.execute(update(pictures).where(*gone).values(missing_since=now))

    for first in range(0, len(ids), ROWS_PER_UPDATE):
        database.transact(partial(mark, some=ids[first : first + ROWS_PER_UPDATE]))


class RegisteredElsewhere:
    """The images that are registered outside of some folders: those that were moved may be among them."""

    def __init__(self, database: Database, folders: Sequence[str]) -> None:
        self._database = database
        self._outside = and_(pictures.c.registered == 1, ~is_below(folders))

    def __bool__(self) -> bool:
        return _read_first(self._database, select(pictures.c.id).where(self._outside).limit(1)) is not None

    def read_locations(self, sizes: Iterable[int | None]) -> Iterator[tuple[str, int]]:
        """Yield (location, size in bytes) of those of some sizes; all rows are read for it."""
        wanted = select(pictures.c.location, pictures.c.size).where(pictures.c.size.in_(set(sizes)), self._outside)
        with self._database.read() as connection:
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted)
            yield from ((row[0], row[1]) for row in rows)

    def read_ids(self, folder: str) -> array[int]:
        """Return the ids of those below a folder, in their order: 8 bytes for each."""
        wanted = select(pictures.c.id).where(self._outside, is_below([folder]), pictures.c.missing_since.is_(None))

        def read(connection: Connection) -> array[int]:
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).scalars(wanted.order_by(pictures.c.id))
            return array("q", rows)

        return self._database.ask(read)

    def read_locations_of(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Return (id, location) of images in the order of their ids."""
        wanted = select(pictures.c.id, pictures.c.location).where(pictures.c.id.in_(ids)).order_by(pictures.c.id)
        return [(row.id, row.location) for row in self._database.ask(lambda one: one.execute(wanted).all())]

    def read_files(self, ids: Sequence[int]) -> list[tuple[ImageFile, set[str]]]:
        """Return the files of images, as they were registered, with all checksums that they had."""
        columns = (pictures.c.id, pictures.c.location, pictures.c.size, pictures.c.modified, pictures.c.sha256)

        def read(connection: Connection) -> tuple[Sequence[Any], Sequence[Any]]:
            rows = connection.execute(select(*columns).where(pictures.c.id.in_(ids)).order_by(pictures.c.id)).all()
            hashed = select(predictions.c.picture, predictions.c.sha256).where(predictions.c.picture.in_(ids))
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
        below = select(pictures.c.id, pictures.c.location).where(self._outside, is_below([old])).order_by(pictures.c.id)

        def move(connection: Connection) -> int:
            refuse_during_runs(connection)
            kept = None if ids is None else {*ids}
            rows: list[Any] = [row for row in connection.execute(below) if kept is None or row.id in kept]
            text = f"{counted(len(rows), 'image')} known below {old} are now below {new}"
            if rows:  # else it was stored by a commit whose answer was lost
                record(connection, [event("moved folder", one_line(text), datetime.now(UTC).isoformat())])
            for first in range(0, len(rows), ROWS_PER_UPDATE):
                moved = {row.id: new + row.location[len(old) :] for row in rows[first : first + ROWS_PER_UPDATE]}
                places = [
                    new_values(number, {"location": one, "key": picture_key("", one)}) for number, one in moved.items()
                ]
                connection.execute(_MOVE, places)
            return len(rows)

        return self._database.transact(move)


_MOVE = set_columns("location", "key")


@dataclass(frozen=True, slots=True)
class ChangedImage:
    """An image whose file is gone, or is another one than that predicted."""

    picture: int
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
    if not source.registered:
        return UNCHANGED
    states = (_is_replaced(model_ids), pictures.c.missing_since.is_not(None))
    with database.read() as connection:
        return ChangedCounts(
            *count_each(connection, pictures, [and_(*_listed(source, day), state) for state in states])
        )


def read_changed(
    database: Database, source: Source, model_ids: Sequence[str], day: Day | None = None
) -> Iterator[ChangedImage]:
    """Yield the images, of a day or of all, that are missing, or of which a model predicted other bytes, by time."""
    if not source.registered:
        return
    columns = (pictures.c.id, pictures.c.location, pictures.c.added_at, pictures.c.missing_since)
    changed = or_(pictures.c.missing_since.is_not(None), _is_replaced(model_ids))
    wanted = select(*columns).where(*_listed(source, day), changed).order_by(pictures.c.added_at, pictures.c.id)
    page = wanted
    while True:  # a transaction for each page: its reader may take its time, and an open read can block commits
        with database.read() as connection:
            rows = connection.execute(page.limit(ROWS_AT_ONCE)).all()
        for row_id, location, time, missing_since in rows:
            since = None if missing_since is None else missing_since.replace(tzinfo=UTC)
            yield ChangedImage(row_id, str(row_id), location, time.replace(tzinfo=UTC), since)
        if len(rows) < ROWS_AT_ONCE:
            return
        page = wanted.where(tuple_(pictures.c.added_at, pictures.c.id) > tuple_(time, row_id))


def _is_replaced(model_ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a prediction is of other bytes: for the few images whose file was looked at again.

    A remote one has an empty checksum then, until a run has read it again.
    """
    one: ColumnElement[int] = literal_column("1")
    its = predictions.c.picture == pictures.c.id, predictions.c.model_id.in_(model_ids)
    is_other = (predictions.c.sha256 != pictures.c.sha256,)
    of_others = select(one).where(*its, *is_other).limit(one).scalar_subquery()
    return and_(pictures.c.missing_since.is_(None), pictures.c.sha256.is_not(None), of_others.is_not(None))


def _listed(source: Source, day: Day | None) -> list[ColumnElement[bool]]:
    return [source.is_listed, *([] if day is None else source.within(day))]
