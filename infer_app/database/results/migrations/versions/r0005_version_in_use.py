"""Migration that records which version of a model's name is in use, and lets infer_current_predictions follow it.

Until then the version that ran last was the current one, so it becomes the version in use.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from infer_app.database.engine.column_types import Microseconds

revision = "0005"
down_revision = "0004"

VIEW = "infer_current_predictions"
# Named one by one in the order of the view that is replaced: on PostgreSQL that of the table may have changed.
COLUMNS = (
    "image_id, model_id, run_id, variant, label, score, output, vector, vector_dtype, vector_dim, sha256, created_at"
)
NEVER_RAN = "1970-01-03"  # created_at of a version that never ran is before this

models = sa.table(
    "infer_models",
    *(sa.column(name, sa.String) for name in ("id", "name")),
    *(sa.column(name, Microseconds) for name in ("created_at", "in_use_since", "used_until")),
)


def upgrade() -> None:
    for name in ("in_use_since", "used_until"):
        op.add_column("infer_models", sa.Column(name, Microseconds))
    _mark_versions()
    replace_view(
        where="COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND",
        time_n="COALESCE(n.in_use_since, n.used_until)",
        time_m="COALESCE(m.in_use_since, m.used_until)",
    )


def downgrade() -> None:
    """Restore the view by the time of the last run; the marks are lost."""
    replace_view(where="", time_n="n.created_at", time_m="m.created_at")
    for name in ("used_until", "in_use_since"):
        op.drop_column("infer_models", name)


def _mark_versions() -> None:
    """Mark of each name the version that ran last as in use, and those that ran before it as formerly in use."""
    connection = op.get_bind()
    names = set[str]()
    ordered = sa.select(models).order_by(models.c.created_at.desc(), models.c.id.desc())
    for row in connection.execute(ordered).all():
        if str(row.created_at) < NEVER_RAN:
            continue
        column = "used_until" if row.name in names else "in_use_since"
        names.add(row.name)
        this = models.c.id == row.id, models.c.name == row.name
        connection.execute(sa.update(models).where(*this).values({column: row.created_at}))


def replace_view(where: str, time_n: str, time_m: str, added: Sequence[str] = ()) -> None:
    """Replace the view, or make it; owner, options, grants and views that select from it stay."""
    dialect = op.get_bind().dialect.name
    columns = ", ".join([f"p.{name}" for name in (*COLUMNS.split(", "), *added)] + _lost(dialect, added))
    if dialect == "sqlite":
        op.execute(f"DROP VIEW IF EXISTS {VIEW}")
    create = "CREATE VIEW" if dialect == "sqlite" else "CREATE OR REPLACE VIEW"
    op.execute(
        f"""
        {create} {VIEW}{_options(dialect)} AS
        SELECT m.name AS model, {columns}
        FROM infer_predictions p
        JOIN infer_models m ON m.id = p.model_id
        WHERE {where} NOT EXISTS (
            SELECT 1
            FROM infer_predictions preferred
            JOIN infer_models n ON n.id = preferred.model_id
            WHERE preferred.image_id = p.image_id AND n.name = m.name
              AND ({time_n} > {time_m} OR ({time_n} = {time_m} AND n.id > m.id))
        )
        """
    )


def _lost(dialect: str, added: Sequence[str]) -> list[str]:
    """Return the columns that the view has and no longer shows: PostgreSQL can't remove a column of a view."""
    if dialect != "postgresql":
        return []
    found = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = to_regclass('{VIEW}') AND attnum > 0 ORDER BY attnum"
    )
    known = {"model", *COLUMNS.split(", "), *added}
    rows = op.get_bind().execute(sa.text(found))
    return [f"CAST(NULL AS {kind}) AS {name}" for name, kind in rows if name not in known]


def _options(dialect: str) -> str:
    """Return the WITH clause of the view's options, which PostgreSQL would otherwise reset."""
    if dialect != "postgresql":
        return ""
    found = f"SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = to_regclass('{VIEW}')"
    options = op.get_bind().scalar(sa.text(found))
    return f" WITH ({options})" if options else ""
