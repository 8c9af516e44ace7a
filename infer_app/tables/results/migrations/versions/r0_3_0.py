"""Pictures have cameras and capture times, and events are made of them: columns and tables are added."""

from alembic import context, op
from sqlalchemy import Column, inspect

from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.schema import metadata

revision = "0.3.0"
down_revision = "0.2.0"


def upgrade() -> None:
    """Add what is not there yet: of an upgrade that was killed MariaDB keeps each step."""
    connection = context.config.attributes["connection"]
    inspector, schema = inspect(connection), backend_of(connection).own_schema(connection)
    there = set(inspector.get_table_names(schema))
    for table in metadata.sorted_tables:
        if table.name not in there:
            table.create(connection)
            continue
        columns = {column["name"] for column in inspector.get_columns(table.name, schema)}
        for column in table.columns:
            if column.name not in columns:
                default = None if column.nullable else "0"
                added = Column(column.name, column.type, nullable=column.nullable, server_default=default)
                op.add_column(table.name, added, schema=schema)
        indexes = {index["name"] for index in inspector.get_indexes(table.name, schema)}
        for index in table.indexes:
            if index.name not in indexes:
                index.create(connection)
