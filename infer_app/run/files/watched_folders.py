"""Registers the new images of the folders that [images] watch names; a run begins with it."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

from infer_app.base.day import Day
from infer_app.base.domain import ImageFile
from infer_app.base.errors import NoAnswer, StorageUnavailable, UsageError
from infer_app.base.locations import NO_MAPPING
from infer_app.base.printing import counted, one_line
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.folder_scan import look_at_folders, scan_folders
from infer_app.predict.images.read.local_files import are_gone, stat_all
from infer_app.predict.images.read.roots import ON_PURPOSE
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, iterate_in_process
from infer_app.run.files.changed_files import FILES_AT_ONCE
from infer_app.run.files.dating import Dating
from infer_app.run.files.moved_folders import find_moved
from infer_app.run.files.registration import SETTLED_S, Registration
from infer_app.tables.cameras.redate import redate_images
from infer_app.tables.engine.column_types import is_utf8
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import DatedImage, register
from infer_app.tables.listing.stored_notices import OF_WALK, hold, record
from infer_app.tables.listing.watched_images import SeenImages, count_missing, has_images_in, mark_missing
from infer_app.tables.project_database import open_results_database
from infer_app.tables.results.project_row import read_forgotten_before

log = logging.getLogger(__name__)

Check = Callable[[], None]  # raises if the run is to end


def register_new(
    loaded: LoadedSettings, days: Sequence[Day], check: Check, *, dry_run: bool = False, may_wait: bool = False
) -> Registration:
    """Register the new images of the watched folders under their own dates; a dry run only looks for them.

    Return what was found. `check` is called all the time and may raise. If it `may_wait`, a run over today waits for
    files that may still be written. Raises StorageUnavailable if a folder is not available.
    """
    if not loaded.watched:
        return Registration()
    may_be_of_days = loaded.images.day == "taken" or days[-1].end > datetime.now(UTC)
    with open_results_database(loaded, read_only=dry_run) as database:
        folders = WatchedFolders(loaded, database, check, may_wait=may_wait and may_be_of_days)
        folders.check()
        for moved in folders.follow_moved(dry_run=dry_run):
            log.info("%s", moved)
            folders.found.moved.append(moved)
        folders.register(days, dry_run=dry_run)
    folders.found.log(loaded, dry_run=dry_run)
    return folders.found


class WatchedFolders:
    """The watched folders of a project, and what one walk over them finds."""

    def __init__(
        self, loaded: LoadedSettings, database: Database, check: Check = lambda: None, *, may_wait: bool = False
    ) -> None:
        self.found = Registration()
        self._may_wait = may_wait
        self._loaded = loaded
        self._database = database
        self._check = check

    def check(self, *, may_be_empty: bool = False) -> None:
        """Raise StorageUnavailable for a folder that is missing or doesn't answer, or holds no image though it did."""
        folders, exclude = [str(folder) for folder in self._loaded.all_watched], self._loaded.images.exclude
        for folder, problem in zip(folders, list(self.ask(look_at_folders, folders, exclude)), strict=True):
            if problem:
                raise _unavailable(f"{folder}: {problem}")
            if problem == "" and not may_be_empty and has_images_in(self._database, self._recorded_folders(folder)):
                raise _unavailable(f"{folder}: holds no image, and images in it are registered", f"; {ON_PURPOSE}")

    def follow_moved(self, *, dry_run: bool = False) -> Iterator[str]:
        """Let what was registered elsewhere, and is in a watched folder now, be known there; yield what was done.

        Raises UsageError in a dry run, which would take these images for new ones.
        """
        for moved, store in find_moved(self._database, self._loaded, self._recorded_folders(), self.ask):
            if dry_run:
                hint = "`infer run` records where they are, then runs"
                raise UsageError(f"images {moved}, and nothing is changed here", hint)
            yield f"{counted(store(), 'image')} {moved}"

    def register(self, days: Sequence[Day], *, dry_run: bool) -> None:
        """Register what is new, mark what is gone, and store what somebody should look at."""
        if self._loaded.images.day == "taken" and not dry_run:
            redate_images(self._database, self._loaded.run.time_zone)
        seen = SeenImages(self._database, self._recorded_folders())
        dating = Dating(self._loaded, self._database, self.ask, self.found)
        self.found.forgotten_before = read_forgotten_before(self._database)
        self.found.zone, self.found.folders = self._loaded.run.time_zone, _digits(self._recorded_folders())
        date = partial(self._date, dating, dry_run=dry_run)
        for batch in register(self._database, self.images(), date, dating.hash_changed, dry_run=dry_run):
            seen.add(batch.known)
            self.found.count(batch, days, is_sampled=dry_run)
            self._check()
        if not dry_run:
            self.mark_missing(seen, self.check)  # the storage may have gone during the walk
            self._database.transact(
                partial(hold, found=list(self.found.holding()), kinds=OF_WALK, subject=self.found.folders)
            )

    def _date(self, dating: Dating, new: Sequence[ImageFile], *, dry_run: bool) -> Sequence[DatedImage]:
        """Date new images; store what is wrong with their times before they are: a run that is killed has told it."""
        found, before = self.found, self.found.num_wrong_clocks
        dated = dating.date_all(new)
        forgotten = sum(map(found.is_forgotten, dated))
        found.num_forgotten += forgotten
        if not dry_run and (forgotten or found.num_wrong_clocks > before):
            self._database.transact(partial(record, found=found.happened()))
        return dated

    def mark_deleted(self) -> None:
        """Mark what is gone, also where a folder holds no image any more: the user says that it is meant."""
        self.check(may_be_empty=True)
        self.mark_missing(SeenImages(self._database, self._recorded_folders()), lambda: None)

    def images(self) -> Iterator[ImageFile]:
        """Yield the images that can be registered, under the locations to record; count the other files."""
        found, unsettled = self.found, list[ImageFile]()
        for scanned in self.ask(scan_folders, [*map(str, self._loaded.watched)], self._loaded.images.exclude):
            found.unreadable += scanned.unreadable
            found.count_left_out(scanned.left_out)
            for file in scanned.files:
                if abs(scanned.began_at - (file.modified or 0.0)) < SETTLED_S:
                    found.unsettled += 1
                    unsettled += [file] if self._may_wait else []
                else:
                    yield from self._storable(file)
        for file in self._wait_for(unsettled) if unsettled else ():
            found.unsettled -= 1
            yield from self._storable(file)

    def _wait_for(self, files: Sequence[ImageFile]) -> Iterator[ImageFile]:
        """Wait until the files may be taken to be complete; yield those that have not changed meanwhile."""
        log.info("%s changed just now: waiting up to %d s", counted(len(files), "file"), SETTLED_S)
        self._wait(max(file.modified or 0.0 for file in files) + SETTLED_S - time.time())
        facts = self.ask(stat_all, [file.location for file in files], NO_MAPPING)
        for file, now in zip(files, facts, strict=True):
            if (file.size, file.modified) == (now.size, now.modified):
                yield file

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + min(seconds, SETTLED_S)
        while (left := end - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, 0.1))

    def _storable(self, file: ImageFile) -> Iterator[ImageFile]:
        """Yield a file under the location to record; count it if no database can hold its name."""
        found, path_map = self.found, self._loaded.path_map
        if not file.location.isascii() and not is_utf8(file.location):
            found.num_unstorable += 1
            found.unstorable = found.unstorable or [f"{one_line(file.location)}: not UTF-8"]
        else:
            found.num_files += 1
            yield file._replace(location=path_map.recorded(file.location)) if path_map.folders else file

    def mark_missing(self, seen: SeenImages, check: Check) -> None:
        """Mark what is gone: the walk leaves out what it can't read, and files that are no images by their names."""
        others = seen.read_others()
        for first in range(0, len(others), FILES_AT_ONCE):
            some = others[first : first + FILES_AT_ONCE]
            states = self.ask(are_gone, [location for _, location in some], self._loaded.path_map)
            if gone := [row_id for (row_id, _), is_gone in zip(some, states, strict=True) if is_gone]:
                check()
                mark_missing(self._database, gone)
                self.found.num_missing += len(gone)

    def count_missing(self) -> Iterator[tuple[int, int, str]]:
        """Yield, for each watched folder, the number of missing images, the number of all images, and what they are.

        The last item is for all other folders, and both of its numbers are of missing images: these folders may be
        those of another project, whose storage this one can't check.
        """
        for folder in map(str, self._loaded.all_watched if self._loaded.lists_own_images else ()):
            yield *count_missing(self._database, self._recorded_folders(folder)), f"images registered in {folder}"
        if self._loaded.lists_own_images:
            (num_all, _), (num_own, _) = (
                count_missing(self._database, one) for one in ([""], self._recorded_folders())
            )
            yield num_all - num_own, num_all - num_own, "missing images of folders that [images] watch does not name"

    def ask(self, function: Callable[..., Any], *args: object) -> Iterator[Any]:
        """Yield what `function` yields in another process: a process can't be ended that waits for storage.

        Raises StorageUnavailable if nothing comes for STORAGE_TIMEOUT_S.
        """
        try:
            yield from iterate_in_process(function, *args, timeout_s=STORAGE_TIMEOUT_S, check=self._check)
        except NoAnswer:
            raise _unavailable(f"{' or '.join(map(str, self._loaded.watched))} does not answer") from None

    def _recorded_folders(self, *folders: str) -> list[str]:
        """Return the folders, as recorded and with a slash at the end, that images of all or some folders are in."""
        local, path_map = [f"{folder}/" for folder in folders or self._loaded.watched], self._loaded.path_map
        mapped = [f"{recorded}/" for recorded, here in path_map.folders if f"{here}/".startswith(tuple(local))]
        return list(dict.fromkeys([*map(path_map.recorded, local), *mapped]))


def _digits(folders: Sequence[str]) -> str:
    return sha256("\n".join(sorted(folders)).encode(errors="surrogateescape")).hexdigest()[:16]


def _unavailable(message: str, hint: str = "") -> StorageUnavailable:
    return StorageUnavailable(message, f"is the image storage mounted? [images] watch in infer.toml names it{hint}")
