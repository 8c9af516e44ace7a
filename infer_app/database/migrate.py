"""The schema's version: checked before every command that needs our tables, changed only when asked."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from infer_app.database.connect import Database
from infer_app.database.schema import VERSION_TABLE
from infer_app.errors import SchemaOutdated

HINT_UPGRADE = "run `infer db upgrade`"


def upgrade(database: Database) -> tuple[str | None, str]:
    """Brings our tables to this program's version; returns the version before and after.

    Raises SchemaOutdated when the tables are newer than this program.
    """
    with database.write() as connection:
        before = _current(connection)
        if before is not None and before not in _known():
            raise _newer(before)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return before, _head()


def check_schema(database: Database) -> None:
    """Raises SchemaOutdated unless our tables are exactly of this program's version."""
    with database.read() as connection:
        current = _current(connection)
    if current == _head():
        return
    if current is None:
        raise SchemaOutdated(f"{database.shown_url} has no infer_ tables yet", HINT_UPGRADE)
    if current not in _known():
        raise _newer(current)
    raise SchemaOutdated(f"the infer_ tables are of version {current}, this program needs {_head()}", HINT_UPGRADE)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _newer(version: str) -> SchemaOutdated:
    return SchemaOutdated(f"the infer_ tables are of version {version}, newer than this program", "upgrade infer_app")


def _head() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _config() -> Config:
    config = Config()
    # Alembic reads the folder through configparser, to which a % is special.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
