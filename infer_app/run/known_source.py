"""Checks that [source] lists what it listed at the last run: another table, or another folder, is rarely meant."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from infer_app.base.errors import NoAnswer, UsageError
from infer_app.base.locations import is_local, is_relative, stored_location
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.local_files import hash_files, stat_all
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, iterate_in_process
from infer_app.tables.listing.source import find_locations
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.results.project_row import ReadFrom, read_last_pictures, read_source, record_source

log = logging.getLogger(__name__)

NUM_KNOWN = 1000  # pictures that are looked for in another table
NUM_FILES = 20  # that are compared in another folder
LEAST_SHARE = 0.1
GO_ON = "or run once with --other-source"


def check_source(loaded: LoadedSettings, project: ProjectDatabase, *, is_meant: bool, read_only: bool) -> None:
    """Raise UsageError if [source] has changed since the last run and lists hardly any known picture, or other files.

    What is read is recorded for the next run. `is_meant`: the change is meant, so nothing is compared.
    """
    source = project.source
    if source.registered:
        return
    now = ReadFrom(source.described, None if loaded.base is None else str(loaded.base))
    before = project.database.ask(read_source)
    if now == before:
        return
    if before.source is not None and not is_meant:
        known = project.database.ask(partial(read_last_pictures, count=NUM_KNOWN))
        if now.source != before.source:
            _check_listed(project, known)
        if now.base != before.base and not _have_same_bytes(loaded, known):
            now = now._replace(base=before.base)  # none is there: they are compared by the next run
    if not read_only:
        record_source(project.database, now)


def _check_listed(project: ProjectDatabase, known: Sequence[Any]) -> None:
    stored = {row.image_id: row.location for row in known}
    listed = project.ask(find_locations, project.source, stored)
    least, among = LEAST_SHARE * len(stored), f"{len(listed):,} of the last {len(stored):,} images"
    if len(listed) < least:
        raise UsageError(
            f"[source] names another table than the last run had, with {among}",
            f"is it the table that was meant? A second project needs a database of its own; {GO_ON}",
        )
    if sum(stored[one] in map(stored_location, listed[one]) for one in listed) < least:
        log.warning("the images of the last run are under other locations now, and are predicted as others")


def _have_same_bytes(loaded: LoadedSettings, known: Sequence[Any]) -> bool:
    """Return whether some known files are below the new base. Raises UsageError if most of them are others."""
    sizes, checksums = dict[str, int](), dict[str, set[str]]()
    for row in known:
        if row.size is not None and is_local(row.location) and is_relative(row.location):
            sizes[row.location] = row.size
            checksums.setdefault(row.location, set()).update({row.sha256} - {None})
    ask = partial(iterate_in_process, timeout_s=STORAGE_TIMEOUT_S, check=lambda: None)
    there, differ = list[str](), list[str]()
    with suppress(NoAnswer):  # of its storage, which the run finds out
        facts = zip(sizes, ask(stat_all, list(sizes), loaded.path_map), strict=True)
        now = {location: file.size for location, file in facts if file.size is not None}
        there = list(now)[:NUM_FILES]
        hashed = zip(there, filter(None, ask(hash_files, there, read_limits(loaded))), strict=True)
        differ = [
            one
            for one, file in hashed
            if now[one] != sizes[one] or (file.sha256 and checksums[one] and file.sha256 not in checksums[one])
        ]
    if 2 * len(differ) > len(there):
        raise UsageError(
            f"{len(differ)} of {len(there)} files below {loaded.base} are others than those that were predicted,"
            f" such as {differ[0]}",
            f"is [source] base the folder that was meant? {GO_ON}",
        )
    return bool(there) or not sizes
