"""Opening of the database and the source that the settings name."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection, select

from infer_app.base.day import Day
from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.cameras.picture_facts import FactRules
from infer_app.tables.engine.connect import Database
from infer_app.tables.known_database import check_known, is_missing, owner_of, remembered
from infer_app.tables.listing.row_images import RowReader
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.source_checks import check_source
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.queries.day_rows import DayRows
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.pending_images import PendingImages
from infer_app.tables.queries.scope import Versions
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.model_versions import all_in_use, read_versions
from infer_app.tables.results.project_row import read_forgotten_before
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import pictures

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class ProjectDatabase(ListedImages):
    """The database of results, the source of images, and what reads and writes them."""

    @cached_property
    def run_store(self) -> RunStore:
        return RunStore(self.database)

    @cached_property
    def versions(self) -> Versions:
        return Versions(self)

    @cached_property
    def pending(self) -> PendingImages:
        return PendingImages(self)

    @cached_property
    def rows(self) -> DayRows:
        return DayRows(self)

    def ask(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that opens its own connections, again while the database is away for a moment."""
        return self.database.with_reconnect(lambda: question(*args, **kwargs))

    def update_list(self, days: Day, recent: int) -> int:
        """Bring the list up to date with the user's table, if there is one; return `ListChanges.num_hidden`."""
        if self.source.table is None:
            return 0
        from infer_app.tables.listing.update_list import update_list  # loads numpy, which other runs do without

        return update_list(self.source, days, recent=recent).num_hidden

    def count_new_of_days(self, days: Sequence[Day], model_ids: Sequence[str]) -> int:
        """Return the number of images of the days that are new for at least one of the models."""
        return sum(self.ask(self.count_new, day, *model_ids) for day in days)


@contextmanager
def open_project_database(
    loaded: LoadedSettings, read_only: bool = False, camera: str | None = None
) -> Iterator[ProjectDatabase]:
    """Open the database and the source; raises what `open_results_database` and `open_source` raise.

    With a camera the source lists only its images. Raises UsageError if none is of this camera.
    """
    with (
        open_results_database(loaded, read_only) as database,
        open_source(loaded, database, camera, read_only=read_only) as source,
    ):
        if camera is not None:
            database.ask(partial(_check_camera, source=source))
        yield ProjectDatabase(database, source)


def _check_camera(connection: Connection, source: Source) -> None:
    if connection.execute(select(pictures.c.id).where(source.is_listed).limit(1)).first() is None:
        raise UsageError(f"no image is of a camera {source.camera!r}", "`infer cameras list` names those with images")


def find_database_to_make(loaded: LoadedSettings) -> Path | None:
    """Return the SQLite file that the first run makes, or None if it is there or no run makes it."""
    with Database(loaded.database_url, read_only=True) as database:
        check_known(loaded, database, read_only=True)
        return database.file if _is_made_by_a_run(loaded, database) else None


@contextmanager
def open_results_database(loaded: LoadedSettings, read_only: bool = False) -> Iterator[Database]:
    """Open the database that holds our tables. Only a SQLite file that lists its own images is created when missing.

    Raises DatabaseUnavailable, SchemaOutdated, or OtherProject for the database of another project, unless it is only
    read.
    """
    with Database(loaded.database_url, read_only) as database:
        check_known(loaded, database, read_only=read_only)
        if not read_only and _is_made_by_a_run(loaded, database):
            upgrade(database, owner_of(loaded))
        elif is_missing(database):
            command = "the first `infer run`" if _is_made_by_a_run(loaded, database) else "`infer db upgrade`"
            raise DatabaseUnavailable(f"{database.shown_url} does not exist yet", f"{command} makes it")
        check_schema(database)
        with nullcontext() if read_only else remembered(loaded, database):
            yield database


def upgrade_results_database(loaded: LoadedSettings, database: Database) -> str | None:
    """Make or upgrade the tables of the project's database; return the version they had, or None.

    Raises DatabaseUnavailable or SchemaOutdated.
    """
    check_known(loaded, database, read_only=False)
    before = upgrade(database, owner_of(loaded))
    with remembered(loaded, database):
        return before


def _is_made_by_a_run(loaded: LoadedSettings, database: Database) -> bool:
    """Return whether a run makes the tables: not of a project that is named, where no file tells that it had some."""
    return loaded.lists_own_images and loaded.database.project is None and _is_new_file(database)


def _is_new_file(database: Database) -> bool:
    """Return whether a SQLite file is missing or empty, as a run leaves it that is killed before it made the tables."""
    if database.file is None or is_missing(database):
        return database.file is not None
    with database.read() as connection:
        return not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()


def read_in_use(loaded: LoadedSettings) -> dict[str, str]:
    """Return the id of the version in use of each name; empty if there is no database file yet.

    Raises DatabaseUnavailable or SchemaOutdated.
    """
    with Database(loaded.database_url, read_only=True) as database:
        check_known(loaded, database, read_only=True)
        if is_missing(database) or (loaded.lists_own_images and _is_new_file(database)):
            return {}
        check_schema(database)
        with database.read() as connection:
            return all_in_use(read_versions(connection))


@contextmanager
def open_source(
    loaded: LoadedSettings, results: Database, camera: str | None = None, *, read_only: bool = False
) -> Iterator[Source]:
    """Open the list of images, and the user's table, in the database of results or in another, which is only read.

    Raises DatabaseUnavailable, or UsageError for a table that doesn't exist. `read_only`: one that can't be read is
    not asked.
    """
    if loaded.lists_own_images and (named := {"id", "location", "time", "bytes"} & loaded.source.model_fields_set):
        raise UsageError(f"[source] {', '.join(sorted(named))}: of which table?", "name it too: [source] table")
    with ExitStack() as stack:
        table, not_asked = None, ""
        if not loaded.lists_own_images:
            listing = results
            if loaded.source_url != loaded.database_url:
                listing = stack.enter_context(Database(loaded.source_url, read_only=True))
            table = UserTable(listing, loaded.source, loaded.run.time_zone)
            try:
                check_source(table)
            except DatabaseUnavailable as error:
                if not read_only:
                    raise
                not_asked = error.message
                log.warning("the images' table was not asked: %s", not_asked)
        source = Source(results, table, camera)
        source.not_asked, source.asks_table = not_asked, read_only and table is not None
        if loaded.source.camera is not None:
            source.camera_of = FactRules.of(loaded).camera
            source.expects_daily = loaded.events.expect is not None
        source.forgotten_before = read_forgotten_before(results)
        yield source


def read_limits(loaded: LoadedSettings) -> ReadLimits:
    """Return the limits of the settings for reading the source's images."""
    rows = RowReader(loaded.source_url, loaded.source) if loaded.source.bytes is not None else None
    return ReadLimits(
        loaded.roots, loaded.images.max_bytes, loaded.remote_access, loaded.path_map, rows, loaded.wants_facts
    )
