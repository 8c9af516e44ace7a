"""Migration that stores of each result which picture it is of, and of each run its source and the files of its variant.

The time of a version of a model becomes that of its first run. The database is given an id, whose row
`migrate.upgrade` adds.

Rows of before keep NULL in the new columns, which means that nothing is known.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import sqlalchemy as sa
from alembic import op

from infer_app.database.engine.column_types import Exact, Microseconds
from infer_app.database.results.migrations.versions.r0001_first_tables import UTF8
from infer_app.database.results.migrations.versions.r0005_version_in_use import replace_view
from infer_app.database.results.migrations.versions.r0006_objects import ADDED as ADDED_BEFORE
from infer_app.database.results.migrations.versions.r0006_objects import CREATE_VIEWS as CREATE_VIEWS_BEFORE

revision = "0008"
down_revision = "0007"

FACTS: dict[str, Any] = {"location": Exact(), "size": sa.BigInteger(), "modified": sa.Double()}


def upgrade() -> None:
    for name, kind in FACTS.items():
        op.add_column("infer_predictions", sa.Column(name, kind))
    op.add_column("infer_runs", sa.Column("source_id", sa.Integer))
    op.add_column("infer_runs", sa.Column("variant_sha256", sa.String(64)))
    op.add_column("infer_images", sa.Column("missing_since", Microseconds))
    op.create_table(
        "infer_sources",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("database", sa.Text),
        sa.Column("relation", sa.Text, nullable=False),
        sa.Column("id_column", sa.Text, nullable=False),
        sa.Column("location_column", sa.Text),
        sa.Column("base", sa.Text),
        sa.Column("first_used_at", Microseconds, nullable=False),
        sa.Column("forgotten_before", Microseconds),
        **UTF8,
    )
    op.create_table("infer_database_id", sa.Column("id", sa.String(64), primary_key=True), **UTF8)
    if op.get_bind().dialect.name == "sqlite":
        _never_reuse_ids()
    replace_predictions((*ADDED_BEFORE, *FACTS))
    _set_times_of_models("min", "<")


def downgrade() -> None:
    """Drop the facts of pictures, the sources and the database's id, which are lost.

    SQLite goes on using each id of an image once.
    """
    _set_times_of_models("max", ">")
    replace_predictions(ADDED_BEFORE)
    for table in ("infer_database_id", "infer_sources"):
        op.drop_table(table)
    op.drop_column("infer_images", "missing_since")
    for name in ("variant_sha256", "source_id"):
        op.drop_column("infer_runs", name)
    for name in reversed(FACTS):
        op.drop_column("infer_predictions", name)


def _never_reuse_ids() -> None:
    """Let SQLite give no id of an image again, as the servers do, nor one that deleted images have results under.

    Which results are of our own table is not known: ids of ten digits and more, as times have, are taken for a user's.
    """
    connection = op.get_bind()
    _recreate_images(connection)
    used = max(
        connection.scalar(sa.text(f"SELECT max(CAST({column} AS INTEGER)) FROM {table}{where}")) or 0
        for table, column, where in (
            ("infer_images", "id", ""),
            ("infer_predictions", "image_id", " WHERE image_id NOT GLOB '*[^0-9]*' AND length(image_id) < 10"),
            ("infer_rejections", "image_id", " WHERE image_id NOT GLOB '*[^0-9]*' AND length(image_id) < 10"),
        )
    )
    connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = 'infer_images'"))
    connection.execute(
        sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES ('infer_images', :used)"), {"used": used}
    )


def _recreate_images(connection: sa.Connection) -> None:
    """Make infer_images anew with AUTOINCREMENT, and as they were its indexes and triggers, of which some are a user's.

    Alembic knows neither triggers nor indexes of expressions.
    """
    stated = "SELECT type, name, sql FROM sqlite_master WHERE lower(tbl_name) = 'infer_images' AND sql IS NOT NULL"
    rest = connection.exec_driver_sql(f"{stated} AND type IN ('index', 'trigger')").all()
    for kind, name, _ in rest:
        connection.exec_driver_sql('DROP {} "{}"'.format(kind, name.replace('"', '""')))
    # As the default a table is not renamed while a view selects from one that is gone, here the former infer_images.
    connection.exec_driver_sql("PRAGMA legacy_alter_table=ON")
    try:
        with op.batch_alter_table("infer_images", recreate="always", table_kwargs={"sqlite_autoincrement": True}):
            pass
    finally:
        connection.exec_driver_sql("PRAGMA legacy_alter_table=OFF")
    for _, _, statement in rest:
        connection.exec_driver_sql(statement)


def _set_times_of_models(chosen: str, than: str) -> None:
    """Let the time of a version be that of its first run, by which exports number classes; before, of its last one."""
    of_model = "FROM infer_runs r WHERE r.model_id = infer_models.id AND r.model = infer_models.name"
    op.execute(
        f"UPDATE infer_models SET created_at = (SELECT {chosen}(r.started_at) {of_model})"
        f" WHERE EXISTS (SELECT 1 {of_model} AND r.started_at {than} infer_models.created_at)"
    )


def replace_predictions(added: tuple[str, ...]) -> None:
    replace_view(
        where="COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND",
        time_n="COALESCE(n.in_use_since, n.used_until)",
        time_m="COALESCE(m.in_use_since, m.used_until)",
        added=added,
    )


# How each view is made in this version, in an order in which none selects from a later one.
CREATE_VIEWS: dict[str, Callable[[], None]] = {
    "infer_current_predictions": partial(replace_predictions, (*ADDED_BEFORE, *FACTS)),
    **CREATE_VIEWS_BEFORE,
}
