"""Check the database: that it is there, that its tables can be written, and the images that it lists."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path

from infer_app.base.day import MIN_YEAR, Day
from infer_app.base.domain import Broken, ImageRef, Reason
from infer_app.base.errors import EXIT_OK, DatabaseUnavailable, MachineFailure, SchemaOutdated, UsageError
from infer_app.base.locations import is_local_file, is_relative, shown
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read import refusals
from infer_app.predict.images.read.local_files import stat_facts
from infer_app.predict.images.read.read_image import refused_among
from infer_app.run.files.watched_folders import WatchedFolders
from infer_app.run.flow.outage_guard import MAX_FAILED_READS
from infer_app.tables.dry_run_database import RolledBack, find_unwritable
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.sqlite_file import HINT_DAMAGED, check_writable, is_full
from infer_app.tables.known_database import describe_known
from infer_app.tables.listing.image_registry import count_images
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.source_checks import find_missing_index, find_row_security
from infer_app.tables.project_database import find_database_to_make, open_results_database, open_source, read_limits
from infer_app.tables.results.schema import cameras, label_groups, metadata, thresholds

LITTLE_DISK_BYTES = 1 << 30
LOOKED_AT_DAYS = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; for a failure with the fix and the exit code a run would end with."""

    check: str
    found: str
    fix: str = ""
    exit_code: int = EXIT_OK


def check_database(loaded: LoadedSettings) -> Iterator[Finding]:
    if (to_make := find_database_to_make(loaded)) is not None:
        if not to_make.parent.is_dir():
            raise DatabaseUnavailable(f"{to_make.parent}, the folder of the database, does not exist", "make it")
        yield Finding("database", f"{to_make} is made by the first `infer run`")
        yield from _check_file(to_make)
        return
    with open_results_database(loaded, read_only=True) as database:
        known, fix, exit_code = describe_known(loaded, database)
        yield Finding("database", f"{database.shown_url}, schema up to date{known}", fix, exit_code)
        with database.read() as connection:
            problem = database.backend.find_damage(connection)
        if problem is not None:
            yield Finding("database", problem, HINT_DAMAGED, DatabaseUnavailable.exit_code)
        with open_source(loaded, database) as source:
            yield from _source(loaded, source)
        if loaded.lists_own_images:
            yield Finding("images", f"{count_images(database):,} registered")
        file = database.file
        if file is None:
            yield from check_rights(database)
    if file is not None:
        yield from _check_file(file)


def _check_file(file: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(file.parent).free
    fix = "free some space: a full disk ends a run" if free < LITTLE_DISK_BYTES else ""
    exit_code = MachineFailure.exit_code if is_full(None, file) else EXIT_OK
    yield Finding("disk", f"{free / (1 << 30):.1f} GiB free beside the database", fix, exit_code)
    check_writable(file)


def check_watched(loaded: LoadedSettings) -> Iterator[Finding]:
    """Check as a run does that each watched folder shows an image, if some are registered there."""
    if loaded.watched:
        with suppress(DatabaseUnavailable, SchemaOutdated), open_results_database(loaded, read_only=True) as database:
            WatchedFolders(loaded, database).check()
    yield from ()


def check_rights(database: Database) -> Iterator[Finding]:
    """Check that the role may write our tables, of which an upgrade by another role may have added some."""
    ours = metadata.sorted_tables
    with RolledBack(database.url) as rolled_back:
        refused = find_unwritable(rolled_back, ours)
    if refused:
        is_only_read = {*refused} <= {thresholds.name, label_groups.name, cameras.name}  # by runs
        exit_code = EXIT_OK if is_only_read else DatabaseUnavailable.exit_code
        fix = "grant this role SELECT, INSERT, UPDATE and DELETE on them: `infer db upgrade` may have added tables"
        yield Finding("rights", f"{', '.join(refused)} can't be written", fix, exit_code)
    else:
        yield Finding("rights", f"{counted(len(ours), 'table')} can be written")


def _source(loaded: LoadedSettings, source: Source) -> Iterator[Finding]:
    table = source.table
    if table is not None and table.database is not source.database:
        yield Finding("source", f"{table.database.shown_url} is only read")
    zone, today = loaded.run.time_zone, loaded.day("today")
    nearest = source.latest_date(today) or source.nearest_date(today)  # or the first of those in the future
    described = f"latest images on {nearest}" if nearest else "no images yet"
    fix = "" if nearest else _how_to_list(loaded)
    for hidden, policy in find_row_security(table) if table else ():
        found = f"row security hides rows of {hidden} from this role, without an error"
        yield Finding("source", found, f"let the table's owner show them: {policy}")
    timeless = table.count_without_time() if table else 0
    if timeless:
        found = (
            f"{timeless:,} {'image has' if timeless == 1 else 'images have'} no readable time, so no run covers them"
        )
        yield Finding("source", found, f"give each a time in {loaded.source.time_column}")
    settings = loaded.source
    name = settings.table if settings.query is None else "the query of [source]"
    yield Finding("source", f"{name}: {described}; days begin in {zone}", fix)
    if loaded.roots or loaded.remote_access.places or not loaded.lists_own_images:  # otherwise check_roots reports it
        yield from _locations(loaded, source, nearest)
    if table is not None:
        yield from _files(loaded, source, nearest)
        if index := find_missing_index(table):
            yield Finding("index", "a day is found by reading the whole table", index)


def _how_to_list(loaded: LoadedSettings) -> str:
    if loaded.watched:
        return f"put images into {loaded.watched[0]}: `infer run` registers them"
    if not loaded.lists_own_images:
        return "is it the table or query that lists your images? it gives no row with a time"
    return "`infer images add FOLDER`, or name your own table in [source]"


def _locations(loaded: LoadedSettings, source: Source, nearest: date | None) -> Iterator[Finding]:
    """Check the locations of the first images of each day of a run: a run ends if none is allowed."""
    try:
        list(WatchedFolders(loaded, source.database).follow_moved(dry_run=True))
    except UsageError as moved:  # no location is allowed until a run has recorded it
        yield Finding("locations", moved.message, moved.hint)
        return
    zone, limits = loaded.run.time_zone, read_limits(loaded)
    days = {loaded.day("yesterday").before(n).date for n in range(loaded.run.lookback + 1)}
    num_images = num_refused = 0
    num_of = Counter[str]()
    for day in sorted(days if nearest is None else {*days, nearest}):
        refs = some_images(source, Day.of(day, zone), MAX_FAILED_READS)
        refused = refused_among(refs, limits)
        num_images, num_refused = num_images + len(refs), num_refused + len(refused)
        num_of.update(ref.location for ref in refs if ref.location)
        if refused and len(refused) == len(refs):
            error = refusals.nothing_allowed(refused, limits)
            yield Finding("locations", f"{day}: {error}", error.hint, error.exit_code)
        elif refused:
            found = f"no allowed location: {len(refused):,} of {counted(len(refs), 'image')}, for example"
            fix = refusals.how_to_allow(refused[0], limits)
            yield Finding("locations", f"{day}: {found} {refusals.describe_refusal(refused[0], limits)}", fix)
    if num_images and not num_refused:
        yield Finding("locations", f"{num_images:,} checked, all are allowed")
    if shared := [location for location, number in num_of.items() if number > 1]:
        found = f"{len(shared):,} of {len(num_of):,} are those of several rows, such as {shown(shared[0])}"
        yield Finding("locations", found, "each row is a picture of its own; else let [source] query give one of them")


def _files(loaded: LoadedSettings, source: Source, day: date | None) -> Iterator[Finding]:
    """Look for the files of the first images of the latest days."""
    here, gone = list[str](), list[str]()
    fix, zone = "is the storage mounted? if it lies elsewhere here, set [images] map", loaded.run.time_zone
    for _ in range(LOOKED_AT_DAYS):
        if day is None or day.year <= MIN_YEAR:  # as an unknown day is often written, and none is before it
            break
        for ref in some_images(source, Day.of(day, zone), 1):
            if ref.location and is_local_file(ref.location):
                is_here = stat_facts(ref.location, loaded.path_map).size is not None
                read = refusals.recorded_and_read(Broken(ref, Reason.NOT_FOUND, "", "read"), loaded.path_map)
                (here if is_here else gone).append(f"{read} of {day}")
                if is_relative(ref.location) and loaded.base is None:
                    fix = refusals.how_to_resolve(ref.location)
        day = source.latest_date(Day.of(day, zone).before(1))
    if here:
        yield Finding("files", f"here: {', '.join(here)}")
    if gone:
        yield Finding("files", f"not here: {', '.join(gone)}", fix)


def some_images(source: Source, day: Day, count: int) -> list[ImageRef]:
    """Return the first images of a day, whether or not they have a result."""
    return list(islice(source.read_refs(day), count))
