"""Migration that adds a run's measurements of speed. The column is the last one, since SQLite can only append."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("infer_runs", sa.Column("throughput", sa.JSON))


def downgrade() -> None:
    op.drop_column("infer_runs", "throughput")
