"""Our own table of images: `infer images add` writes files into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, func, select

from infer_app.database.connect import Database
from infer_app.database.schema import images
from infer_app.database.upsert import keep_known

# What lies beside images and is none. Everything else counts as one: a photo without a suffix must not be lost, and
# what turns out to be something else is rejected with a reason.
SIDECAR_SUFFIXES = frozenset(
    {".txt", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".xmp", ".yaml", ".yml", ".toml", ".ini", ".md", ".db", ".log"}
)
ROWS_PER_INSERT = 500


def find_images(path: Path) -> Iterator[Path]:
    """`path` itself, or the files below it in order; hidden ones and sidecar files are passed over."""
    if not path.is_dir():
        yield path
        return
    for child in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in child.relative_to(path).parts)
        if not hidden and child.suffix.lower() not in SIDECAR_SUFFIXES and child.is_file():
            yield child


def add_images(database: Database, paths: Sequence[Path], added_at: datetime) -> int:
    """Registers absolute paths under `added_at` (naive UTC); those known already keep their day. Returns how many
    are new."""
    added = 0
    for first in range(0, len(paths), ROWS_PER_INSERT):
        rows = {str(path): path for path in paths[first : first + ROWS_PER_INSERT]}
        added += database.transact(partial(_add_new, rows=rows, added_at=added_at))
    return added


def _add_new(connection: Connection, rows: Mapping[str, Path], added_at: datetime) -> int:
    known = connection.scalars(select(images.c.location).where(images.c.location.in_(rows)))
    new = [rows[location] for location in rows.keys() - set(known)]
    if new:  # another program may add the same ones at this moment
        connection.execute(keep_known(connection.dialect.name, images), [_row(path, added_at) for path in sorted(new)])
    return len(new)


def count_images(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(images)) or 0


def _row(path: Path, added_at: datetime) -> dict[str, object]:
    try:
        size: int | None = path.stat().st_size
    except OSError:
        size = None
    return {"location": str(path), "added_at": added_at, "size": size}
