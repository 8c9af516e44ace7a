"""Migration that queues images of watched folders until runs have tried them, however old their days are."""

import sqlalchemy as sa
from alembic import op

from infer_app.database.engine.column_types import Microseconds

revision = "0007"
down_revision = "0006"

INDEX = "ix_infer_images_queued_at"


def upgrade() -> None:
    op.add_column("infer_images", sa.Column("queued_at", Microseconds))
    is_queued = sa.text("queued_at IS NOT NULL")
    op.create_index(INDEX, "infer_images", ["queued_at"], sqlite_where=is_queued, postgresql_where=is_queued)


def downgrade() -> None:
    op.drop_index(INDEX, "infer_images")
    op.drop_column("infer_images", "queued_at")
