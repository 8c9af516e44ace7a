"""The first revision: `migrate.upgrade` makes its tables, and each later one adds a file here that changes them."""

revision = "0.1.0"
down_revision = None
