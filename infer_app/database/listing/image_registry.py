"""Registration of images in our own table, as `infer images add` and the folders of `[images] watch` need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, select, update
from sqlalchemy.exc import StatementError

from infer_app.database.engine.column_types import AsText
from infer_app.database.engine.connect import Database
from infer_app.database.results.conditions import ListedPicture, is_new_for_any
from infer_app.database.results.schema import images, rejections
from infer_app.database.results.upsert import keep_known
from infer_app.domain import ImageFile
from infer_app.locations import NO_MAPPING, PathMapping

ROWS_PER_INSERT = 500


class DatedImage(NamedTuple):
    """An image with the time that decides its day; both times are naive UTC."""

    file: ImageFile
    added_at: datetime
    queued_at: datetime | None = None  # when it was registered, if runs are to take it however old its day is


@dataclass(frozen=True, slots=True)
class RegisteredBatch:
    """The images of a batch that were new, those whose file was replaced, and those that can't be stored."""

    num_images: int
    new: Sequence[DatedImage]
    changed: Sequence[int]  # ids of known images whose file has another size or modification time than before
    refused: Sequence[str] = ()  # locations, with the database's reason


def add_images(
    database: Database, paths: Sequence[Path], added_at: datetime, path_map: PathMapping = NO_MAPPING
) -> int:
    """Register absolute paths under `added_at` (naive UTC) and return how many are new; known ones keep their day."""
    found = (_with_facts(path)._replace(location=path_map.recorded(str(path))) for path in paths)
    return _add(database, found, added_at)


def add_objects(database: Database, found: Sequence[tuple[str, int | None]], added_at: datetime) -> int:
    """Register remote locations with their sizes in bytes under `added_at`, and return how many are new."""
    return _add(database, (ImageFile(*one) for one in found), added_at)


def _add(database: Database, found: Iterable[ImageFile], added_at: datetime) -> int:
    batches = register(database, found, lambda new: [DatedImage(file, added_at) for file in new])
    return sum(len(batch.new) for batch in batches)


def register(
    database: Database,
    found: Iterable[ImageFile],
    date: Callable[[Sequence[ImageFile]], Sequence[DatedImage]],
    *,
    dry_run: bool = False,
) -> Iterator[RegisteredBatch]:
    """Register images under the times that `date` gives the new ones among them; yield what was done.

    Known images keep their day. If the file of one was replaced, its rejections are deleted and it is queued again.
    Repeating it is safe, also at the same time in several processes. A dry run only looks.
    """
    left = iter(found)
    while some := {image.location: image for image in islice(left, ROWS_PER_INSERT)}:
        known = database.with_reconnect(partial(_read_known, database, some))
        new = date(sorted(some[location] for location in some.keys() - known.keys()))
        changed = {row_id: some[location] for location, row_id in known.items() if row_id is not None}
        refused: list[str] = []
        if new and not dry_run:
            new, refused = _insert_all(database, new)
        if changed and not dry_run:
            database.transact(partial(_update, changed=changed))
        yield RegisteredBatch(len(some), new, list(changed), refused)


def _read_known(database: Database, some: Mapping[str, ImageFile]) -> dict[str, int | None]:
    """Return the known locations, with the ids of those whose file has changed since it was registered."""
    wanted = select(images.c.location, images.c.id, images.c.size, images.c.modified)
    with database.read() as connection:
        rows = connection.execute(wanted.where(images.c.location.in_(some))).all()
    return {
        location: row_id
        if (facts[0], facts[1]) != some[location][1:] and _has_changed(some[location], *facts)
        else None
        for location, row_id, *facts in rows
    }


def _has_changed(image: ImageFile, size: int | None, modified: float | None) -> bool:
    """Return whether the facts differ where both are known: earlier versions did not record modification times."""
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
    locations = [image.file.location for image in new]
    known = set(connection.scalars(select(images.c.location).where(images.c.location.in_(locations))))
    missing = [image for image in new if image.file.location not in known]
    rows = [image.file._asdict() | {"added_at": image.added_at, "queued_at": image.queued_at} for image in missing]
    if rows:  # another program may add the same ones concurrently
        connection.execute(keep_known(connection.dialect.name, images), rows)
    return missing


def _update(connection: Connection, changed: Mapping[int, ImageFile]) -> None:
    connection.execute(delete(rejections).where(rejections.c.image_id.in_(list(map(str, changed)))))
    now = datetime.now(UTC).replace(tzinfo=None)
    facts = update(images).where(images.c.id == bindparam("row_id")).values(size=bindparam("new_size"), queued_at=now)
    rows = [{"row_id": key, "new_size": image.size, "new_time": image.modified} for key, image in changed.items()]
    connection.execute(facts.values(modified=bindparam("new_time")), rows)


def read_late_times(connection: Connection, model_ids: Sequence[str], before: datetime) -> Iterator[datetime]:
    """Yield the times (naive UTC, in order) of queued images before an instant that are new for one of the models.

    Only the queued ones are read: they have an index of their own.
    """
    new = is_new_for_any(ListedPicture(AsText(images.c.id)), model_ids)
    queued = images.c.queued_at.is_not(None), images.c.added_at < before
    times = select(images.c.added_at).where(*queued, new).order_by(images.c.added_at)
    yield from connection.execution_options(yield_per=10 * ROWS_PER_INSERT).scalars(times)


def end_queue(connection: Connection, registered_before: datetime) -> None:
    """Take the images that were registered before an instant (naive UTC) out of the queue."""
    connection.execute(update(images).where(images.c.queued_at < registered_before).values(queued_at=None))


def count_images(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(images)) or 0


def has_images_in(database: Database, folder: str) -> bool:
    """Return whether an image in a folder is registered; all locations may be read for it."""
    inside = images.c.location.startswith(f"{folder.rstrip('/')}/", autoescape=True)
    with database.read() as connection:
        return connection.scalar(select(images.c.id).where(inside).limit(1)) is not None


def _with_facts(path: Path) -> ImageFile:
    try:
        facts = path.stat()
    except OSError:
        return ImageFile(str(path))
    return ImageFile(str(path), facts.st_size, facts.st_mtime)
