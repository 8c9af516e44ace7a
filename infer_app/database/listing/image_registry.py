"""Registration of images in our own table, as `infer images add` does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path, PurePath

from sqlalchemy import Connection, func, select

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

Size = int | Path | None  # bytes, or the file, whose size is read only if it is new


def find_images(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or the files below it in order, without hidden ones and sidecar files."""
    if not path.is_dir():
        yield path
        return
    for child in sorted(path.rglob("*")):
        if may_be_image(child.relative_to(path)) and child.is_file():
            yield child


def may_be_image(name: PurePath) -> bool:
    """Return whether a name, relative to the added folder, is neither hidden nor that of a sidecar file."""
    hidden = any(part.startswith(".") for part in name.parts)
    return not hidden and name.suffix.lower() not in SIDECAR_SUFFIXES


def add_images(
    database: Database, paths: Sequence[Path], added_at: datetime, path_map: PathMapping = NO_MAPPING
) -> int:
    """Register absolute paths under `added_at` (naive UTC) and return how many are new; known ones keep their day."""
    return _add(database, {path_map.recorded(str(path)): path for path in paths}, added_at)


def add_objects(database: Database, found: Sequence[tuple[str, int | None]], added_at: datetime) -> int:
    """Register remote locations with their sizes in bytes under `added_at`, and return how many are new."""
    return _add(database, dict(found), added_at)


def _add(database: Database, sizes: Mapping[str, Size], added_at: datetime) -> int:
    added, locations = 0, list(sizes)
    for first in range(0, len(locations), ROWS_PER_INSERT):
        batch = {location: sizes[location] for location in locations[first : first + ROWS_PER_INSERT]}
        added += database.transact(partial(_add_new, sizes=batch, added_at=added_at))
    return added


def _add_new(connection: Connection, sizes: Mapping[str, Size], added_at: datetime) -> int:
    known = connection.scalars(select(images.c.location).where(images.c.location.in_(sizes)))
    new = sorted(sizes.keys() - set(known))
    rows = [{"location": location, "added_at": added_at, "size": _size_of(sizes[location])} for location in new]
    if rows:  # another program may add the same ones concurrently
        connection.execute(keep_known(connection.dialect.name, images), rows)
    return len(rows)


def count_images(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(images)) or 0


def _size_of(known: Size) -> int | None:
    try:
        return known.stat().st_size if isinstance(known, Path) else known
    except OSError:
        return None
