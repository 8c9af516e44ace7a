"""Migration that creates the first tables. It repeats the columns, because it must not follow later schemas."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from infer_app.database.engine.column_types import FAMILY, Exact, LongBytes, Microseconds

revision = "0001"
down_revision = None


# MariaDB's defaults are those of the database: often Latin-1, or a storage engine without transactions.
OPTIONS = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
UTF8: dict[str, Any] = {f"{name}_{option}": value for name in FAMILY for option, value in OPTIONS.items()}

# A key holds 768 characters and a location may be longer: its checksum makes it unique, its prefix is indexed.
UNIQUE_BY_HASH = """
    ALTER TABLE infer_images
    ADD COLUMN location_sha256 BINARY(32) GENERATED ALWAYS AS (UNHEX(SHA2(location, 256))) STORED,
    ADD UNIQUE KEY uq_infer_images_location (location_sha256),
    ADD KEY ix_infer_images_location (location(255))
"""


def upgrade() -> None:
    in_family = op.get_bind().dialect.name in FAMILY
    op.create_table(
        "infer_images",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("location", Exact(), nullable=False),
        sa.Column("added_at", Microseconds, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("sha256", sa.String(64)),
        *([] if in_family else [sa.UniqueConstraint("location", name="uq_infer_images_location")]),
        **UTF8,
    )
    if in_family:
        op.execute(UNIQUE_BY_HASH)
    op.create_index("ix_infer_images_added_at_id", "infer_images", ["added_at", "id"])
    op.create_table(
        "infer_models",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("created_at", Microseconds, nullable=False),
        **UTF8,
    )
    op.create_table(
        "infer_predictions",
        sa.Column("image_id", Exact(512), primary_key=True),
        sa.Column("model_id", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("variant", sa.String(64), nullable=False),
        sa.Column("label", sa.Text),
        sa.Column("score", sa.Double),
        sa.Column("output", sa.JSON, nullable=False),
        sa.Column("vector", LongBytes),
        sa.Column("vector_dtype", sa.String(16)),
        sa.Column("vector_dim", sa.Integer),
        sa.Column("sha256", sa.String(64)),
        sa.Column("created_at", Microseconds, nullable=False),
        **UTF8,
    )
    op.create_table(
        "infer_rejections",
        sa.Column("image_id", Exact(512), primary_key=True),
        sa.Column("model_id", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("modified", sa.Double),
        sa.Column("sha256", sa.String(64)),
        sa.Column("decoder", sa.Text, nullable=False),
        sa.Column("created_at", Microseconds, nullable=False),
        **UTF8,
    )
    op.create_table(
        "infer_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("time_zone", sa.String(64), nullable=False),
        sa.Column("interval_start", Microseconds, nullable=False),
        sa.Column("interval_end", Microseconds, nullable=False),
        sa.Column("model", sa.String(128), nullable=False),
        sa.Column("model_id", sa.String(64), nullable=False),
        sa.Column("variant", sa.String(64), nullable=False),
        sa.Column("executor", sa.String(16), nullable=False),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("started_at", Microseconds, nullable=False),
        sa.Column("heartbeat_at", Microseconds, nullable=False),
        sa.Column("ended_at", Microseconds),
        sa.Column("selected", sa.Integer, nullable=False),
        sa.Column("predicted", sa.Integer, nullable=False),
        sa.Column("rejected", sa.Integer, nullable=False),
        sa.Column("reasons", sa.JSON),
        sa.Column("stages", sa.JSON),
        sa.Column("seconds", sa.Double),
        sa.Column("images_per_second", sa.Double),
        sa.Column("limit_images_per_second", sa.Double),
        sa.Column("exit_code", sa.Integer),
        sa.Column("error", sa.Text),
        **UTF8,
    )
    op.create_index("ix_infer_runs_day_model_id", "infer_runs", ["day", "model_id"])
    op.execute(
        """
        CREATE VIEW infer_current_predictions AS
        SELECT m.name AS model, p.*
        FROM infer_predictions p
        JOIN infer_models m ON m.id = p.model_id
        WHERE NOT EXISTS (
            SELECT 1
            FROM infer_predictions newer
            JOIN infer_models n ON n.id = newer.model_id
            WHERE newer.image_id = p.image_id AND n.name = m.name
              AND (n.created_at > m.created_at OR (n.created_at = m.created_at AND n.id > m.id))
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP VIEW infer_current_predictions")
    for table in ("infer_runs", "infer_rejections", "infer_predictions", "infer_models", "infer_images"):
        op.drop_table(table)
