"""Alembic's entry point, which runs on the connection that `migrate.upgrade` passes."""

from alembic import context

context.configure(**context.config.attributes)
with context.begin_transaction():
    context.run_migrations()
