"""Checks of the table or query that lists the images: without them pages could lose or repeat images."""

import difflib
from typing import Any

from sqlalchemy import Connection, CursorResult, inspect, select
from sqlalchemy.exc import DBAPIError

from infer_app.base.errors import UsageError
from infer_app.base.locations import as_location, stored_location
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.column_types import StoredLocation
from infer_app.tables.listing.source import Source


def check_source(source: Source) -> None:
    """Raise UsageError if the table or a column doesn't exist, naming those that do, or has an unusable type."""
    with source.database.read() as connection:
        if source.settings.query is None:
            _check_table(connection, source)
        columns = select(source.id, source.location, source.time)
        try:
            example = connection.execute(columns.select_from(source.relation).limit(1))
            stored = StoredLocation(source.location)
            located = select(source.location, stored).select_from(source.relation).where(source.location.is_not(None))
            location = connection.execute(located.limit(1)).first()
        except DBAPIError as error:
            if source.database.is_denied(error) or not source.database.backend.is_statement_error(error):
                raise  # the role lacks a privilege, the file is locked, or for example a time limit of the server
            raise UsageError(
                f"[source] can't be read: {str(error.orig).splitlines()[0]}",
                "its id, location and time must be columns of the table or query",
            ) from None
        _check_types(example, source)
        has_bytes = location is not None and isinstance(location[0], bytes | memoryview)
        source.has_bytes_for_text = has_bytes and source.database.backend.has_typed_columns
        if location and not source.has_bytes_for_text and location[1] != stored_location(as_location(location[0])):
            raise not_as_text(source.settings)


def not_as_text(settings: SourceSettings) -> UsageError:
    """Return the error for locations that the database casts to another text than is read."""
    return UsageError(
        f"[source] location = {settings.location!r} is of a type that can't be compared with text",
        'give it as text: [source] query = "SELECT CAST(… AS …) AS …"',
    )


def _check_table(connection: Connection, source: Source) -> None:
    settings = source.settings
    schema, _, name = settings.table.rpartition(".")
    inspector = inspect(connection)
    if not inspector.has_table(name, schema=schema or None):
        known = inspector.get_table_names(schema or None) + inspector.get_view_names(schema or None)
        raise UsageError(f"[source] no table or view {settings.table!r}", _among(name, known))
    try:
        columns = [found["name"] for found in inspector.get_columns(name, schema=schema or None)]
    except DBAPIError as error:
        if source.database.is_denied(error):
            return  # MariaDB describes a view only to roles with SHOW VIEW; reading it says which column is missing
        raise
    holders = ["bytes"] if settings.bytes is not None else []
    holders += ["location"] if settings.bytes is None or settings.has_files_too else []
    holders += ["camera"] if settings.camera_column else []
    holders += ["taken"] if settings.taken else []
    for key in ("id", *holders, "time"):
        wanted = getattr(settings, key)
        if wanted not in columns:
            raise UsageError(f"[source] {key} = {wanted!r} is not a column of {name}", _among(wanted, columns))


def _check_types(example: CursorResult[Any], source: Source) -> None:
    """Reject columns whose values can't be compared exactly. `example` has columns id, location, time."""
    settings, backend = source.settings, source.database.backend
    single = backend.single_precision
    described = example.cursor.description if example.cursor else None
    for place, key in ((0, "id"), (2, "time")):
        if described and single and described[place][1] == single:
            raise UsageError(
                f"[source] {key} = {getattr(settings, key)!r} holds numbers of single precision, which are not read as"
                " they are stored",
                "name a column, or write a query, that gives integers, double precision, text or times",
            )
    row = example.first()
    # A binary column may hold text, but the 16 bytes of a UUID are not text.
    if backend.hides_bytes and row and isinstance(row[0], bytes) and not _is_text(row[0]):
        raise UsageError(
            f"[source] id = {settings.id!r} holds bytes that are not text",
            'give them as text: [source] query = "SELECT HEX(…) AS …"',
        )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _among(wanted: str, known: list[str]) -> str:
    close = difflib.get_close_matches(wanted, known, 1, 0.5)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known)) or 'none'}"
