"""Checks that [source] lists what it listed at the last run: another table, or another folder, is rarely meant."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from infer_app.base.errors import NoAnswer, UsageError
from infer_app.base.locations import is_local, is_relative, stored_location
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.local_files import hash_files, stat_all
from infer_app.run.files.changed_files import ask_storage
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.results.project_row import ReadFrom, read_last_pictures, read_source, record_source

log = logging.getLogger(__name__)

NUM_KNOWN = 1000  # pictures that are looked for in another table
NUM_FILES = 20  # that are compared in another folder
LEAST_SHARE = 0.1
GO_ON = "or run once with --other-source"


class _KnownFile(NamedTuple):
    """Tell the file of a known picture from another one."""

    size: int | None
    checksums: set[str]

    def differs(self, size: int, sha256: str | None) -> bool:
        """Return whether a file is another one; `sha256` is None of one that can't be read."""
        return size != self.size or bool(sha256 and self.checksums and sha256 not in self.checksums)


def check_source(loaded: LoadedSettings, project: ProjectDatabase, *, is_meant: bool, read_only: bool) -> None:
    """Raise UsageError if [source] has changed since the last run and lists hardly any known picture, or other files.

    What is read is recorded for the next run. `is_meant`: the change is meant, so nothing is compared.
    """
    table = project.source.table
    if table is None or project.source.not_asked:
        return
    base = None if loaded.base is None else loaded.path_map.to_local(str(loaded.base))
    now, before = ReadFrom(table.described, table.database.shown_url, base), project.database.ask(read_source)
    if now == before:
        return
    if before.source is not None and not is_meant:
        known, locations = dict[str, _KnownFile](), dict[str, str]()  # by location; of each id the last one
        for row in project.database.ask(partial(read_last_pictures, count=NUM_KNOWN)):
            locations.setdefault(row.image_id, row.location)
            known.setdefault(row.location, _KnownFile(row.size, set())).checksums.update({row.sha256} - {None})
        if now[:2] != before[:2]:
            _check_listed(loaded, table, known, locations, is_elsewhere=now.source == before.source)
        relative = {location: one for location, one in known.items() if is_local(location) and is_relative(location)}
        if now.base != before.base and not _have_same_bytes(loaded, relative):
            now = now._replace(base=before.base)  # none is there: they are compared by the next run
    if not read_only:
        record_source(project.database, now)


def _check_listed(
    loaded: LoadedSettings,
    table: UserTable,
    known: Mapping[str, _KnownFile],
    locations: Mapping[str, str],
    *,
    is_elsewhere: bool,
) -> None:
    """Raise UsageError if hardly any id is listed, or if they are those of other files.

    `is_elsewhere`: the same table or query at another URL. Such a query may list only what has no result.
    """
    listed = defaultdict[str, list[str]](list)
    for row in table.find_rows(locations):
        listed[row.image_id].append(row.location)
    least, among = LEAST_SHARE * len(locations), f"{len(listed):,} of the last {len(locations):,} images"
    if len(listed) < least and is_elsewhere and loaded.source.query is not None:
        log.warning("the query finds %s at the new URL of [source]: is it the same database?", among)
    elif len(listed) < least:
        raise UsageError(
            f"[source] names another table than the last run had, with {among}",
            f"is it the table that was meant? A second project needs a database of its own; {GO_ON}",
        )
    elif sum(locations[one] in map(stored_location, found) for one, found in listed.items()) < least:
        _have_same_bytes(loaded, {found[0]: known[locations[one]] for one, found in listed.items()})
        log.warning("the images of the last run are under other locations now, and are predicted as others")


def _have_same_bytes(loaded: LoadedSettings, known: Mapping[str, _KnownFile]) -> bool:
    """Return whether there are files at these locations, or none is known. Raises UsageError if most are others."""
    sizes = {location: one.size for location, one in known.items() if one.size is not None and is_local(location)}
    there, differ = list[str](), list[str]()
    with suppress(NoAnswer):  # of its storage, which the run finds out
        facts = zip(sizes, ask_storage(stat_all, list(sizes), loaded.path_map), strict=True)
        now = {location: file.size for location, file in facts if file.size is not None}
        there = list(now)[:NUM_FILES]
        hashed = zip(there, filter(None, ask_storage(hash_files, there, read_limits(loaded))), strict=True)
        differ = [one for one, file in hashed if known[one].differs(now[one], file.sha256)]
    if 2 * len(differ) > len(there):
        raise UsageError(
            f"{len(differ)} of {len(there)} files that [source] names are others than before, such as {differ[0]}",
            f"are its table and `base` those that were meant? {GO_ON}",
        )
    return bool(there) or not sizes
