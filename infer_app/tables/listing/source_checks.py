"""Checks of the table or query that lists the images: without them rows could be lost."""

import difflib
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, CursorResult, inspect, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.results.schema import OUR_IMAGES


def check_source(table: UserTable) -> None:
    """Raise UsageError if the table or a column doesn't exist, naming those that do, or has an unusable type.

    Raises DatabaseUnavailable too, of a file that is missing.
    """
    database, settings = table.database, table.settings
    if database.file is not None and not database.file.exists():
        raise DatabaseUnavailable(f"{database.shown_url} does not exist", "[source] database_url names it")
    if OUR_IMAGES in (settings.query or settings.table):
        raise UsageError(f"{OUR_IMAGES} can't be read from a query or another database", "leave out [source]")
    with database.read() as connection:
        if settings.query is None:
            _check_table(connection, table)
        columns = select(table.id, table.location, table.time)
        try:
            example = connection.execute(columns.select_from(table.relation).limit(1))
        except DBAPIError as error:
            if database.is_denied(error) or not database.backend.is_statement_error(error):
                raise  # the role lacks a privilege, the file is locked, or for example a time limit of the server
            raise UsageError(
                f"[source] can't be read: {str(error.orig).splitlines()[0]}",
                "its id, location and time must be columns of the table or query",
            ) from None
        _check_types(example, table)


def _check_table(connection: Connection, table: UserTable) -> None:
    settings = table.settings
    schema, _, name = settings.table.rpartition(".")
    inspector = inspect(connection)
    if not inspector.has_table(name, schema=schema or None):
        known = inspector.get_table_names(schema or None) + inspector.get_view_names(schema or None)
        is_set = settings.table and "table" in settings.model_fields_set
        what = f"no table or view {settings.table!r}" if is_set else "table is not set"
        theirs = sorted(one for one in known if not one.startswith("infer_"))
        raise UsageError(f"[source] {what}", _among([name], theirs, "there are"))
    try:
        columns = [found["name"] for found in inspector.get_columns(name, schema=schema or None)]
    except DBAPIError as error:
        if table.database.is_denied(error):
            return  # MariaDB describes a view only to roles with SHOW VIEW; reading it says which column is missing
        raise
    holders = ["bytes"] if settings.bytes is not None else []
    holders += ["location"] if settings.bytes is None or settings.has_files_too else []
    holders += ["camera"] if settings.camera_column else []
    holders += ["taken"] if settings.taken else []
    wrong = {key: wanted for key in ("id", *holders, "time") if (wanted := getattr(settings, key)) not in columns}
    if wrong:
        given = settings.model_fields_set
        found = (
            f"{key} = {wanted!r} is not a column of {name}" if wanted and key in given else f"{key} is not set"
            for key, wanted in wrong.items()
        )
        raise UsageError(f"[source] {', '.join(found)}", _among(list(wrong.values()), columns, "its columns are"))


def _check_types(example: CursorResult[Any], table: UserTable) -> None:
    """Reject columns whose values can't be compared exactly. `example` has columns id, location, time."""
    settings, backend = table.settings, table.database.backend
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


def _among(wanted: Sequence[str], known: list[str], what: str) -> str:
    close = [one for name in wanted for one in difflib.get_close_matches(name, known, 1, 0.5)]
    meant = f"did you mean {' and '.join(map(repr, close))}? " if close else ""
    return f"{meant}{what}: {', '.join(known) or 'none'}"


def find_missing_index(table: UserTable) -> str | None:
    """Return the statement that creates the index for reading a day, if a table of the user's has none."""
    settings = table.settings
    schema, _, name = settings.table.rpartition(".")
    with table.database.read() as connection, suppress(SQLAlchemyError):  # of indexes a role may not be told
        inspector = inspect(connection)
        if settings.query is not None or name not in inspector.get_table_names(schema or None):
            return None  # a view has no indexes
        key = inspector.get_pk_constraint(name, schema or None)["constrained_columns"]
        firsts = [index["column_names"][0] for index in inspector.get_indexes(name, schema or None)]
        if settings.time not in (*key[:1], *firsts):
            quote = connection.dialect.identifier_preparer.quote
            where = ".".join(quote(part) for part in (schema, name) if part)
            index = quote(f"ix_{name}_{settings.time}")
            return f"CREATE INDEX {index} ON {where} ({quote(settings.time)}, {quote(settings.id)})"
    return None


def find_row_security(table: UserTable) -> list[tuple[str, str]]:
    """Return the tables that [source] names and of which policies hide rows from the role, and what would show them."""
    settings, hiding = table.settings, table.database.backend.row_security
    with table.database.read() as connection:
        found = [(row[0], row[1]) for row in connection.execute(text(hiding))] if hiding else []
    named = settings.table if settings.query is None else settings.query
    return [(table, policy) for table, policy in found if re.search(rf"(?<!\w){re.escape(table)}(?!\w)", named)]
