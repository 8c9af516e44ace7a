"""The schema's version: commands check it before they use our tables, and only `upgrade` changes it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, insert, inspect, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.results.schema import (
    LAYOUTS,
    OUR_IMAGES,
    VERSION,
    VERSION_TABLE,
    cameras,
    events,
    metadata,
    pictures,
    project_table,
)
from infer_app.tables.results.views import VIEWS, make_views

if TYPE_CHECKING:
    from alembic.config import Config

HINT_UPGRADE = "run `infer db upgrade`"
TABLES = (VERSION_TABLE, *metadata.tables)
_ADDED = (events.name, cameras.name)  # by layout 3
FORMER_TABLES = {
    1: (OUR_IMAGES, *(name for name in TABLES if name not in (pictures.name, *_ADDED))),
    2: tuple(name for name in TABLES if name not in _ADDED),
}
# In place of "infer_" in the names of tables that an upgrade sets aside: only one that was killed leaves some.
ASIDE = "infer_former_"


def upgrade(database: Database, new_id: str | None = None) -> str | None:
    """Upgrade our tables to VERSION, make our views anew, and return the version the tables had, or None.

    A database without an id gets `new_id`, or a random one. Raises SchemaOutdated when the tables are not of a version
    that this program knows, when some of them are missing, or when the role may not replace the views; DayHeld while a
    run is active, if tables have to be replaced.
    """
    from alembic import command  # imported here: it takes a third of a second

    config, new_id = _config(), new_id or secrets.token_hex(16)
    with database.write() as connection:
        schema = backend_of(connection).own_schema(connection)
        if schema is not None and schema not in inspect(connection).get_schema_names():
            connection.execute(CreateSchema(schema))
        before = find_version(database, connection)
        config.attributes |= {"connection": connection, "schema": schema, "new_id": new_id}
        if before is None:
            metadata.create_all(connection, checkfirst=False)
            command.stamp(config, VERSION)
        elif LAYOUTS[before] == 1:
            command.stamp(config, "0.1.0", purge=True)
        command.upgrade(config, "head")
        try:
            make_views(connection)
        except DBAPIError as error:
            if not database.is_denied(error):
                raise
            raise SchemaOutdated(
                "this role may not replace the infer_ views", "run it as the one that made them"
            ) from None
        if connection.scalar(select(project_table.c.id)) is None:
            connection.execute(insert(project_table).values(id=new_id, last_picture=0, last_object=0, last_event=0))
    return before


def find_version(database: Database, connection: Connection) -> str | None:
    """Return the version of the tables, None without any. Raises SchemaOutdated as `upgrade` does."""
    found = _relations(connection)
    version = _current(connection) if VERSION_TABLE in found else None
    if version is not None:
        _check_version(version)
    if version == VERSION or (found and VERSION_TABLE not in found):
        _check_tables(database, found)
    elif version is not None and not is_interrupted(connection):
        _check_tables(database, found, FORMER_TABLES[LAYOUTS[version]])
    return version


def is_interrupted(connection: Connection) -> bool:
    """Return whether an upgrade was killed where each of its steps counts at once."""
    names = inspect(connection).get_table_names(backend_of(connection).own_schema(connection))
    return any(name.startswith(ASIDE) for name in names)


def check_schema(database: Database) -> None:
    """Raise SchemaOutdated unless our tables and views have exactly the version VERSION and all are there."""
    with database.read() as connection:
        found = _relations(connection)
        if found and VERSION_TABLE not in found:
            _check_tables(database, found)
        current = _current(connection) if found else None
        if current is None:
            raise SchemaOutdated(f"{database.shown_url} has no infer_ tables yet", HINT_UPGRADE)
        _check_version(current)
        if current != VERSION:
            raise SchemaOutdated(
                f"the infer_ tables have layout {LAYOUTS[current]}, this program needs {LAYOUTS[VERSION]}", HINT_UPGRADE
            )
        _check_tables(database, found)
        if missing := [view for view in VIEWS if view not in found]:
            raise SchemaOutdated(_missing("view", missing, database), f"{HINT_UPGRADE}, which makes it again")
        if connection.scalar(select(project_table.c.id)) is None:
            raise SchemaOutdated(f"{project_table.name} has no row", HINT_UPGRADE)


def read_id(database: Database) -> tuple[bool, str | None]:
    """Return whether the database has any of our tables, and its id: None in versions without one."""
    with database.read() as connection:
        found = _relations(connection)
        known = connection.scalar(select(project_table.c.id)) if project_table.name in found else None
    return bool(found - {VERSION_TABLE}), known


def _relations(connection: Connection) -> set[str]:
    """Return the names of our tables and views that are there."""
    inspector, schema = inspect(connection), backend_of(connection).own_schema(connection)
    found = {*inspector.get_table_names(schema), *inspector.get_view_names(schema)}
    return found.intersection((*TABLES, *VIEWS))


def _check_tables(database: Database, found: Iterable[str], needed: Iterable[str] = TABLES) -> None:
    """Raise SchemaOutdated if a table is missing; only a backup has what was in it."""
    if missing := [name for name in needed if name not in found]:
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
    if version not in LAYOUTS:
        raise SchemaOutdated(
            f"the infer_ tables have a layout that this program does not know ({version})", "upgrade infer_app"
        )


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # Alembic reads the folder by configparser, for which % is special.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
