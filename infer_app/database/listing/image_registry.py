"""Registration of images in our own table, as `infer images add` and the folders of `[images] watch` need it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from infer_app.database.engine.connect import Database
from infer_app.database.results.schema import images
from infer_app.database.results.upsert import keep_known
from infer_app.locations import NO_MAPPING, PathMapping

# Files beside images that are no images. Everything else counts as an image: a photo without a suffix must not be lost,
# and a file that turns out to be something else is rejected with a reason.
SIDECAR_SUFFIXES = frozenset(
    {".txt", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".xmp", ".yaml", ".yml", ".toml", ".ini", ".md", ".db", ".log"}
)
ROWS_PER_INSERT = 500
FIRST_TIME = 0.0  # seconds since the epoch: earlier modification times are errors


class ImageFile(NamedTuple):
    """A file or object, or the location under which it is registered."""

    location: str
    size: int | None = None  # bytes
    modified: float | None = None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class RegisteredBatch:
    """The images of a batch that were new, and those whose file was replaced."""

    num_images: int
    new: Sequence[ImageFile]
    changed: Sequence[int]  # ids of known images whose file has another size or modification time than before


class FolderScan:
    """Yields the files in a folder and below it, in no order, without hidden ones and sidecar files.

    Links to folders are not followed. Memory does not grow with the number of files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.unreadable: list[str] = []  # folders and files, with the reason

    def __iter__(self) -> Iterator[ImageFile]:
        folders = [self._folder]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:  # a million times: few calls
                        name = entry.name
                        if name.startswith("."):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif suffix_of(name) not in SIDECAR_SUFFIXES and (facts := self._facts(entry)) is not None:
                            yield ImageFile(entry.path, facts.st_size, facts.st_mtime)
            except OSError as error:
                self.unreadable.append(f"{folder}: {error.strerror}")

    def _facts(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        try:
            return entry.stat() if entry.is_file() else None
        except FileNotFoundError:  # removed meanwhile
            return None
        except OSError as error:
            self.unreadable.append(f"{entry.path}: {error.strerror}")
            return None


def suffix_of(name: str) -> str:
    """Return the suffix of a name that does not begin with a dot, in small letters, or "" without one."""
    dot = name.rfind(".")
    return "" if dot < 0 else name[dot:].lower()


def find_images(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or the files below it in order, without hidden ones and sidecar files."""
    if not path.is_dir():
        yield path
        return
    yield from sorted(Path(file.location) for file in FolderScan(str(path)))


def may_be_image(name: PurePath) -> bool:
    """Return whether a name, relative to the added folder, is neither hidden nor that of a sidecar file."""
    hidden = any(part.startswith(".") for part in name.parts)
    return not hidden and name.suffix.lower() not in SIDECAR_SUFFIXES


def add_images(
    database: Database, paths: Sequence[Path], added_at: datetime, path_map: PathMapping = NO_MAPPING
) -> int:
    """Register absolute paths under `added_at` (naive UTC) and return how many are new; known ones keep their day."""
    found = (_with_facts(path)._replace(location=path_map.recorded(str(path))) for path in paths)
    return sum(len(batch.new) for batch in register(database, found, added_at))


def add_objects(database: Database, found: Sequence[tuple[str, int | None]], added_at: datetime) -> int:
    """Register remote locations with their sizes in bytes under `added_at`, and return how many are new."""
    return sum(len(batch.new) for batch in register(database, (ImageFile(*one) for one in found), added_at))


def register(
    database: Database, found: Iterable[ImageFile], added_at: datetime | None, *, dry_run: bool = False
) -> Iterator[RegisteredBatch]:
    """Register images under `added_at` (naive UTC), or under their own dates if it is None; yield what was done.

    Known images keep their day. Repeating it is safe, also at the same time in several processes. A dry run only looks.
    """
    left, now = iter(found), datetime.now(UTC)
    while some := {image.location: image for image in islice(left, ROWS_PER_INSERT)}:
        known = database.with_reconnect(partial(_read_known, database, some))
        new = sorted(some[location] for location in some.keys() - known.keys())
        changed = {row_id: some[location] for location, row_id in known.items() if row_id is not None}
        if new and not dry_run:
            rows = {image.location: added_at or own_time(image, now) for image in new}
            new = database.transact(partial(_insert, new=new, times=rows))
        if changed and not dry_run:
            database.transact(partial(_update, changed=changed))
        yield RegisteredBatch(len(some), new, list(changed))


def own_time(image: ImageFile, now: datetime) -> datetime:
    """Return the modification time as naive UTC; one that lies in the future, or is unknown, counts as now."""
    latest = now.timestamp()
    seconds = latest if image.modified is None else min(max(image.modified, FIRST_TIME), latest)
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


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


def _insert(connection: Connection, new: Sequence[ImageFile], times: Mapping[str, datetime]) -> list[ImageFile]:
    """Insert what another process has not inserted meanwhile, and return it."""
    known = set(connection.scalars(select(images.c.location).where(images.c.location.in_(times))))
    missing = [image for image in new if image.location not in known]
    rows = [image._asdict() | {"added_at": times[image.location]} for image in missing]
    if rows:  # another program may add the same ones concurrently
        connection.execute(keep_known(connection.dialect.name, images), rows)
    return missing


def _update(connection: Connection, changed: Mapping[int, ImageFile]) -> None:
    facts = update(images).where(images.c.id == bindparam("row_id")).values(size=bindparam("new_size"))
    rows = [{"row_id": key, "new_size": image.size, "new_time": image.modified} for key, image in changed.items()]
    connection.execute(facts.values(modified=bindparam("new_time")), rows)


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
