"""Registration of images in our own table, as `infer images add` and the folders of `[images] watch` need it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from time import time
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import StatementError

from infer_app.base.domain import CaptureTime, FileFacts, ImageFile
from infer_app.base.locations import NO_MAPPING, PathMapping, picture_key
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.conditions import is_new_for_any
from infer_app.tables.results.counters import next_numbers
from infer_app.tables.results.events import dissolve_events
from infer_app.tables.results.pictures import find_replaced, new_values, set_columns, taken_columns
from infer_app.tables.results.schema import WITHOUT_EVENT, pictures, predictions, rejections

ROWS_PER_INSERT = 500

Hash = Callable[[Sequence[ImageFile]], Iterable[FileFacts]]  # of files as they are now; without a size: can't be read


CameraOf = Callable[[object, str], str]  # of what a column names, and of the location


class DatedImage(NamedTuple):
    """An image with the time that decides its day; both times are naive UTC."""

    file: ImageFile
    added_at: datetime
    queued_at: datetime | None = None  # when it was registered, if runs are to take it however old its day is
    taken: CaptureTime | None = None  # if that was read
    camera: str | None = None  # if its location tells it


@dataclass(frozen=True, slots=True)
class RegisteredBatch:
    """The images of a batch that were new, those known before, and those that can't be stored."""

    num_images: int
    new: Sequence[DatedImage]
    known: Sequence[int]  # ids
    num_changed: int  # known ones whose file has another size or modification time than before
    refused: Sequence[str] = ()  # locations, with the database's reason


class _Known(NamedTuple):
    """The rows of a batch."""

    locations: set[str]
    ids: list[int]
    changed: dict[int, ImageFile]  # files with another size or modification time than before, by id
    returned: list[int]  # ids of those that were missing


def add_images(
    database: Database,
    paths: Sequence[Path],
    added_at: datetime,
    path_map: PathMapping = NO_MAPPING,
    hash_files: Hash | None = None,
    camera_of: CameraOf | None = None,
) -> int:
    """Register absolute paths under `added_at` (naive UTC) and return how many are new; known ones keep their day."""
    found = (_with_facts(path)._replace(location=path_map.recorded(str(path))) for path in paths)
    return _add(database, found, added_at, hash_files or unhashed, camera_of)


def add_objects(
    database: Database, found: Iterable[tuple[str, int | None]], added_at: datetime, camera_of: CameraOf | None = None
) -> int:
    """Register remote locations with their sizes in bytes under `added_at`, and return how many are new."""
    return _add(database, (ImageFile(*one) for one in found), added_at, unhashed, camera_of)


def _add(
    database: Database, found: Iterable[ImageFile], added_at: datetime, hash_files: Hash, camera_of: CameraOf | None
) -> int:
    def dated(file: ImageFile) -> DatedImage:
        return DatedImage(file, added_at, camera=camera_of(None, file.location) if camera_of else None)

    batches = register(database, found, lambda new: list(map(dated, new)), hash_files)
    return sum(len(batch.new) for batch in batches)


def register(
    database: Database,
    found: Iterable[ImageFile],
    date: Callable[[Sequence[ImageFile]], Sequence[DatedImage]],
    hash_files: Hash | None = None,
    *,
    dry_run: bool = False,
) -> Iterator[RegisteredBatch]:
    """Register images under the times that `date` gives the new ones among them; yield what was done.

    Known images keep their day. One whose file has another size or time gets its facts of now, with the checksum of
    `hash_files`, by which it is known from then on whether its predictions are of these bytes; one whose file can't be
    read is compared again the next time. Rejections of other bytes are deleted, and what has no prediction of these is
    queued. Repeating it is safe, also at the same time in several processes. A dry run only looks.
    """
    left = iter(found)
    while some := {image.location: image for image in islice(left, ROWS_PER_INSERT)}:
        known = database.ask(partial(_read_known, some=some))
        new = date(sorted(some[location] for location in some.keys() - known.locations))
        refused: list[str] = []
        if new and not dry_run:
            new, refused = _insert_all(database, new)
        if (known.changed or known.returned) and not dry_run:
            facts = dict(zip(known.changed, (hash_files or unhashed)(list(known.changed.values())), strict=True))
            changed = {row_id: now for row_id, now in facts.items() if now.size is not None}
            database.transact(partial(_update, changed=changed, returned=known.returned))
        yield RegisteredBatch(len(some), new, known.ids, len(known.changed), refused)


def first_usual_time(database: Database) -> datetime | None:
    """Return a time (UTC) that all but a twentieth of the registered images are not before; None without any."""

    def read(connection: Connection) -> datetime | None:
        added_at, is_ours = pictures.c.added_at, pictures.c.registered == 1
        place = (connection.scalar(select(func.count()).where(is_ours)) or 0) // 20
        times = select(added_at).where(is_ours).order_by(added_at)
        found: datetime | None = connection.scalar(times.offset(place).limit(1))
        return found

    time = database.ask(read)
    return None if time is None else time.replace(tzinfo=UTC)


def _read_known(connection: Connection, some: Mapping[str, ImageFile]) -> _Known:
    columns = (pictures.c.location, pictures.c.id, pictures.c.missing_since, pictures.c.size, pictures.c.modified)
    rows = connection.execute(select(*columns).where(*_at(some))).all()
    known = _Known(set(), [], {}, [])
    for location, row_id, missing_since, *facts in rows:
        image = some[location]
        known.locations.add(location)
        known.ids.append(row_id)
        if (facts[0], facts[1]) != image[1:] and _has_changed(image, *facts):
            known.changed[row_id] = image
        if missing_since is not None:
            known.returned.append(row_id)
    return known


def _at(locations: Iterable[str]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions of the rows of images that are registered at locations."""
    return pictures.c.registered == 1, pictures.c.key.in_([picture_key("", location) for location in locations])


def _has_changed(image: ImageFile, size: int | None, modified: float | None) -> bool:
    """Return whether the facts differ where both are known: of remote files no modification time is."""
    pairs = ((image.size, size), (image.modified, modified))
    return any(now != before for now, before in pairs if now is not None and before is not None)


def _insert_all(database: Database, new: Sequence[DatedImage]) -> tuple[list[DatedImage], list[str]]:
    """Insert what the database can hold; return it, and the locations that it refuses, one by one, with its reason."""
    try:
        return database.transact(partial(_insert, new=new)), []
    except StatementError as error:  # PostgreSQL: a path that is too long for an index
        if len(new) == 1:
            reason = str(getattr(error, "orig", error)).partition("\n")[0]
            return [], [f"{new[0].file.location}: {reason}"]
    inserted, refused = zip(*(_insert_all(database, [one]) for one in new), strict=True)
    return [one for ones in inserted for one in ones], [one for ones in refused for one in ones]


def _insert(connection: Connection, new: Sequence[DatedImage]) -> list[DatedImage]:
    """Insert what another process has not inserted meanwhile, and return it."""
    numbers = next_numbers(connection, "last_picture", len(new))  # for which other processes wait
    known = set(connection.scalars(select(pictures.c.location).where(*_at(image.file.location for image in new))))
    missing = [image for image in new if image.file.location not in known]
    shared = {"registered": 1, "first_seen": time()}
    rows = [
        shared
        | image.file._asdict()
        | {"id": number, "image_id": str(number), "key": picture_key("", image.file.location)}
        | {"added_at": image.added_at, "queued_at": image.queued_at, "camera": image.camera}
        | taken_columns(image.taken)
        | {"event": None if image.camera is None or image.taken is None else WITHOUT_EVENT}
        for number, image in zip(numbers, missing, strict=False)
    ]
    if rows:
        connection.execute(insert(pictures), rows)
    return missing


def _update(connection: Connection, changed: Mapping[int, FileFacts], returned: Sequence[int]) -> None:
    was_tried = exists().where(rejections.c.picture == pictures.c.id)  # while it was gone, perhaps by another model
    queue_images(connection, returned, was_tried)
    if rows := [
        new_values(key, {"size": now.size, "modified": now.modified, "sha256": now.sha256 or ""})
        for key, now in changed.items()
    ]:
        replaced = find_replaced(connection, {key: now.sha256 for key, now in changed.items()})
        dissolve_events(connection, replaced)  # before others lock rows of pictures: `place_all` does it so too
        connection.execute(_SET_FACTS, rows)
        if dated := [new_values(key, _times(changed[key].taken)) for key in replaced]:
            connection.execute(_SET_TIMES, dated)
        connection.execute(_DELETE_OUTDATED, rows)
    ids = [*changed, *returned]
    connection.execute(update(pictures).where(pictures.c.id.in_(ids)).values(missing_since=None))
    same_bytes = or_(pictures.c.sha256.is_(None), predictions.c.sha256 == pictures.c.sha256)
    queue_images(connection, ids, ~exists().where(predictions.c.picture == pictures.c.id, same_bytes))


_new_sha256: ColumnElement[str] = bindparam("new_sha256", type_=String)
_SET_FACTS = set_columns("size", "modified", "sha256")
_SET_TIMES = set_columns(*taken_columns(None)).values(
    event=case((pictures.c.camera.is_not(None), bindparam("new_event", type_=pictures.c.event.type)))
)
_DELETE_OUTDATED = delete(rejections).where(
    rejections.c.picture == bindparam("number"), or_(rejections.c.sha256.is_(None), rejections.c.sha256 != _new_sha256)
)


def _times(taken: CaptureTime | None) -> dict[str, object]:
    """Return the capture time to store of a file that was replaced; without one it is asked when the file is read."""
    return taken_columns(taken) | {"event": None if taken is None else WITHOUT_EVENT}


def queue_images(connection: Connection, ids: Sequence[int], *conditions: ColumnElement[bool]) -> None:
    """Let runs take these images, however old their days are, as long as they are new for a model."""
    now = datetime.now(UTC).replace(tzinfo=None)
    for first in range(0, len(ids), ROWS_PER_INSERT):
        some = pictures.c.id.in_(ids[first : first + ROWS_PER_INSERT])
        connection.execute(update(pictures).where(some, *conditions).values(queued_at=now))


def read_late_times(connection: Connection, model_ids: Sequence[str], before: datetime) -> Iterator[datetime]:
    """Yield the times (naive UTC, in order) of queued images before an instant that are new for one of the models.

    Only the queued ones are read: they have an index of their own.
    """
    new = is_new_for_any(pictures.c.id, model_ids)
    queued = pictures.c.queued_at.is_not(None), pictures.c.added_at < before
    times = select(pictures.c.added_at).where(*queued, new).order_by(pictures.c.added_at)
    yield from connection.execution_options(yield_per=10 * ROWS_PER_INSERT).scalars(times)


def end_queue(connection: Connection, registered_before: datetime) -> None:
    """Take the images that were registered before an instant (naive UTC) out of the queue."""
    connection.execute(update(pictures).where(pictures.c.queued_at < registered_before).values(queued_at=None))


def count_images(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).where(pictures.c.registered == 1)) or 0


def unhashed(files: Iterable[ImageFile]) -> Iterator[FileFacts]:
    """Yield what is known of files that are not read, as of remote ones."""
    return (FileFacts(file.size, file.modified) for file in files)


def _with_facts(path: Path) -> ImageFile:
    try:
        facts = path.stat()
    except OSError:
        return ImageFile(str(path))
    return ImageFile(str(path), facts.st_size, facts.st_mtime)
