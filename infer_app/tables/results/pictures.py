"""The rows of pictures: a result names the number of the picture that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import time
from typing import Any, TypeAlias

from sqlalchemy import Connection, Update, bindparam, func, select, update

from infer_app.base.domain import Broken, CaptureTime, FileFacts, ImageRef, PictureFigures, Prediction
from infer_app.base.locations import picture_key, stored_location
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.counters import next_numbers
from infer_app.tables.results.events import dissolve_events
from infer_app.tables.results.schema import WITHOUT_CAMERA, WITHOUT_EVENT, pictures, predictions, rejections

_FACTS = ("size", "modified", "sha256")  # of a picture's file, as it was last seen
_TAKEN = ("taken_at", "taken_offset", "taken_from")
_COLUMNS = (
    "id",
    "registered",
    "key",
    "image_id",
    "location",
    *_FACTS,
    *_TAKEN,
    "event",
    "camera",
    *PictureFigures._fields,
)
_EVENT, _CAMERA, _SIZE, _LOOK = (_COLUMNS.index(name) for name in ("event", "camera", "size", "look"))
_OTHERS = dict.fromkeys(column.name for column in pictures.columns if column.name not in _COLUMNS)
_UNKNOWN = (None,) * len(PictureFigures._fields)
_Row: TypeAlias = tuple[Any, ...]  # as _COLUMNS has it
# Built once: building them takes longer than reading or writing the rows.
_ALL = select(*(pictures.c[name] for name in _COLUMNS))
_BY_KEY = _ALL.where(pictures.c.key.in_(bindparam("keys", expanding=True)), pictures.c.registered == 0)
_BY_NUMBER = _ALL.where(pictures.c.id.in_(bindparam("keys", expanding=True)))

_PREDICTED = select(predictions.c.picture).where(predictions.c.picture.in_(bindparam("keys", expanding=True)))


def set_columns(*names: str) -> Update:
    """Return a statement that sets columns of pictures, each to a row of `new_values`."""
    values = {name: bindparam(f"new_{name}", type_=pictures.c[name].type) for name in names}
    return update(pictures).where(pictures.c.id == bindparam("number")).values(values)


def new_values(number: int, columns: Mapping[str, object]) -> dict[str, object]:
    """Return what `set_columns` sets of the picture with a number."""
    return {"number": number} | {f"new_{name}": value for name, value in columns.items()}


_SET_FACTS, _SET_TAKEN = set_columns(*_FACTS), set_columns(*_TAKEN, "event")
_SET_FIGURES = set_columns(*PictureFigures._fields)


class PictureRows:
    """The rows of the pictures that a run has results of; `registered`: all are there, and refs have their numbers."""

    def __init__(self, database: Database, registered: bool) -> None:
        self._registered = registered
        self._rows = database.backend.bulk_upsert(database.dialect, pictures)

    def write(self, connection: Connection, results: Iterable[Prediction | Broken]) -> dict[ImageRef, int]:
        """Return the numbers of the results' pictures.

        A picture without a row gets one. Its row has the facts of the file as it was read last.
        """
        files = {self._key(one.ref): one for one in results}
        known = self._read(connection, files)
        new = [key for key in files if key not in known]
        if new and not self._registered:
            numbers: Sequence[int] = next_numbers(connection, "last_picture", len(new))
            known |= self._read(connection, new)  # another run may have written some
            new = [key for key in new if key not in known]
        else:
            numbers = new
        rows = {key: self._new_row(number, key, files[key]) for key, number in zip(new, numbers, strict=False)}
        if rows:
            columns = zip(*rows.values(), strict=True)
            shared = _OTHERS | {"first_seen": time()}
            self._rows.write(connection, dict(zip(_COLUMNS, columns, strict=True)), shared)
        changed = {row[0]: files[key].file for key, row in known.items() if _differs(row, files[key].file)}
        seen = {row[0] for row in known.values() if row[_SIZE] is not None}  # others are listed, and read first here
        replaced = find_replaced(connection, {number: changed[number].sha256 for number in changed.keys() & seen})
        if changed:
            facts = [_new_facts(number, file, is_first=number not in seen) for number, file in changed.items()]
            connection.execute(_SET_FACTS, facts)
        asked = [(row, files[key].file) for key, row in known.items()]
        if decoded := [(row[0], file) for row, file in asked if _looks_otherwise(row, file, row[0] in replaced)]:
            shown = (
                (number, zip(PictureFigures._fields, file.figures or _UNKNOWN, strict=True)) for number, file in decoded
            )
            connection.execute(_SET_FIGURES, [new_values(number, dict(figures)) for number, figures in shown])
        if dated := [(row, file) for row, file in asked if _is_dated(row, file, row[0] in replaced)]:
            if with_event := [row[0] for row, _ in dated if row[_EVENT] is not None]:
                dissolve_events(connection, with_event)
            connection.execute(_SET_TAKEN, [self._new_taken(row, file.taken) for row, file in dated])
        placed = [row[0] for key, row in known.items() if isinstance(files[key], Prediction) and (row[_EVENT] or 0) > 0]
        known_before = (one for some in in_batches(placed) for one in connection.scalars(_PREDICTED, {"keys": some}))
        dissolve_events(connection, {*placed}.difference(known_before))  # now their bytes tell which are copies
        return {files[key].ref: row[0] for key, row in (known | rows).items()}

    def _key(self, ref: ImageRef) -> int:
        """Return by what a row is found: ours keep their numbers, which are their ids, wherever they move."""
        return int(ref.image_id) if self._registered else picture_key(ref.image_id, stored_location(ref.location))

    def _read(self, connection: Connection, keys: Iterable[int]) -> dict[int, _Row]:
        """Return the rows that are there, by what they are found by."""
        wanted, place = (_BY_NUMBER, 0) if self._registered else (_BY_KEY, _COLUMNS.index("key"))
        rows = (row for some in in_batches(keys) for row in connection.execute(wanted, {"keys": some}))
        return {row[place]: tuple(row) for row in rows}

    def _new_taken(self, row: _Row, taken: CaptureTime | None) -> dict[str, object]:
        """Return what to store of a time; it waits for its event alone if nothing can be known better afterwards."""
        is_final = self._registered and row[_CAMERA] is not None and taken is not None and taken.is_of_file
        event = WITHOUT_EVENT if is_final else WITHOUT_CAMERA if taken else None
        return new_values(row[0], taken_columns(taken) | {"event": event})

    def _new_row(self, number: int, key: int, result: Prediction | Broken) -> _Row:
        """Return the row of a picture that is new: its checksum is stored once its file has changed."""
        location, file = stored_location(result.ref.location), result.file
        key = picture_key("", location) if self._registered else key
        own = number, int(self._registered), key, result.ref.image_id, location, file.size, file.modified, None
        return (
            *own,
            *taken_columns(file.taken).values(),
            WITHOUT_CAMERA if file.taken else None,
            None,
            *(file.figures or _UNKNOWN),
        )


def _differs(row: _Row, file: FileFacts) -> bool:
    """Return whether a file that was read, whose bytes are known, is another than that of its picture's row."""
    size, modified, sha256 = row[_COLUMNS.index("size") :][: len(_FACTS)]
    is_same = (size, modified) == (file.size, file.modified) and sha256 in (None, file.sha256)
    return not is_same and None not in (file.size, file.sha256)


def _new_facts(number: int, file: FileFacts, *, is_first: bool) -> dict[str, object]:
    sha256 = None if is_first else file.sha256  # stored once the file has changed
    return new_values(number, {"size": file.size, "modified": file.modified, "sha256": sha256})


def _is_dated(row: _Row, file: FileFacts, is_replaced: bool) -> bool:
    """Return whether what a file says of its time is news: the picture has none yet, or that of another file."""
    is_asked, has_time = file.taken is not None, row[_EVENT] is not None
    return (is_asked and not has_time) or (is_replaced and (is_asked or has_time))


def _looks_otherwise(row: _Row, file: FileFacts, is_replaced: bool) -> bool:
    """Return whether a picture's figures are news: it has none yet, or those of another file."""
    is_known = row[_LOOK] is not None
    return is_replaced and is_known if file.figures is None else is_replaced or not is_known


def find_replaced(connection: Connection, files: Mapping[int, str | None]) -> set[int]:
    """Return the pictures, by number, whose files have other bytes than those that were seen or read last.

    `files`: checksums of files whose size or time has changed, None of one that wasn't read. A copy of a file has
    another time, and the same bytes.
    """
    seen, read = dict[int, str](), set[tuple[int, str]]()
    for some in in_batches(files):
        rows = connection.execute(select(pictures.c.id, pictures.c.sha256).where(pictures.c.id.in_(some)))
        seen |= {number: sha256 for number, sha256 in rows if sha256}
        for table in (predictions, rejections):
            of_them = select(table.c.picture, table.c.sha256).where(table.c.picture.in_(some))
            read |= {(number, sha256) for number, sha256 in connection.execute(of_them) if sha256}
    return {
        number
        for number, sha256 in files.items()
        if sha256 is None or (seen[number] != sha256 if number in seen else (number, sha256) not in read)
    }


def find_first_seen(connection: Connection, after: float) -> int:
    """Return the number of the first picture that was seen after a time, by halving: later ones have higher numbers."""
    low, high = 0, 1 + (connection.scalar(select(func.max(pictures.c.id))) or 0)
    at = select(pictures.c.first_seen).order_by(pictures.c.id).limit(1)
    while low < high:
        middle = (low + high) // 2
        seen = connection.scalar(at.where(pictures.c.id >= middle))
        low, high = (middle + 1, high) if seen is not None and seen <= after else (low, middle)
    return low


def taken_columns(taken: CaptureTime | None) -> dict[str, object]:
    """Return the columns of a capture time; None: its file was not read."""
    if taken is None:
        return dict.fromkeys(_TAKEN)
    offset = None if taken.offset is None else round(taken.offset.total_seconds())
    return dict(zip(_TAKEN, (taken.at, offset, taken.origin.value), strict=True))
