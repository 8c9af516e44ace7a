"""The schema's version: commands check it before they use our tables, and only `upgrade` changes it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Set
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, insert, inspect, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.results.project_row import DatabaseOwner
from infer_app.tables.results.schema import VERSION, VERSION_TABLE, metadata, project_table
from infer_app.tables.results.views import VIEWS, make_views

if TYPE_CHECKING:
    from alembic.config import Config

HINT_UPGRADE = "run `infer db upgrade`"
MIGRATIONS = Path(__file__).parent / "migrations"
TABLES = (VERSION_TABLE, *metadata.tables)


def upgrade(database: Database, owner: DatabaseOwner | None = None) -> str | None:
    """Upgrade our tables to VERSION, make our views anew, and return the version the tables had, or None.

    New tables belong to `owner`; without one they get a random id. Raises SchemaOutdated when the tables are not of a
    version that this program knows, when some of them are missing, or when the role may not replace the views.
    """
    from alembic import command  # imported here: it takes a third of a second

    config, owner = _config(), owner or DatabaseOwner(secrets.token_hex(16), None, None)
    with database.write() as connection, database.backend.lock_tables(connection):
        schema = backend_of(connection).own_schema(connection)
        if schema is not None and schema not in inspect(connection).get_schema_names():
            connection.execute(CreateSchema(schema))
        config.attributes |= {"connection": connection, "version_table": VERSION_TABLE, "version_table_schema": schema}
        before = find_version(database, connection, _relations(connection))
        if before is None:
            _drop_unfinished(connection)
            metadata.create_all(connection, checkfirst=False)
        else:
            command.upgrade(config, "head")
        try:
            make_views(connection)
        except DBAPIError as error:
            if not database.is_denied(error):
                raise
            raise SchemaOutdated(
                "this role may not replace the infer_ views", "run it as the one that made them"
            ) from None
        if before is None:
            # Last, and together: MariaDB commits each statement above at once, and rows tell that nothing is missing.
            command.stamp(config, VERSION)
            numbers = dict.fromkeys(("last_picture", "last_object"), 0)
            connection.execute(insert(project_table).values(owner._asdict() | numbers))
    return before


def find_version(database: Database, connection: Connection, found: Set[str]) -> str | None:
    """Return the version of the tables, None without any or before a first upgrade has ended.

    `found`: the names of those that are there. Raises SchemaOutdated as `upgrade` does.
    """
    version = _current(connection) if VERSION_TABLE in found else None
    if version is not None:
        _check_version(version)
    elif not _has_rows(connection, found):
        return None
    if version in (None, VERSION):
        _check_tables(database, found if version else found - {VERSION_TABLE})
        if connection.scalar(select(project_table.c.id)) is None:
            raise SchemaOutdated(f"{project_table.name} has no row", "restore it from a backup")
    return version


def check_schema(database: Database) -> None:
    """Raise SchemaOutdated unless our tables and views have exactly the version VERSION and all are there."""
    with database.read() as connection:
        version = find_version(database, connection, found := _relations(connection))
        if version is None and found:
            raise SchemaOutdated(f"{database.shown_url}: the first `infer db upgrade` has not ended", HINT_UPGRADE)
        if version is None:
            raise SchemaOutdated(f"{database.shown_url} has no infer_ tables yet", HINT_UPGRADE)
        if version != VERSION:
            raise SchemaOutdated(f"the infer_ tables have layout {version}, this program needs {VERSION}", HINT_UPGRADE)
        if missing := [view for view in VIEWS if view not in found]:
            raise SchemaOutdated(_missing("view", missing, database), f"{HINT_UPGRADE}, which makes it again")


def read_id(database: Database) -> tuple[bool, str | None]:
    """Return whether the database has any of our tables, and its id: None before a first upgrade has ended."""
    with database.read() as connection:
        found = _relations(connection)
        known = connection.scalar(select(project_table.c.id)) if project_table.name in found else None
    return bool(found - {VERSION_TABLE}), known


def _relations(connection: Connection) -> set[str]:
    """Return the names of our tables and views that are there."""
    inspector, schema = inspect(connection), backend_of(connection).own_schema(connection)
    found = {*inspector.get_table_names(schema), *inspector.get_view_names(schema)}
    return found.intersection((*TABLES, *VIEWS))


def _has_rows(connection: Connection, found: Iterable[str]) -> bool:
    """Return whether a table has a row: none has before a first upgrade has ended."""
    tables = [name for name in TABLES if name in found]
    return any(connection.exec_driver_sql(f"SELECT 1 FROM {name} LIMIT 1").first() for name in tables)


def _drop_unfinished(connection: Connection) -> None:
    """Drop what a first upgrade made that has not ended: tables without a row, maybe of another layout or no index."""
    found = _relations(connection)
    for name in reversed(VIEWS):
        if name in found:
            connection.exec_driver_sql(f"DROP VIEW {name}")
    metadata.drop_all(connection, [one for one in metadata.sorted_tables if one.name in found], checkfirst=False)


def _check_tables(database: Database, found: Iterable[str]) -> None:
    """Raise SchemaOutdated if a table is missing; only a backup has what was in it."""
    if missing := [name for name in TABLES if name not in found]:
        # MariaDB lists no table that the role has no right on.
        is_listed = database.backend.lists_all_tables
        hint = "" if is_listed else "is this role allowed to read it? if it is gone, "
        hint += f"restore {'it' if len(missing) == 1 else 'them'} from a backup: an upgrade makes no lost table again"
        raise SchemaOutdated(_missing("table", missing, database), hint)


def _missing(kind: str, names: list[str], database: Database) -> str:
    what = f"the {kind} {names[0]} is" if len(names) == 1 else f"the {kind}s {', '.join(names)} are"
    return f"{database.shown_url}: {what} missing"


def _current(connection: Connection) -> str | None:
    return connection.scalar(
        select(column("version_num")).select_from(
            table(VERSION_TABLE, schema=backend_of(connection).own_schema(connection))
        )
    )


def _check_version(version: str) -> None:
    """Raise SchemaOutdated for a version that `upgrade` can do nothing about."""
    if version.startswith("0"):  # "0001" to "0009", "0.1.0" to "0.3.0"
        raise SchemaOutdated(
            "the infer_ tables were made by a version of infer_app before 0.1.0, which this one cannot read",
            "name another file or database in [database] url, and predict again",
        )
    if not version.isdecimal() or int(version) > int(VERSION):
        raise SchemaOutdated(
            f"the infer_ tables have a layout that this program does not know ({version})", "upgrade infer_app"
        )


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # Alembic reads the folder by configparser, for which % is special.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
