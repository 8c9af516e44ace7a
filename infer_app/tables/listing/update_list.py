"""Brings the list of images up to date with the user's table."""

from __future__ import annotations

import logging
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import compress, islice
from tempfile import SpooledTemporaryFile
from time import time as clock
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, bindparam, select, update

from infer_app.base.day import Day, naive
from infer_app.base.domain import ROW
from infer_app.base.locations import stored_location
from infer_app.base.printing import counted
from infer_app.tables.engine.bulk import BulkUpsert, in_batches
from infer_app.tables.listing.listed_rows import ListedRows, find_sorted
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.source_checks import find_row_security
from infer_app.tables.listing.stored_notices import OF_LISTING, Notice, hold, record
from infer_app.tables.listing.user_table import PAGE_SIZE, SPOOLED_BYTES, TableInterval, TableRow, UserTable, unpickled
from infer_app.tables.results.counters import next_numbers
from infer_app.tables.results.events import dissolve_events
from infer_app.tables.results.pictures import new_values, set_columns
from infer_app.tables.results.project_row import keep_settings, read_settings
from infer_app.tables.results.schema import WITHOUT_CAMERA, WITHOUT_EVENT, pictures

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 500  # that one transaction writes: the user's own program waits for it where both write to one file
MANY = 1000  # rows that are gone at once: was the table emptied, or is it half loaded?
LATELY, A_DAY = timedelta(days=30), timedelta(days=1)
PROBED = 150


@dataclass(slots=True)
class ListChanges:
    """Counts what has changed in the list."""

    num_read: int = field(default=0, compare=False)  # rows
    num_new: int = 0
    num_changed: int = 0  # with another time or camera, or listed again
    num_unlisted: int = 0
    num_shared: int = 0  # rows with the id and location of another one, at another time
    num_hidden: int = 0  # of these, rows with the picture itself, which is another one
    num_unreadable: int = 0  # rows without a time that can be read, which are not listed


def update_list(source: Source, days: Day | None, *, recent: int = 0) -> ListChanges:
    """Let the list of an interval of days, and of the last `recent` rows before it, be as the user's table is.

    Without days all rows are read, and those that are not known stay so. The table is read in one statement, to its
    end, before anything is written: rows that are changed meanwhile are as they were before or after.
    """
    if source.table is None:
        return ListChanges()
    make = partial(_Update, source, source.table)
    before = source.database.ask(read_settings)
    is_other = before not in (None, source.table.read_by)
    if days is not None and (is_other or (recent and _are_back(source, source.table))):
        log.warning(
            "all rows of the images' table are read again: %s",
            "its settings or a time zone have changed" if is_other else "some that were gone are back",
        )
        make(adds=False).run(None, 0)
    if before != source.table.read_by:
        source.database.transact(partial(keep_settings, read_by=source.table.read_by))
    changes = make(adds=days is not None).run(days, recent)
    if changes.num_unlisted:
        level = logging.INFO if changes.num_unlisted <= MANY else logging.WARNING
        log.log(level, "no longer listed, since their rows are gone: %s", counted(changes.num_unlisted, "image"))
    if changes.num_shared:
        log.info("of one picture with another row, by id and location: %s", counted(changes.num_shared, "row"))
    if changes.num_hidden:
        log.error("left out, since another row has the id and time: %s", counted(changes.num_hidden, "picture"))
    if changes.num_unreadable:
        log.warning("left out, since no day has such a time: %s of the table", counted(changes.num_unreadable, "row"))
    # Former days alone say nothing of others.
    is_of_now = recent and days is not None and days.end > datetime.now(UTC) - A_DAY
    store = partial(hold, kinds=OF_LISTING) if is_of_now else record
    source.database.transact(partial(store, found=list(_notices(changes, source.table))))
    return changes


def _notices(changes: ListChanges, table: UserTable) -> Iterator[Notice]:
    """Yield what somebody should look at."""
    for name, policy in () if changes.num_read else find_row_security(table):
        text = (
            f"no row was read, and row security hides rows of {name} from this role; its owner shows them by {policy}"
        )
        yield Notice(OF_LISTING[0], text, subject=name)
    if changes.num_hidden:
        text = (
            f"{counted(changes.num_hidden, 'picture')} in a column left out: another row has the id and time; write a"
            " query that tells them apart, or SELECT DISTINCT if it gives them twice"
        )
        yield Notice(OF_LISTING[0], text)
    if changes.num_unreadable:
        are = "row of the images' table has" if changes.num_unreadable == 1 else "rows of the images' table have"
        yield Notice(OF_LISTING[1], f"{changes.num_unreadable:,} {are} a time that is of no day: no run takes them")


def _are_back(source: Source, table: UserTable) -> bool:
    """Return whether a row of a picture that was found gone lately is there again, such as of a table that was empty.

    Some of the last ones are looked for, by their keys of any day: it may have come back in part.
    """
    lately = source.own_pictures, pictures.c.unlisted_since >= _now() - LATELY
    some = select(pictures.c.image_id, pictures.c.key).where(*lately)
    rows = source.database.ask(
        lambda connection: connection.execute(
            some.order_by(pictures.c.unlisted_since.desc(), pictures.c.key).limit(PROBED)
        ).all()
    )
    gone = {row.key for row in rows}
    found = table.find_rows([row.image_id for row in rows]) if rows else []
    return any(row.key in gone and source.counts(row) for row in found)


class _Change(NamedTuple):
    """Says what becomes of a listed picture."""

    number: int
    added_at: datetime
    camera: str | None
    is_moved: bool = False  # to another camera


@dataclass
class _Update:
    """Updates the list once, of an interval of time."""

    source: Source
    table: UserTable
    adds: bool  # rows that are not known
    changes: ListChanges = field(default_factory=ListChanges)
    _known: ListedRows = field(init=False)
    _written: set[int] = field(default_factory=set)  # keys of pictures that this update has written
    _elsewhere: dict[int, TableRow] = field(default_factory=dict)  # by key, known at a time that was not read

    @cached_property
    def _rows(self) -> BulkUpsert:
        return self.source.database.backend.bulk_upsert(self.source.database.dialect, pictures)

    def run(self, days: Day | None, recent: int) -> ListChanges:
        with SpooledTemporaryFile(SPOOLED_BYTES) as spool:
            self._compare(spool, self.table.database.ask(partial(self.table.find_interval, days=days, recent=recent)))
            for rows in unpickled(spool):
                self._write_page(rows)
        self._look_up()
        return self.changes

    def _compare(self, spool: SpooledTemporaryFile[bytes], interval: TableInterval) -> None:
        """Write down the rows that the list does not have as they are."""
        since, until = (time and naive(time) for time in (interval.since, interval.until))
        if self.source.forgotten_before is not None:
            since = max(since or datetime.min, naive(self.source.forgotten_before))
        read = partial(self._read_known, since=since, until=until)
        self._known = ListedRows(self.source.database.ask(read), since, until)
        in_columns = list[int]()  # keys of rows with the picture itself
        for page in self.table.read_first(interval):
            self.changes.num_read += len(page)
            self.changes.num_unreadable += sum(row.time is None for row in page)
            rows = list(filter(self.source.counts, page))
            in_columns += [row.key for row in rows if row.location.startswith(ROW)]
            keys, facts = [row.key for row in rows], [self._facts(row) for row in rows]
            is_other = self._known.differing(keys, *([hash(one[place]) for one in facts] for place in (0, 1)))
            if others := [(key, row) for key, row, other in zip(keys, rows, is_other, strict=True) if other]:
                pickle.dump(others, spool)
        self.changes.num_hidden = len(in_columns) - len({*in_columns})

    def _read_known(self, connection: Connection, since: datetime | None, until: datetime | None) -> np.ndarray:
        at = pictures.c.added_at
        its = [pictures.c.registered == 0, pictures.c.unlisted_since.is_(None)]
        its += [at >= since] if since else []
        its += [at < until] if until else []
        wanted = select(pictures.c.key, at, pictures.c.camera).where(*its)
        rows = connection.execution_options(yield_per=PAGE_SIZE).execute(wanted)
        names = self.source.camera_of is not None
        found = ((key, hash(time), hash(camera if names else None)) for key, time, camera in rows)
        return np.fromiter(found, ListedRows.TYPE)

    def _facts(self, row: TableRow) -> tuple[datetime, str | None]:
        """Return the time (naive UTC) and the camera of a row that counts; None: no setting tells cameras."""
        time = row.time.replace(tzinfo=None) if row.time else datetime.min
        return time, self.source.camera_of_row(row)

    def _write_page(self, rows: Sequence[tuple[int, TableRow]]) -> None:
        left = iter(rows)
        while some := list(islice(left, ROWS_AT_ONCE)):
            of_pictures = defaultdict[int, list[TableRow]](list)  # rows with one key are one picture
            for key, row in some:
                if key not in self._written:
                    of_pictures[key].append(row)
            new, changed, elsewhere = self.source.database.transact(partial(self._write, of_pictures))
            self._written.update(new, changed)
            self.source.database.pause()
            self._elsewhere |= elsewhere
            self.changes.num_new += len(new)
            self.changes.num_changed += len(changed)
            self.changes.num_shared += len(some) - len(new) - len(changed) - len(elsewhere)

    def _write(
        self, rows: Mapping[int, Sequence[TableRow]], connection: Connection
    ) -> tuple[list[int], list[int], dict[int, TableRow]]:
        """Add and change pictures; return their keys, and the rows of pictures that are known at a time not read."""
        may_be_new = [key for key in rows if not self._known.has(key)] if self.adds else []
        # Of which other processes wait: what they have added is found below.
        numbers = next_numbers(connection, "last_picture", len(may_be_new)) if may_be_new else range(0)
        known = _find(connection, rows)
        new = [key for key in may_be_new if key not in known]
        if new:
            shared = _NOTHING_ELSE | {"registered": 0, "first_seen": clock()}
            columns = zip(*(self._columns(key, rows[key][0]) for key in new), strict=True)
            given = dict(zip(_GIVEN, columns, strict=True)) | {"id": numbers[: len(new)]}
            self._rows.write(connection, given, shared)
        changes, elsewhere = dict[int, _Change](), dict[int, TableRow]()
        for key, one in known.items():
            at_time = (row for row in rows[key] if self._facts(row)[0] == one.added_at)
            change = self._change(one, next(at_time, rows[key][0]))
            if one.unlisted_since or one.added_at is None:
                changes[key] = change
            elif one.added_at != change.added_at and not self._known.covers(one.added_at):
                elsewhere[key] = rows[key][0]
            elif not (self._known.is_same(key) if one.added_at == change.added_at else self._known.is_at_time(key)):
                changes[key] = change
        _store(connection, list(changes.values()))
        return new, list(changes), elsewhere

    def _columns(self, key: int, row: TableRow) -> tuple[object, ...]:
        return key, row.image_id, stored_location(row.location), *self._facts(row)

    def _change(self, one: Row[Any], row: TableRow) -> _Change:
        added_at, camera = self._facts(row)
        if self.source.camera_of is None:
            return _Change(one.id, added_at, one.camera)
        is_moved = camera != one.camera and one.event not in (None, WITHOUT_CAMERA)
        return _Change(one.id, added_at, camera, is_moved)

    def _look_up(self) -> None:
        """Look at any time for pictures that the table has no row of where they are listed, or one elsewhere."""
        written = np.fromiter(self._written, np.int64)
        wanted = np.union1d(np.setdiff1d(self._known.unseen(), written), np.fromiter(self._elsewhere, np.int64))
        if not len(wanted):
            return
        found = defaultdict[int, list[TableRow]](list)
        for row in self._find_rows(wanted):
            found[row.key].append(row)
        for first in range(0, len(wanted), ROWS_AT_ONCE):
            some: list[int] = wanted[first : first + ROWS_AT_ONCE].tolist()
            unlisted, changed = self.source.database.transact(partial(self._redate, some, found))
            self.source.database.pause()
            self.changes.num_unlisted += unlisted
            self.changes.num_changed += changed

    def _find_rows(self, keys: np.ndarray) -> Iterator[TableRow]:
        """Yield the rows of pictures, and perhaps others with their ids; of many by reading the whole table."""
        if len(keys) > PAGE_SIZE:
            interval = self.table.database.ask(partial(self.table.find_interval, days=None))
            for page in self.table.read_first(interval):
                own = np.fromiter((row.key for row in page), np.int64)
                yield from compress(page, find_sorted(keys, own)[1])
            return
        ids = select(pictures.c.image_id).where(pictures.c.registered == 0)
        named = set[str]()
        for some in in_batches(keys.tolist()):
            its = ids.where(pictures.c.key.in_(some))
            named.update(self.source.database.ask(lambda connection, its=its: connection.scalars(its).all()))  # type: ignore[misc]
        yield from self.table.find_rows(named)

    def _redate(
        self, keys: Sequence[int], found: Mapping[int, Sequence[TableRow]], connection: Connection
    ) -> tuple[int, int]:
        """Give each picture the time of a row that is there, unless one has its own; without one it is unlisted."""
        changes, gone = list[_Change](), list[int]()
        for key, one in _find(connection, keys).items():
            rows = sorted((row for row in found.get(key, ()) if row.time), key=lambda row: row.time or _LATEST)
            if not rows:
                gone += [] if one.unlisted_since else [one.id]
            elif one.unlisted_since or all(self._facts(row)[0] != one.added_at for row in rows):
                changes.append(self._change(one, rows[0]))
        _store(connection, changes)
        connection.execute(update(pictures).where(pictures.c.id.in_(gone)).values(unlisted_since=_now()))
        return len(gone), len(changes)


_LATEST = datetime.max.replace(tzinfo=UTC)
_GIVEN = ("key", "image_id", "location", "added_at", "camera")  # of a new picture
_NOTHING_ELSE = dict.fromkeys(one.name for one in pictures.columns if one.name not in ("id", *_GIVEN))
_COLUMNS = [pictures.c[name] for name in ("id", "key", "added_at", "camera", "event", "unlisted_since")]
_BY_KEY = select(*_COLUMNS).where(pictures.c.key.in_(bindparam("keys", expanding=True)), pictures.c.registered == 0)
_SET = set_columns("added_at", "camera").values(unlisted_since=None)


def _find(connection: Connection, keys: Iterable[int]) -> dict[int, Row[Any]]:
    rows = (row for some in in_batches(keys) for row in connection.execute(_BY_KEY, {"keys": some}))
    return {row.key: row for row in rows}


def _store(connection: Connection, changes: Sequence[_Change]) -> None:
    if moved := [one.number for one in changes if one.is_moved]:
        dissolve_events(connection, moved)
        for some in in_batches(moved):
            connection.execute(update(pictures).where(pictures.c.id.in_(some)).values(event=WITHOUT_EVENT))
    if changes:
        its = [new_values(one.number, {"added_at": one.added_at, "camera": one.camera}) for one in changes]
        connection.execute(_SET, its)


def _now() -> datetime:
    return naive(datetime.now(UTC))
