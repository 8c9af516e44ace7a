"""The tables that a command works on, opened from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from infer_app.database.engine.connect import Database
from infer_app.database.listing.cross_database_source import CrossDatabaseSource
from infer_app.database.listing.source import Source
from infer_app.database.listing.source_checks import check_source
from infer_app.database.queries.day_queries import DayQueries
from infer_app.database.results.migrate import check_schema, upgrade
from infer_app.database.results.runs import RunStore
from infer_app.errors import DatabaseUnavailable
from infer_app.settings.load import LoadedSettings


@dataclass(frozen=True, slots=True)
class ProjectDatabase:
    """The database as the rooms see it."""

    database: Database
    source: Source
    day_queries: DayQueries
    run_store: RunStore


@contextmanager
def open_project_database(loaded: LoadedSettings, read_only: bool = False) -> Iterator[ProjectDatabase]:
    """Raises what `open_results_database` and `open_source` raise."""
    with open_results_database(loaded, read_only) as database, open_source(loaded, database) as source:
        yield ProjectDatabase(database, source, DayQueries(database, source), RunStore(database))


@contextmanager
def open_results_database(loaded: LoadedSettings, read_only: bool = False) -> Iterator[Database]:
    """The database with our schema in it. Only a SQLite file of our own is ever created unasked.

    Raises DatabaseUnavailable or SchemaOutdated.
    """
    with Database(loaded.database_url, read_only) as database:
        file = database.sqlite_file
        if file is not None and not file.exists():
            if read_only or not loaded.lists_own_images:
                raise DatabaseUnavailable(
                    f"{database.shown_url} does not exist", "add images or `infer db upgrade` first"
                )
            upgrade(database)
        check_schema(database)
        yield database


@contextmanager
def open_source(loaded: LoadedSettings, results: Database) -> Iterator[Source]:
    """What lists the images, in the database of the results or in another, which is only read.

    Raises DatabaseUnavailable, or UsageError for a source that isn't there.
    """
    settings = loaded.source
    with ExitStack() as stack:
        source = Source(results, settings)
        if loaded.source_url != loaded.database_url:
            listing = stack.enter_context(Database(loaded.source_url, read_only=True))
            if listing.sqlite_file is not None and not listing.sqlite_file.exists():
                raise DatabaseUnavailable(f"{listing.shown_url} does not exist", "[source] database_url names it")
            source = CrossDatabaseSource(listing, settings, results)
        check_source(source)
        yield source
