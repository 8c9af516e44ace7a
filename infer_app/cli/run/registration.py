"""Registers the new images of the folders that [images] watch names; a run begins with it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from infer_app.database.engine.column_types import is_utf8
from infer_app.database.engine.connect import Database
from infer_app.database.listing.image_registry import (
    FolderScan,
    ImageFile,
    has_images_in,
    own_time,
    register,
    suffix_of,
)
from infer_app.database.project_database import open_results_database
from infer_app.day import Day, find_zone
from infer_app.errors import ModelError, StorageUnavailable
from infer_app.images.read.roots import look_at_folders
from infer_app.locations import IMAGE_SUFFIXES
from infer_app.pipeline.changed_files import STAT_TIMEOUT_S
from infer_app.plurals import counted
from infer_app.settings.load import LoadedSettings
from infer_app.telemetry.printable import printable
from infer_app.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

FEW_SUFFIXES = 20  # of files that are left out, which are told apart
SHOWN_PROBLEMS = 5
SETTLED_S = 10.0  # after its last change a file is taken to be complete


@dataclass(slots=True)
class Registration:
    """Counts of files that were registered, or in a dry run would be."""

    num_files: int = 0  # images that were found and are not being written
    added: int = 0
    later: int = 0  # of them, of days after those of the run
    earlier: int = 0  # of them, of days before
    earlier_days: tuple[date, date] | None = None  # the first and the last of those
    unsettled: int = 0  # changed within the last SETTLED_S seconds: the next run registers them
    changed: list[int] = field(default_factory=list)  # ids of known images whose file was replaced, one
    num_changed: int = 0
    other: Counter[str] = field(default_factory=Counter)  # files with another suffix, by suffix
    unreadable: list[str] = field(default_factory=list)  # folders and files, with the reason
    unstorable: list[str] = field(default_factory=list)  # one file whose name no database can hold
    num_unstorable: int = 0

    def to_json(self) -> dict[str, Any]:
        days = self.earlier_days and [str(one) for one in self.earlier_days]
        return asdict(self) | {"earlier_days": days, "other": dict(self.other)}


def register_new(loaded: LoadedSettings, days: Sequence[Day], *, dry_run: bool = False) -> Registration | None:
    """Register the new images of the watched folders under their own dates; a dry run only looks for them.

    Return what was found, or None if no folder is watched. Raises StorageUnavailable if a folder is not available.
    """
    if not loaded.watched:
        return None
    found = Registration()
    with open_results_database(loaded, read_only=dry_run) as database:
        _check_folders(database, loaded)
        scans = [FolderScan(str(folder)) for folder in loaded.watched]
        images = _images(scans, found, loaded)
        for batch in register(database, images, None, dry_run=dry_run):
            found.num_files += batch.num_images
            found.num_changed += len(batch.changed)
            found.changed = found.changed or list(batch.changed[:1])
            _count_days(found, batch.new, days)
    found.unreadable = [problem for scan in scans for problem in scan.unreadable]
    _log(found, loaded, dry_run)
    return found


def _check_folders(database: Database, loaded: LoadedSettings) -> None:
    """Raise StorageUnavailable for a folder that is missing or doesn't answer, or is empty though it had images."""
    folders = [str(folder) for folder in loaded.watched]
    hint = "is the image storage mounted? [images] watch in infer.toml names it"
    try:  # in another process: one that waits for storage that does not answer can't be ended
        states = run_in_process(look_at_folders, folders, timeout_s=STAT_TIMEOUT_S)
    except ModelError:
        raise StorageUnavailable(f"{' or '.join(folders)} does not answer", hint) from None
    for folder, problem in zip(folders, states, strict=True):
        if problem is not None and (problem or has_images_in(database, loaded.path_map.recorded(folder))):
            reason = problem or "is empty, and images in it are registered"
            raise StorageUnavailable(f"{folder}: {reason}", hint)


def _images(scans: Sequence[FolderScan], found: Registration, loaded: LoadedSettings) -> Iterator[ImageFile]:
    """Yield the images that can be registered, under the locations to record; count the other files."""
    now, path_map = time.time(), loaded.path_map
    for scan in scans:
        for file in scan:
            suffix = suffix_of(file.location)
            if suffix not in IMAGE_SUFFIXES:
                is_shown = "/" not in suffix and (suffix in found.other or len(found.other) < FEW_SUFFIXES)
                found.other[suffix if is_shown else ""] += 1
            elif abs(now - (file.modified or 0.0)) < SETTLED_S:
                found.unsettled += 1
            elif not file.location.isascii() and not is_utf8(file.location):
                found.num_unstorable += 1
                found.unstorable = found.unstorable or [printable(file.location)]
            else:
                yield file._replace(location=path_map.recorded(file.location)) if path_map.folders else file


def _count_days(found: Registration, new: Sequence[ImageFile], days: Sequence[Day]) -> None:
    now, zone = datetime.now(UTC), find_zone(days[0].zone)
    times = [own_time(image, now).replace(tzinfo=UTC) for image in new]
    found.added += len(times)
    found.later += sum(one >= days[-1].end for one in times)
    earlier = [one for one in times if one < days[0].start]
    if earlier:
        found.earlier += len(earlier)
        dates = [one.astimezone(zone).date() for one in (min(earlier), max(earlier))]
        dates += found.earlier_days or ()
        found.earlier_days = min(dates), max(dates)


def _log(found: Registration, loaded: LoadedSettings, dry_run: bool) -> None:
    folders = ", ".join(_short(folder, loaded) for folder in loaded.watched)
    if found.added:
        verb = "would be registered" if dry_run else "registered"
        log.info("%s of %s %s", counted(found.added, "new image"), folders, verb)
    if found.unsettled:
        files, are = counted(found.unsettled, "file"), "is" if found.unsettled == 1 else "are"
        log.info(
            "%s of %s %s left for the next run: changed within the last %d s, perhaps still being written",
            files,
            folders,
            are,
            SETTLED_S,
        )
    if found.other:
        counts = ", ".join(f"{count:,} {suffix or 'others'}" for suffix, count in found.other.most_common(5))
        log.info("files of %s that are no images by their names were left out: %s", folders, counts)


def _short(folder: Path, loaded: LoadedSettings) -> str:
    return str(folder.relative_to(loaded.folder)) if folder.is_relative_to(loaded.folder) else str(folder)


def describe(found: Registration, backfill: Callable[[date, date], str]) -> Iterator[str]:
    """Yield what somebody should look at; `backfill` returns the command for a range of days."""
    if found.earlier_days:
        first, last = found.earlier_days
        days = str(first) if first == last else f"{first} to {last}"
        yield (
            f"{_images_are(found.earlier)} registered, by the files' own dates, for {days},"
            f" which no run looks at any more: {backfill(first, last)}"
        )
    if found.num_changed:
        yield (
            f"{counted(found.num_changed, 'registered file')} {'was' if found.num_changed == 1 else 'were'} replaced;"
            f" predictions stay until `infer retry --image {found.changed[0]}`"
        )
    for problem in found.unreadable[:SHOWN_PROBLEMS]:
        yield f"not registered, since it can't be read: {printable(problem)}"
    if len(found.unreadable) > SHOWN_PROBLEMS:
        yield f"and {len(found.unreadable) - SHOWN_PROBLEMS:,} more files and folders can't be read"
    if found.num_unstorable:
        yield (
            f"{found.num_unstorable:,} files have names that are not UTF-8 and that no database can hold; rename them,"
            f" for example {found.unstorable[0]}"
        )


def _images_are(count: int) -> str:
    return "1 image is" if count == 1 else f"{count:,} images are"
