"""Store what the source and the files say of pictures: which camera took them, and when."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from infer_app.base.day import Day
from infer_app.base.domain import NO_TIME, CaptureTime, TimeOrigin
from infer_app.base.locations import is_local, is_relative, path_of_uri
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.settings.sections import NAME_CODES
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.time_column import read_clock
from infer_app.tables.listing.user_table import storable_camera
from infer_app.tables.results.events import dissolve_events
from infer_app.tables.results.pictures import new_values, set_columns, taken_columns
from infer_app.tables.results.schema import WITHOUT_CAMERA, WITHOUT_EVENT, pictures

PAGE = 1000  # pictures whose facts are written in one transaction

Look = Callable[[Sequence[str]], Iterable[CaptureTime | None]]  # into files: what they state; None: can't be read


@dataclass(frozen=True, slots=True)
class FactRules:
    """How the settings tell cameras and capture times."""

    camera_folder: int | None  # of a location, from 1 on; None: a column names the camera, or nothing does
    folders: tuple[str, ...]  # with a slash at the end: below the first that holds a location folders are counted
    name: re.Pattern[str] | None  # of the part of a file's name that tells the time
    name_pattern: str
    zone: str | None  # of numbers in columns
    names_cameras: bool
    has_own_times: bool  # whether the source's time says more than on which day an image was added

    @classmethod
    def of(cls, loaded: LoadedSettings) -> FactRules:
        recorded = loaded.path_map.recorded
        watched, others = [f"{one}/" for one in loaded.all_watched], [f"{one}/" for one in loaded.roots]
        if loaded.base is not None:
            others.append(f"{loaded.base}/")
        folders = (sorted({*some, *map(recorded, some)}, key=len) for some in (watched, others))
        pattern = loaded.source.taken_in_name or ""
        name = re.compile(_as_expression(pattern)) if pattern else None
        return cls(
            loaded.source.camera_folder,
            tuple(chain.from_iterable(folders)),
            name,
            pattern,
            loaded.source.time_zone,
            loaded.source.camera is not None,
            not loaded.lists_own_images,
        )

    def camera(self, named: object, location: str) -> str:
        """Return the camera of an image: what the column names, or a folder of its location; empty for none."""
        if self.camera_folder is None:
            return storable_camera(named)
        folders = self._below(location).parts[:-1]
        return storable_camera(folders[self.camera_folder - 1]) if len(folders) >= self.camera_folder else ""

    def time_of(self, in_file: CaptureTime, location: str) -> CaptureTime:
        """Return when a picture was taken by its file, or by the file's name."""
        return in_file if in_file.is_of_file else self._in_name(location)

    def _in_name(self, location: str) -> CaptureTime:
        for found in self.name.finditer(self._below(location).name) if self.name else ():
            with suppress(ValueError):
                return CaptureTime(datetime.strptime(found[1], self.name_pattern), None, TimeOrigin.NAME)
        return NO_TIME

    def _below(self, location: str) -> PurePosixPath:
        if not is_local(location):
            return PurePosixPath(location.partition("://")[2].partition("/")[2].partition("?")[0])
        path = path_of_uri(location)
        if not is_relative(path):
            folder = next((folder for folder in self.folders if path.startswith(folder)), "/")
            path = path.removeprefix(folder)
        return PurePosixPath(path)


class _Listed(NamedTuple):
    """An image as the source lists it."""

    location: str
    at: datetime | None  # naive UTC
    time: object  # that, as its column has it
    camera: object
    taken: object


class _Stored(NamedTuple):
    """Hold what is stored of a picture."""

    id: int
    key: int
    added_at: datetime | None
    camera: str | None
    taken_at: datetime | None
    taken_offset: int | None
    taken_from: str | None
    event: int | None

    @property
    def taken(self) -> CaptureTime | None:
        if self.taken_from is None:
            return None
        offset = None if self.taken_offset is None else timedelta(seconds=self.taken_offset)
        return CaptureTime(self.taken_at, offset, TimeOrigin(self.taken_from))


def fill_facts(
    database: Database,
    source: Source,
    rules: FactRules,
    day: Day | None,
    look: Look | None = None,
    check: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Store camera and capture time of the pictures of a day, or of all; count those that were stored, by `taken_from`.

    What is stored already and still true is not written again. Without `look` the pictures whose file was not read
    yet are left; of one that can't be read nothing is stored, and it is counted as "". `check` may end it.
    """
    counts = Counter[str]()
    for page in _pages(source, day):
        check()
        stored = database.ask(partial(_read, source=source, keys=list(page)))
        # Of several rows of one picture that at the time at which it is listed.
        listed = {
            one.key: next((row for row in page[one.key] if row.at == one.added_at), page[one.key][0]) for one in stored
        }
        unknown = [one for one in stored if look and _needs_look(rules, listed[one.key], one)]
        locations = [listed[one.key].location for one in unknown]
        looked = dict(zip((one.id for one in unknown), look(locations) if look and locations else (), strict=True))
        changes = list(filter(None, (_change(rules, listed[one.key], one, looked.get(one.id)) for one in stored)))
        counts.update(str(change["new_taken_from"]) for change in changes)
        counts[""] += sum(one is None for one in looked.values())
        if changes:
            database.transact(partial(_store, changes=changes))
    return +counts


def _pages(source: Source, day: Day | None) -> Iterator[Mapping[int, Sequence[_Listed]]]:
    """Yield pages of images by the number of their picture, or by its key where the user's table lists them."""
    table = source.table
    if table is None:
        for page in source.list_pages(day, PAGE):
            yield {row[0]: [_Listed(row[1], row[2], row[2], None, None)] for row in page}
        return
    interval = table.database.ask(lambda connection: table.find_interval(connection, day))
    for rows in table.read_first(interval):
        page_of = defaultdict[int, list[_Listed]](list)
        for row in rows:
            at = row.time and row.time.replace(tzinfo=None)
            page_of[row.key].append(_Listed(row.location, at, row.clock, row.camera, row.taken))
        yield page_of


def without_camera(connection: Connection, source: Source) -> list[int]:
    """Return some pictures whose cameras a killed run has not stored."""
    waiting = select(pictures.c.id).where(pictures.c.event == WITHOUT_CAMERA, source.own_pictures)
    return list(connection.scalars(waiting.limit(100 * PAGE)))


def give_up(connection: Connection, numbers: Sequence[int]) -> None:
    """Stop waiting for the camera of pictures that are no longer listed."""
    for some in in_batches(numbers):
        left = pictures.c.id.in_(some), pictures.c.event == WITHOUT_CAMERA
        connection.execute(update(pictures).where(*left).values(event=None))


def _needs_look(rules: FactRules, listed: _Listed, stored: _Stored) -> bool:
    """Return whether only the file can tell when a picture was taken."""
    is_known = stored.taken_from not in (None, TimeOrigin.COLUMN)
    return not is_known and read_clock(listed.taken, rules.zone, TimeOrigin.COLUMN).at is None


def _change(rules: FactRules, listed: _Listed, stored: _Stored, looked: CaptureTime | None) -> dict[str, object] | None:
    """Return what is to be stored of a picture, or None if nothing is new; without `camera`, a known one stays."""
    taken = _taken(rules, listed, stored, looked) or stored.taken
    if taken is None:
        return None
    camera = rules.camera(listed.camera, listed.location) if rules.names_cameras else stored.camera or ""
    new = {"camera": camera} | taken_columns(taken)
    is_known = all(getattr(stored, name) == value for name, value in new.items())
    if is_known and stored.event not in (None, WITHOUT_CAMERA):
        return None
    return new_values(stored.id, new)


def _taken(rules: FactRules, listed: _Listed, stored: _Stored, looked: CaptureTime | None) -> CaptureTime | None:
    """Return when a picture was taken by the first that states it; None while its file was not read."""
    column = read_clock(listed.taken, rules.zone, TimeOrigin.COLUMN)
    in_file = looked or (None if stored.taken_from == TimeOrigin.COLUMN else stored.taken)
    if column.at is not None or in_file is None:
        return None if column.at is None else column
    of_file = rules.time_of(in_file, listed.location)
    if of_file.at is not None or not rules.has_own_times:
        return of_file
    return read_clock(listed.time, rules.zone, TimeOrigin.SOURCE)


def _read(connection: Connection, source: Source, keys: Sequence[int]) -> list[_Stored]:
    key = (pictures.c.id if source.registered else pictures.c.key).label("key")
    columns = (pictures.c[name] for name in _Stored._fields if name not in ("id", "key"))
    known = select(pictures.c.id, key, *columns).where(source.own_pictures)
    rows = (row for some in in_batches(keys) for row in connection.execute(known.where(key.in_(some))))
    return [_Stored(*row) for row in rows]


def _store(connection: Connection, changes: Sequence[Mapping[str, object]]) -> None:
    dissolve_events(connection, [int(str(change["number"])) for change in changes])
    connection.execute(_SET, changes)


_SET = set_columns("camera", *taken_columns(None)).values(event=WITHOUT_EVENT)


def _as_expression(pattern: str) -> str:
    """Return the regular expression of what `strptime` reads by a pattern of NAME_CODES, wherever it begins."""
    pieces = re.split("%(.)", pattern)
    codes = NAME_CODES | {"%": "%"}
    found = "".join(codes[piece] if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
    return f"(?=({found}))"
