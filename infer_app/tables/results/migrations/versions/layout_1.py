"""The first layout: `migrate.upgrade` makes its tables, and each later one adds a file here that changes them."""

revision = "1"
down_revision = None
