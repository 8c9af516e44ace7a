"""Registers the new images of the folders that [images] watch names; a run begins with it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from infer_app.database.engine.column_types import is_utf8
from infer_app.database.engine.connect import Database
from infer_app.database.listing.image_registry import DatedImage, RegisteredBatch, register
from infer_app.database.listing.watched_images import SeenImages, has_images_in, mark_missing
from infer_app.database.project_database import open_results_database, read_limits
from infer_app.day import Day, find_zone
from infer_app.domain import FileFacts, ImageFile, ImageRef
from infer_app.errors import ModelError, NoAnswer, StorageUnavailable, UsageError
from infer_app.images.read.folder_scan import scan_folders, suffix_of
from infer_app.images.read.read_image import are_gone, hash_files
from infer_app.images.read.roots import look_at_folders
from infer_app.locations import IMAGE_SUFFIXES
from infer_app.pipeline.files.changed_files import FILES_AT_ONCE, find_moved
from infer_app.plurals import counted
from infer_app.settings.load import LoadedSettings
from infer_app.telemetry.printable import printable
from infer_app.workers.isolated_call import STORAGE_TIMEOUT_S, iterate_in_process

log = logging.getLogger(__name__)

FEW_SUFFIXES = 20  # of files that are left out, which are told apart
SHOWN_PROBLEMS = 5
SETTLED_S = 10.0  # after its last change a file is taken to be complete
SAMPLE = 4096  # images that a dry run may try without registering them
FIRST_TIME = 0.0  # seconds since the epoch: earlier modification times are errors
FIRST_DIGITAL = datetime(1995, 1, 1, tzinfo=UTC).timestamp()  # no camera wrote a file before
A_DAY_S = 86400.0  # so far may a camera's clock, or its zone, be ahead

Check = Callable[[], None]  # raises if the run is to end


@dataclass(slots=True)
class Registration:
    """Counts of files that were registered, or in a dry run would be."""

    num_files: int = 0  # images that were found and are not being written
    added: int = 0
    later: int = 0  # of them, of days after those of the run
    earlier: int = 0  # of them, of days that the look-back has passed: the run takes them after its own days
    earlier_days: tuple[date, date] | None = None  # the first and the last of those
    unsettled: int = 0  # changed within the last SETTLED_S seconds: the next run registers them
    num_changed: int = 0  # known files with another size or time than before
    num_missing: int = 0  # known files that are gone since the last walk
    moved: list[str] = field(default_factory=list)  # what was known elsewhere, where it is now, and how many images
    other: Counter[str] = field(default_factory=Counter)  # files with another suffix, by suffix
    unreadable: list[str] = field(default_factory=list)  # folders and files, with the reason
    unstorable: list[str] = field(default_factory=list)  # one file that the database can't hold, with the reason
    num_unstorable: int = 0
    wrong_clock: list[str] = field(default_factory=list)  # one new image with a time that can't be right
    num_wrong_clocks: int = 0
    sample: list[ImageRef] = field(default_factory=list)  # of a dry run: some that would be run

    @property
    def to_run(self) -> int:
        return self.added - self.later

    def to_json(self) -> dict[str, Any]:
        days = self.earlier_days and [str(one) for one in self.earlier_days]
        counts = asdict(self) | {"earlier_days": days, "other": dict(self.other)}
        del counts["sample"]
        return counts


def register_new(
    loaded: LoadedSettings, days: Sequence[Day], check: Check, *, dry_run: bool = False
) -> Registration | None:
    """Register the new images of the watched folders under their own dates; a dry run only looks for them.

    Return what was found, or None if no folder is watched. `check` is called all the time and may raise. Raises
    StorageUnavailable if a folder is not available.
    """
    if not loaded.watched:
        return None
    found = Registration()
    with open_results_database(loaded, read_only=dry_run) as database:
        _check_folders(database, loaded, check)
        for moved in follow_moved(database, loaded, check, dry_run=dry_run):
            log.info("%s", moved)
            found.moved.append(moved)
        seen = SeenImages(database, _recorded_folders(loaded))
        dates = partial(_date_all, found=found, loaded=loaded, check=check)
        looked = partial(_hash, loaded=loaded, check=check)
        for batch in register(database, _images(found, loaded, check), dates, looked, dry_run=dry_run):
            seen.add(batch.known)
            _count(found, batch, days, dry_run)
            check()
        if not dry_run:
            _mark_missing(found, database, seen, loaded, check)
    _log(found, loaded, dry_run)
    return found


def _recorded_folders(loaded: LoadedSettings) -> list[str]:
    """Return the folders, as recorded and with a slash at the end, that the images of watched folders are in."""
    local = [f"{folder}/" for folder in loaded.watched]
    mapped = [f"{recorded}/" for recorded, here in loaded.path_map.folders if f"{here}/".startswith(tuple(local))]
    return list(dict.fromkeys([*map(loaded.path_map.recorded, local), *mapped]))


def follow_moved(
    database: Database, loaded: LoadedSettings, check: Check = lambda: None, *, dry_run: bool = False
) -> Iterator[str]:
    """Let what was registered elsewhere, and is in a watched folder now, be known there; yield what was done.

    Raises UsageError in a dry run, which would take these images for new ones.
    """
    ask = partial(_ask_storage, loaded=loaded, check=check)
    for moved in find_moved(database, loaded, _recorded_folders(loaded), ask):
        if dry_run:
            hint = "`infer run` records where they are, then runs"
            raise UsageError(f"images {moved}, and nothing is changed here", hint)
        yield f"{counted(moved.apply(), 'image')} {moved}"


def _hash(files: Sequence[ImageFile], loaded: LoadedSettings, check: Check) -> Iterator[FileFacts]:
    locations = [file.location for file in files]
    log.info("%s with another size or time than before: comparing the content", counted(len(files), "known file"))
    yield from filter(None, _ask_storage(hash_files, locations, read_limits(loaded), loaded=loaded, check=check))


def _mark_missing(
    found: Registration, database: Database, seen: SeenImages, loaded: LoadedSettings, check: Check
) -> None:
    """Mark what is gone: the walk leaves out what it can't read, and files that are no images by their names."""
    others = seen.read_others()
    for first in range(0, len(others), FILES_AT_ONCE):
        some = others[first : first + FILES_AT_ONCE]
        states = _ask_storage(are_gone, [location for _, location in some], loaded.path_map, loaded=loaded, check=check)
        if gone := [row_id for (row_id, _), is_gone in zip(some, states, strict=True) if is_gone]:
            _check_folders(database, loaded, check)  # the storage may have gone during the walk
            mark_missing(database, gone)
            found.num_missing += len(gone)


def _check_folders(database: Database, loaded: LoadedSettings, check: Check) -> None:
    """Raise StorageUnavailable for a folder that is missing or doesn't answer, or is empty though it had images."""
    folders = [str(folder) for folder in loaded.watched]
    states = list(_ask_storage(look_at_folders, folders, loaded=loaded, check=check))
    for folder, problem in zip(folders, states, strict=True):
        if problem is not None and (problem or has_images_in(database, loaded.path_map.recorded(f"{folder}/"))):
            raise _unavailable(f"{folder}: {problem or 'is empty, and images in it are registered'}")


def _ask_storage(function: Callable[..., Any], *args: object, loaded: LoadedSettings, check: Check) -> Iterator[Any]:
    """Yield what `function` yields in another process: one that waits for storage that doesn't answer can't be ended.

    Raises StorageUnavailable if nothing comes for STORAGE_TIMEOUT_S.
    """
    try:
        yield from iterate_in_process(function, *args, timeout_s=STORAGE_TIMEOUT_S, check=check)
    except NoAnswer:
        raise _unavailable(f"{' or '.join(map(str, loaded.watched))} does not answer") from None


def _unavailable(message: str) -> StorageUnavailable:
    return StorageUnavailable(message, "is the image storage mounted? [images] watch in infer.toml names it")


def _images(found: Registration, loaded: LoadedSettings, check: Check) -> Iterator[ImageFile]:
    """Yield the images that can be registered, under the locations to record; count the other files."""
    path_map = loaded.path_map
    for scanned in _ask_storage(scan_folders, [*map(str, loaded.watched)], loaded=loaded, check=check):
        found.unreadable += scanned.unreadable
        for file in scanned.files:
            suffix = suffix_of(file.location)
            if suffix not in IMAGE_SUFFIXES:
                is_shown = "/" not in suffix and (suffix in found.other or len(found.other) < FEW_SUFFIXES)
                found.other[suffix if is_shown else ""] += 1
            elif abs(scanned.began_at - (file.modified or 0.0)) < SETTLED_S:
                found.unsettled += 1
            elif not file.location.isascii() and not is_utf8(file.location):
                found.num_unstorable += 1
                found.unstorable = found.unstorable or [f"{printable(file.location)}: not UTF-8"]
            else:
                found.num_files += 1
                yield file._replace(location=path_map.recorded(file.location)) if path_map.folders else file


def _date_all(
    new: Sequence[ImageFile], found: Registration, loaded: LoadedSettings, check: Check
) -> Sequence[DatedImage]:
    """Return new images with their own times: those of their cameras, if [images] day says so, or of their files."""
    now = datetime.now(UTC)
    taken: Sequence[float | None] = [None] * len(new)
    if loaded.images.day == "exif":
        taken = _capture_times([loaded.path_map.to_local(file.location) for file in new], loaded, check)
    dated = []
    for file, seconds in zip(new, taken, strict=True):
        at = _time_of(file, seconds, found, now.timestamp())
        dated.append(DatedImage(file, _naive(at), queued_at=_naive(now)))
    return dated


def _capture_times(paths: Sequence[str], loaded: LoadedSettings, check: Check) -> list[float | None]:
    from infer_app.images.decode.capture_time import read_capture_times

    times: list[float | None] = []
    while left := paths[len(times) :]:
        try:
            times.extend(_ask_storage(read_capture_times, left, loaded.run.time_zone, loaded=loaded, check=check))
        except ModelError:  # a file that crashes the library has none
            times.append(None)
    return times


def _time_of(file: ImageFile, taken: float | None, found: Registration, now: float) -> datetime:
    """Return the time of a new image: the first of those stated that can be right; one in the future counts as now."""
    stated = [seconds for seconds in (taken, file.modified) if seconds is not None]
    possible = [seconds for seconds in stated if FIRST_DIGITAL <= seconds <= now + A_DAY_S]
    if len(possible) < len(stated):
        found.num_wrong_clocks += 1
        found.wrong_clock = found.wrong_clock or [printable(file.location)]
    seconds = (possible or stated[-1:] or [now])[0]
    return datetime.fromtimestamp(min(max(seconds, FIRST_TIME), now), UTC)


def _naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)


def _count(found: Registration, batch: RegisteredBatch, days: Sequence[Day], dry_run: bool) -> None:
    zone, end = find_zone(days[0].zone), _naive(days[-1].end)
    found.num_changed += batch.num_changed
    found.num_unstorable += len(batch.refused)
    found.unstorable = found.unstorable or list(map(printable, batch.refused[:1]))
    found.added += len(batch.new)
    found.later += sum(image.added_at >= end for image in batch.new)
    if late := [at for image in batch.new if (at := image.added_at.replace(tzinfo=UTC)) < days[0].start]:
        found.earlier += len(late)
        dates = [one.astimezone(zone).date() for one in (min(late), max(late))]
        dates += found.earlier_days or ()
        found.earlier_days = min(dates), max(dates)
    if dry_run:
        to_run = (image.file.location for image in batch.new if image.added_at < end)
        first = len(found.sample)
        found.sample += [
            ImageRef(f"new-{first + number}", location)
            for number, location in enumerate(islice(to_run, SAMPLE - first))
        ]


def _log(found: Registration, loaded: LoadedSettings, dry_run: bool) -> None:
    folders = ", ".join(_short(folder, loaded) for folder in loaded.watched)
    if found.added:
        verb = "would be registered" if dry_run else "registered"
        log.info("%s of %s %s", counted(found.added, "new image"), folders, verb)
    if found.earlier_days:
        first, last = found.earlier_days
        days = str(first) if first == last else f"{first} to {last}"
        log.info("of them %s older than the look-back, of %s: `infer run` takes them too", f"{found.earlier:,}", days)
    if found.unsettled:
        files, are = counted(found.unsettled, "file"), "is" if found.unsettled == 1 else "are"
        log.info(
            "%s of %s %s left for the next run: changed within the last %d s, perhaps still being written",
            files,
            folders,
            are,
            SETTLED_S,
        )
    if found.num_missing:
        log.info("%s of %s gone since the last walk", counted(found.num_missing, "file"), folders)
    if found.other:
        counts = ", ".join(f"{count:,} {suffix or 'others'}" for suffix, count in found.other.most_common(5))
        log.info("files of %s that are no images by their names were left out: %s", folders, counts)


def _short(folder: Path, loaded: LoadedSettings) -> str:
    return str(folder.relative_to(loaded.folder)) if folder.is_relative_to(loaded.folder) else str(folder)


def describe(found: Registration) -> Iterator[str]:
    """Yield what somebody should look at."""
    yield from map(printable, found.moved)
    if found.num_wrong_clocks:
        yield (
            f"{counted(found.num_wrong_clocks, 'new image')} {'has' if found.num_wrong_clocks == 1 else 'have'} a time"
            f" before 1995 or in the future, for example {found.wrong_clock[0]}: is the camera's clock right?"
        )
    for problem in found.unreadable[:SHOWN_PROBLEMS]:
        yield f"not registered, since it can't be read: {printable(problem)}"
    if len(found.unreadable) > SHOWN_PROBLEMS:
        yield f"and {len(found.unreadable) - SHOWN_PROBLEMS:,} more files and folders can't be read"
    if found.num_unstorable:
        yield (
            f"{counted(found.num_unstorable, 'file')} can't be registered, since the database can't hold the name or"
            f" refuses the row, for example {found.unstorable[0]}"
        )
