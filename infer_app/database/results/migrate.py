"""The schema's version: commands check it before they use our tables, and only `upgrade` changes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table, text
from sqlalchemy.schema import CreateSchema

from infer_app.database.engine.connect import Database
from infer_app.database.results.schema import VERSION, VERSION_TABLE
from infer_app.errors import SchemaOutdated

if TYPE_CHECKING:
    from alembic.config import Config

HINT_UPGRADE = "run `infer db upgrade`"


def upgrade(database: Database) -> str | None:
    """Upgrade our tables to VERSION and return the version they had, or None if there were none.

    Raises SchemaOutdated when the tables are newer than this program.
    """
    from alembic import command  # imported here: it takes a third of a second
    from alembic.script import ScriptDirectory

    config = _config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with database.write() as connection:
        schema = _schema(connection)
        if schema is not None and schema not in inspect(connection).get_schema_names():
            connection.execute(CreateSchema(schema))
        before = _current(connection)
        if before is not None and before not in known:
            raise _newer(before)
        config.attributes |= {"connection": connection, "schema": schema}
        command.upgrade(config, "head")
    return before


def check_schema(database: Database) -> None:
    """Raise SchemaOutdated unless our tables have exactly the version VERSION."""
    with database.read() as connection:
        current = _current(connection)
    if current == VERSION:
        return
    if current is None:
        raise SchemaOutdated(f"{database.shown_url} has no infer_ tables yet", HINT_UPGRADE)
    if current > VERSION:
        raise _newer(current)
    raise SchemaOutdated(f"the infer_ tables are of version {current}, this program needs {VERSION}", HINT_UPGRADE)


def _current(connection: Connection) -> str | None:
    schema = _schema(connection)
    if not inspect(connection).has_table(VERSION_TABLE, schema):
        return None
    return connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE, schema=schema)))


def _schema(connection: Connection) -> str | None:
    """Return PostgreSQL's schema for our tables, even if it doesn't exist: other schemas may have infer_ tables too."""
    if connection.dialect.name != "postgresql":
        return None
    first = str(connection.scalar(text("SHOW search_path"))).split(",")[0].strip(' "')
    return connection.scalar(text("SELECT current_schema()")) if first == "$user" else first


def _newer(version: str) -> SchemaOutdated:
    return SchemaOutdated(f"the infer_ tables are of version {version}, newer than this program", "upgrade infer_app")


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # Alembic reads the folder by configparser, for which % is special.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
