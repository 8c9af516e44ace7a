"""A picture is a row, and an object has a number."""

revision = "0.2.0"
down_revision = "0.1.0"


def upgrade() -> None:
    raise NotImplementedError
