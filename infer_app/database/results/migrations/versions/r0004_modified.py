"""Migration that adds the modification time of a registered file, so that a replaced file is noticed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("infer_images", sa.Column("modified", sa.Double))


def downgrade() -> None:
    op.drop_column("infer_images", "modified")
