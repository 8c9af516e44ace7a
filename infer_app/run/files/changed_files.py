"""Finds files that have changed since: rejected ones to be tried again, and replaced ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import compress, islice
from typing import Any

from infer_app.base.day import Day
from infer_app.base.domain import FileFacts, ImageFile
from infer_app.base.errors import ModelError, NoAnswer, StorageUnavailable, UsageError
from infer_app.base.locations import PathMapping, is_local_file
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.local_files import are_gone, hash_files, stat_all
from infer_app.predict.images.read.roots import check_missing, check_root
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, iterate_in_process, run_in_process
from infer_app.tables.engine.connect import Database
from infer_app.tables.forget_results import forget_rejections
from infer_app.tables.listing.image_registry import register
from infer_app.tables.listing.watched_images import ChangedImage, read_changed
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.rows.results import Part, Result, Selection, read, read_rejections

log = logging.getLogger(__name__)

FILES_AT_ONCE = 5000  # rejected files that one process checks

AskStorage = Callable[..., Iterator[Any]]  # what a function yields, in another process
ask_storage: AskStorage = partial(iterate_in_process, timeout_s=STORAGE_TIMEOUT_S, check=lambda: None)


def reset_changed_rejections(
    project: ProjectDatabase, path_map: PathMapping, day: Day, model_id: str, ask: AskStorage = ask_storage
) -> int:
    """Delete the rejections whose file or address has changed since; return their number.

    Another process checks the files: a process that waits for storage that does not answer can't be ended.
    """
    changed: list[int] = []
    try:
        with closing(read_rejections(project, day, model_id)) as stored:  # a server keeps a transaction open
            while some := list(islice(stored, FILES_AT_ONCE)):
                files = ask(stat_all, [rejected.location for rejected in some], path_map)
                pairs = zip(some, files, strict=True)
                changed += [rejected.picture for rejected, now in pairs if rejected.is_outdated(now, rejected.location)]
    except ModelError:
        log.warning("rejected images of %s were not checked for changes: their storage does not answer", day)
    return forget_rejections(project.database, changed, model_id)


def find_changed(
    loaded: LoadedSettings, project: ProjectDatabase, model_ids: Sequence[str], day: Day | None
) -> Iterator[ChangedImage]:
    """Yield the images, of a day or of all, that are missing or of which one of the models predicted other bytes.

    Our own table knows them from its walks. Of a table of the user's the files of the day are looked at now; raises
    UsageError without a day, and StorageUnavailable if they don't answer.
    """
    if loaded.lists_own_images:
        yield from read_changed(project.database, project.source, model_ids, day)
        return
    if day is None:
        hint = "name a day with --date: its files are looked at now"
        raise UsageError("infer_app walks over no folder of images that a table of your own lists", hint)
    stored = read(project, day, Selection(model_ids, Part.FILE, counting=False)) if model_ids else ()
    files = (one for one in stored if is_local_file(one.location))
    last = 0
    while some := list(islice(files, FILES_AT_ONCE)):
        for one, is_gone in _compare(loaded, some):
            if one.picture != last:  # once, though several models have predicted it
                since = datetime.now(UTC) if is_gone else None
                yield ChangedImage(one.picture, one.image_id, one.location, day.start, since)
            last = one.picture


def compare_replaced(loaded: LoadedSettings, database: Database, changed: Iterable[ChangedImage]) -> None:
    """Store what the files of replaced images of our own table are now: no run walks over those added by a command.

    Raises StorageUnavailable if they don't answer.
    """
    locations = [one.location for one in changed if one.state == "replaced"]
    limits = read_limits(loaded)

    def hash_again(files: Sequence[ImageFile]) -> Iterator[FileFacts]:
        return filter(None, ask_storage(hash_files, [file.location for file in files], limits))

    try:
        now = zip(locations, ask_storage(stat_all, locations, loaded.path_map), strict=True)
        files = (ImageFile(location, facts.size, facts.modified) for location, facts in now)
        for _ in register(database, files, lambda new: [], hash_again):
            pass
    except NoAnswer as error:
        raise StorageUnavailable(error.message, "is the image storage mounted?") from None


def _compare(loaded: LoadedSettings, predicted: Sequence[Result]) -> Iterator[tuple[Result, bool]]:
    """Yield those whose file is gone or has other bytes, and whether it is gone; only changed files are read."""
    limits = read_limits(loaded)
    try:
        now = ask_storage(stat_all, [one.location for one in predicted], loaded.path_map)
        pairs = zip(predicted, now, strict=True)
        touched = [one for one, file in pairs if one.differs(file)]
        locations = [one.location for one in touched]
        gone = dict(zip(locations, ask_storage(are_gone, locations, loaded.path_map), strict=True))
        if missing := [location for location in locations if gone[location]]:
            run_in_process(check_root, missing[0], limits, timeout_s=STORAGE_TIMEOUT_S)
        for one, file in zip(touched, filter(None, ask_storage(hash_files, locations, limits)), strict=True):
            if gone[one.location] or file.sha256 not in (None, one.sha256):
                yield one, gone[one.location]
    except NoAnswer as error:
        raise StorageUnavailable(error.message, "is the image storage mounted?") from None


def are_missing(loaded: LoadedSettings, may_be_most: bool, locations: Sequence[str]) -> list[bool]:
    """Return for each file whether it is gone.

    Raises StorageUnavailable if their storage does not answer or, unless they `may_be_most`, may be away.
    """
    try:
        gone = list(ask_storage(are_gone, locations, loaded.path_map))
        missing = list(compress(locations, gone))
        if missing and not may_be_most:
            run_in_process(check_missing, missing, read_limits(loaded), timeout_s=STORAGE_TIMEOUT_S)
        return gone
    except NoAnswer as error:
        raise StorageUnavailable(error.message, "is the image storage mounted?") from None
