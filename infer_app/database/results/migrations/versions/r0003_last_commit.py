"""Migration that adds the name of a run's last commit, so that a repeated commit is not counted twice."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("infer_runs", sa.Column("last_commit", sa.String(16)))


def downgrade() -> None:
    op.drop_column("infer_runs", "last_commit")
