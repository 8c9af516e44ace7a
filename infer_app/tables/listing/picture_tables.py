"""Find the tables and views of a database that have a column of names of pictures."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, MetaData, Table, func, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import BINARY, VARBINARY, Enum, LargeBinary, String, TypeEngine

from infer_app.base.locations import IMAGE_SUFFIXES, as_location
from infer_app.tables.engine.connect import Database, backend_of

SAMPLE_ROWS = 50  # read of each table
MAX_CHARS = 4096  # read of a value, which may be a picture: the longest path
_TEXT = (String, LargeBinary, BINARY, VARBINARY)  # not the types of larger bytes, which hold no names
# By its ending; or a URL with a query, which may be any picture's.
_IMAGE = re.compile(rf"({'|'.join(map(re.escape, IMAGE_SUFFIXES))})([?#].*)?$|^https?://[^?]+\?.", re.IGNORECASE)


class PictureTable(NamedTuple):
    """A table or view that has names of pictures."""

    name: str  # with its schema, if that is not the default one
    columns: list[str]
    names: dict[str, str]  # a picture's name of each column that has some


def find_picture_tables(database: Database) -> list[PictureTable]:
    """Return the tables and views with names of pictures in their first rows. Raises DatabaseUnavailable."""
    with database.read() as connection:
        relations = [*_relations(connection)]
        return [found for schema, name in relations if (found := _look_at(connection, schema, name)).names]


def _relations(connection: Connection) -> Iterator[tuple[str | None, str]]:
    """Yield the schema and name of each table and view that is neither ours nor a part of another table."""
    inspector, backend = inspect(connection), backend_of(connection)
    default = inspector.default_schema_name
    parts = [tuple(row) for row in connection.execute(text(backend.parts))] if backend.parts else []
    for schema in (None, *(name for name in backend.other_schemas(inspector) if name != default)):
        for name in (*inspector.get_table_names(schema), *inspector.get_view_names(schema)):
            if not name.startswith("infer_") and (schema or default, name) not in parts:
                yield schema, name


def _look_at(connection: Connection, schema: str | None, name: str) -> PictureTable:
    found = PictureTable(f"{schema}.{name}" if schema else name, [], {})
    try:
        table = Table(name, MetaData(), schema=schema, autoload_with=connection)
        found.columns.extend(table.columns.keys())
        is_typed = backend_of(connection).has_typed_columns
        texts = [column for column in table.columns if not is_typed or _may_hold_names(column.type)]
        starts = select(*(func.substr(column, 1, MAX_CHARS) for column in texts)).select_from(table).limit(SAMPLE_ROWS)
        rows = connection.execute(starts).all() if texts else []
        for column, values in zip(texts, zip(*rows, strict=True), strict=False):
            if seen := next(filter(_IMAGE.search, map(as_location, values)), ""):
                found.names[column.name] = seen
    except SQLAlchemyError:  # a view of a table that is gone, or what the role may not read
        connection.rollback()
    return found


def _may_hold_names(data_type: TypeEngine[Any]) -> bool:
    data_type = getattr(data_type, "data_type", data_type)  # of a domain: its underlying type
    return isinstance(data_type, _TEXT) and not isinstance(data_type, Enum)
