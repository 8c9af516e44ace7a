"""Migration that adds what second networks predict for the objects of a detector, and groups of labels."""

from collections.abc import Callable
from functools import partial

import sqlalchemy as sa
from alembic import op

from infer_app.database.engine.column_types import EncodedJSON, Exact, Vectors
from infer_app.database.engine.connect import backend_of
from infer_app.database.engine.mysql import exact_collation
from infer_app.database.results.migrations.versions.r0001_first_tables import UTF8
from infer_app.database.results.migrations.versions.r0006_objects import ADDED, CURRENT, THRESHOLD
from infer_app.database.results.migrations.versions.r0006_objects import CREATE_VIEWS as OBJECT_VIEWS
from infer_app.database.results.migrations.versions.r0008_sources_and_pictures import FACTS, replace_predictions

revision = "0009"
down_revision = "0008"

COLUMNS = (*ADDED, *FACTS, "detector_id")  # of infer_current_predictions, after those of version 0005
BOX = "d.x, d.y, d.width, d.height, d.label AS detected_label, d.score AS detected_score"
OUTPUT = "p.label, p.score, p.output, p.vector, p.vector_dtype, p.vector_dim"
# What is shown of an object: its best label, if it is allowed and reaches its threshold, else what is found among all.
SHOWN = """CASE
    WHEN c.label IS NULL THEN {without}
    WHEN c.score >= {threshold} AND NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = c.label AND g.depth = -1
    ) THEN c.{column}
    ELSE COALESCE(({best}), ({group}))
END"""
# The best of the labels that are allowed, if it reaches its threshold.
BEST = """
    SELECT CASE WHEN {score} >= {threshold} THEN {found} END
    FROM {entries}
    WHERE NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = {label} AND g.depth = -1
    )
    ORDER BY {score} DESC, {label} LIMIT 1
"""
# The deepest group whose allowed labels suffice together; a label without groups stands for itself.
GROUP = """
    SELECT {found}
    FROM {entries}
    {join_groups}
    LEFT JOIN infer_thresholds t ON t.model = c.model AND t.label = {group}
    WHERE COALESCE(g.depth, 0) >= 0
    GROUP BY {group}
    HAVING SUM({score}) >= COALESCE(
        MAX(t.threshold), (SELECT u.threshold FROM infer_thresholds u WHERE u.model = c.model AND u.label = ''), 0
    )
    ORDER BY MAX(COALESCE(g.depth, 0)) DESC, SUM({score}) DESC, {group} LIMIT 1
"""


def upgrade() -> None:
    for table in ("infer_predictions", "infer_rejections"):
        op.add_column(table, sa.Column("detector_id", sa.String(64)))
    op.create_table(
        "infer_object_predictions",
        sa.Column("image_id", Exact(512), primary_key=True),
        sa.Column("model_id", sa.String(64), primary_key=True),
        sa.Column("object", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("label", Exact()),
        sa.Column("score", sa.Double),
        sa.Column("output", EncodedJSON, nullable=False),
        sa.Column("vector", Vectors),
        sa.Column("vector_dtype", sa.String(16)),
        sa.Column("vector_dim", sa.Integer),
        **UTF8,
    )
    _follow_pgvector()
    op.create_table(
        "infer_label_groups",
        sa.Column("model", sa.String(128), primary_key=True),
        sa.Column("label", Exact(512), primary_key=True),
        sa.Column("depth", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("ancestor", Exact(512), nullable=False),
        **UTF8,
    )
    replace_predictions(COLUMNS)
    for create in CROP_VIEWS.values():
        create()


def downgrade() -> None:
    """Drop the groups and all results of second networks, which are lost."""
    for view in reversed(CROP_VIEWS):
        op.execute(f"DROP VIEW {view}")
    replace_predictions((*ADDED, *FACTS))
    for table in ("infer_label_groups", "infer_object_predictions"):
        op.drop_table(table)
    for table in ("infer_predictions", "infer_rejections"):
        op.execute(f"DELETE FROM {table} WHERE detector_id IS NOT NULL")
        op.drop_column(table, "detector_id")


def _follow_pgvector() -> None:
    """Give the vectors of objects the type of those of images, without its number of dimensions."""
    connection = op.get_bind()
    if found := backend_of(connection).vector_type(connection):
        name = found.partition("(")[0]
        op.execute(f"ALTER TABLE infer_object_predictions ALTER COLUMN vector TYPE {name} USING NULL::{name}")


def _current_crops() -> None:
    of = {
        "sqlite": "json_extract(m.manifest, '$.crop.of')",
        "postgresql": "(m.manifest -> 'crop' ->> 'of')",
    }.get(op.get_bind().dialect.name, "JSON_VALUE(m.manifest, '$.crop.of')")
    columns = f"p.image_id, p.model_id, p.object, {of} AS detector, s.detector_id, {BOX}, {OUTPUT}, s.location"
    its = "JOIN infer_predictions s ON s.image_id = p.image_id AND s.model_id = p.model_id"
    box = "JOIN infer_objects d ON d.image_id = p.image_id AND d.model_id = s.detector_id AND d.object = p.object"
    current = CURRENT.format(table="infer_object_predictions", join=f"{its} {box}")
    op.execute(f"CREATE VIEW infer_current_crops AS SELECT m.name AS model, {columns} {current}")


def _shown_crops() -> None:
    """Show of each object that is shown its best allowed label, else the deepest group whose labels suffice together.

    MariaDB correlates neither subqueries in FROM nor several levels, so label and score are looked up one by one.
    """
    columns = "c.model, c.image_id, c.model_id, c.object, c.detector, c.x, c.y, c.width, c.height"
    op.execute(
        f"CREATE VIEW infer_shown_crops AS SELECT {columns}, c.detected_label, c.detected_score,"
        f" {_shown('label')} AS label, {_shown('score')} AS score, c.location FROM infer_current_crops c"
        f" WHERE c.detected_score >= {THRESHOLD.format(model='c.detector', label='c.detected_label')}"
    )


def _shown(column: str) -> str:
    """Return the SQL of what is shown of an object: its label or its score, also that of a regression."""
    entries, label, score = _entries()
    if op.get_bind().dialect.name == "postgresql":  # which would read all groups of the model for each object
        wanted = f"SELECT * FROM infer_label_groups WHERE model = c.model AND label = {label} OFFSET 0"
        join_groups = f"LEFT JOIN LATERAL ({wanted}) AS g ON true"
    else:
        join_groups = f"LEFT JOIN infer_label_groups g ON g.model = c.model AND g.label = {label}"
    group = f"COALESCE(g.ancestor, {label})"
    best_found, group_found = (label, group) if column == "label" else (score, f"SUM({score})")
    shared = {"entries": entries, "label": label, "score": score}
    return SHOWN.format(
        column=column,
        without="NULL" if column == "label" else "c.score",
        threshold=THRESHOLD.format(model="c.model", label="c.label"),
        best=BEST.format(found=best_found, threshold=THRESHOLD.format(model="c.model", label=label), **shared),
        group=GROUP.format(found=group_found, join_groups=join_groups, group=group, **shared),
    )


def _entries() -> tuple[str, str, str]:
    """Return the relation of an object's stored labels, and the SQL of a label and of its score."""
    dialect = op.get_bind().dialect
    if dialect.name == "sqlite":
        listed = "COALESCE(json_extract(c.output, '$.top'), json_extract(c.output, '$.labels'), '[]')"
        return f"json_each({listed}) e", "json_extract(e.value, '$.label')", "json_extract(e.value, '$.score')"
    if dialect.name == "postgresql":
        listed = "COALESCE(c.output -> 'top', c.output -> 'labels', '[]')"
        label, score = "(e.value ->> 'label')", "CAST(e.value ->> 'score' AS double precision)"
        return f"json_array_elements({listed}) AS e (value)", label, score
    # The column is exact, not only its comparison: MariaDB caches a subquery by the column's value.
    exact = f"VARCHAR(512) CHARACTER SET utf8mb4 COLLATE {exact_collation(dialect)}"
    columns = f"label {exact} PATH '$.label', score DOUBLE PATH '$.score'"
    listed = "COALESCE(JSON_EXTRACT(c.output, '$.top'), JSON_EXTRACT(c.output, '$.labels'), '[]')"
    return f"JSON_TABLE({listed}, '$[*]' COLUMNS ({columns})) AS e", "e.label", "e.score"


CROP_VIEWS: dict[str, Callable[[], None]] = {
    "infer_current_crops": _current_crops,
    "infer_shown_crops": _shown_crops,  # selects from the one before it
}
# How each view is made in this version, in an order in which none selects from a later one.
CREATE_VIEWS: dict[str, Callable[[], None]] = {
    "infer_current_predictions": partial(replace_predictions, COLUMNS),
    **OBJECT_VIEWS,
    **CROP_VIEWS,
}
