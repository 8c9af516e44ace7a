"""Migration that adds detected objects, thresholds per label, and the size of the upright picture of a prediction."""

import sqlalchemy as sa
from alembic import op

from infer_app.database.engine.column_types import Exact
from infer_app.database.engine.mysql import exact_collation
from infer_app.database.results.migrations.versions.r0001_first_tables import UTF8
from infer_app.database.results.migrations.versions.r0005_version_in_use import replace_view

revision = "0006"
down_revision = "0005"

ADDED = ("width", "height", "num_objects")
OBJECT = "image_id, model_id, object, label, class_index, score, x, y, width, height"
VIEWS = ("infer_shown_labels", "infer_shown_objects", "infer_current_objects")
# The rows of the version in use or, where that has no prediction of the image, of the one that was in use before.
CURRENT = """
    FROM {table} p
    JOIN infer_models m ON m.id = p.model_id
    {join}
    WHERE COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND NOT EXISTS (
        SELECT 1
        FROM infer_predictions preferred
        JOIN infer_models n ON n.id = preferred.model_id
        WHERE preferred.image_id = p.image_id AND n.name = m.name
          AND (COALESCE(n.in_use_since, n.used_until) > COALESCE(m.in_use_since, m.used_until)
            OR (COALESCE(n.in_use_since, n.used_until) = COALESCE(m.in_use_since, m.used_until) AND n.id > m.id))
    )
"""
# A label's own threshold, else that of its model, else none.
THRESHOLD = """COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = {model} AND t.label = {label}),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = {model} AND t.label = ''),
    0
)"""


def upgrade() -> None:
    for name in ADDED:
        op.add_column("infer_predictions", sa.Column(name, sa.Integer))
    op.create_table(
        "infer_objects",
        sa.Column("image_id", Exact(512), primary_key=True),
        sa.Column("model_id", sa.String(64), primary_key=True),
        sa.Column("object", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("label", Exact(), nullable=False),
        sa.Column("class_index", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("score", "x", "y", "width", "height")),
        **UTF8,
    )
    op.create_table(
        "infer_thresholds",
        sa.Column("model", sa.String(128), primary_key=True),
        sa.Column("label", Exact(512), primary_key=True),
        sa.Column("threshold", sa.Double, nullable=False),
        **UTF8,
    )
    _replace_predictions(ADDED)
    for create in CREATE_VIEWS.values():
        create()


def downgrade() -> None:
    """Drop the objects, the thresholds and the sizes, which are lost."""
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
    _replace_predictions(())
    for table in ("infer_thresholds", "infer_objects"):
        op.drop_table(table)
    for name in reversed(ADDED):
        op.drop_column("infer_predictions", name)


def _current_objects() -> None:
    _create("infer_current_objects", f"SELECT m.name AS model, {_of_p(OBJECT)}", table="infer_objects")


def _shown_objects() -> None:
    threshold = THRESHOLD.format(model="o.model", label="o.label")
    op.execute(f"CREATE VIEW infer_shown_objects AS SELECT * FROM infer_current_objects o WHERE o.score >= {threshold}")


def _shown_labels() -> None:
    join, label, score = _labels()
    _create(
        "infer_shown_labels",
        f"SELECT m.name AS model, p.image_id, p.model_id, {label} AS label, {score} AS score",
        join=join,
        condition=f"AND {score} >= {THRESHOLD.format(model='m.name', label=label)}",
    )


def _labels() -> tuple[str, str, str]:
    """Return how the labels of a multi-label classification are joined, and the SQL of a label and of its score."""
    dialect = op.get_bind().dialect
    if dialect.name == "sqlite":
        join = "JOIN json_each(p.output, '$.labels') l"
        return join, "json_extract(l.value, '$.label')", "json_extract(l.value, '$.score')"
    if dialect.name == "postgresql":
        join = "CROSS JOIN LATERAL json_array_elements(p.output -> 'labels') AS l (value)"
        return join, "(l.value ->> 'label')", "CAST(l.value ->> 'score' AS double precision)"
    # The column is exact, not only its comparison: MariaDB caches the subquery of the threshold by the column's value.
    exact = f"VARCHAR(512) CHARACTER SET utf8mb4 COLLATE {exact_collation(dialect)}"
    columns = f"label {exact} PATH '$.label', score DOUBLE PATH '$.score'"
    return f"JOIN JSON_TABLE(p.output, '$.labels[*]' COLUMNS ({columns})) AS l", "l.label", "l.score"


def _create(view: str, select: str, table: str = "infer_predictions", join: str = "", condition: str = "") -> None:
    op.execute(f"CREATE VIEW {view} AS {select} {CURRENT.format(table=table, join=join)} {condition}")


def _of_p(columns: str) -> str:
    return ", ".join(f"p.{name}" for name in columns.split(", "))


def _replace_predictions(added: tuple[str, ...]) -> None:
    replace_view(
        where="COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND",
        time_n="COALESCE(n.in_use_since, n.used_until)",
        time_m="COALESCE(m.in_use_since, m.used_until)",
        added=added,
    )


CREATE_VIEWS = {
    "infer_current_objects": _current_objects,
    "infer_shown_objects": _shown_objects,  # selects from the one before it
    "infer_shown_labels": _shown_labels,
}
