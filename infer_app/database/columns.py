"""Columns of the user's whose values, as a driver reads them, are not those that the database compares."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CursorResult, Dialect

from infer_app.database.types import FAMILY
from infer_app.errors import UsageError
from infer_app.settings.sections import SourceSettings

# What drivers call it: the numbers of PostgreSQL's `real` and of MariaDB's FLOAT. SQLite has none.
SINGLE_PRECISION = {"postgresql": 700} | dict.fromkeys(FAMILY, 4)


def check_types(example: CursorResult[Any], settings: SourceSettings, dialect: Dialect) -> None:
    """Of a query for id, location and time. Raises UsageError for a type by which pages would lose or repeat images."""
    single = SINGLE_PRECISION.get(dialect.name)
    described = example.cursor.description if example.cursor else None
    for place, key in ((0, "id"), (2, "time")):
        if described and single and described[place][1] == single:
            raise UsageError(
                f"[source] {key} = {getattr(settings, key)!r} holds numbers of single precision, which are not read as"
                " they are stored",
                "name a column, or write a query, that gives integers, double precision, text or times",
            )
    row = example.first()
    # Text in a binary column is text; the 16 bytes of a UUID are none.
    if dialect.name in FAMILY and row and isinstance(row[0], bytes) and not _is_text(row[0]):
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
