"""Alembic's entry point, which runs on the connection that `migrate.upgrade` passes."""

from alembic import context

from infer_app.tables.results.migrations.to_pictures import drop_former
from infer_app.tables.results.schema import VERSION, VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    version_table_schema=context.config.attributes.get("schema"),
)
with context.begin_transaction():
    context.run_migrations()
if context.get_context().get_current_revision() == VERSION:
    drop_former(context.config.attributes["connection"])
