"""A picture is a row, and an object has a number."""

from alembic import context

from infer_app.tables.results.migrations import to_pictures

revision = "0.2.0"
down_revision = "0.1.0"


def upgrade() -> None:
    given = context.config.attributes
    to_pictures.upgrade(given["connection"], given["new_id"])
