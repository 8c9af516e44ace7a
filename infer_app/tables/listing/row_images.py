"""Reading of images whose bytes are stored in a column of the source."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, case, column, func, or_, select

from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.column_types import AsText
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.user_table import relation_of, text_of_time

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)

Candidates = Callable[[str], list[Any]]  # values of the id column that an id's text may stand for


class RowReader:
    """Reads images by `ID@TIME`, since an id may come again. It is pickled to workers, and connects at the first read.

    The time is that which `UserTable` gives in its locations.
    """

    def __init__(self, url: str, settings: SourceSettings) -> None:
        self._url = url
        self._settings = settings
        self._open: tuple[Database, Candidates] | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_open": None}

    def read(self, row: str, max_bytes: int) -> tuple[int, bytes | str | None] | None:
        """Return the size and bytes of an image, or None if there is no such row; bytes are None above `max_bytes`.

        Raises OSError where the database can't be read.
        """
        image_id, _, time = row.rpartition("@")
        identity: ColumnElement[Any] = column(self._settings.id)
        data: ColumnElement[Any] = column(str(self._settings.bytes))
        size = func.length(data)
        capped = select(column(self._settings.time), func.coalesce(size, 0), case((size <= max_bytes, data)))
        capped = capped.select_from(relation_of(self._settings))
        try:
            database, candidates = self._open = self._open or self._opened()
            # A value of the column's own type can use an index. The text then decides: '017' is not 17.
            is_id = and_(identity.in_(candidates(image_id)), AsText(identity) == image_id)
            is_it = is_id if image_id else or_(is_id, identity.is_(None))
            with database.read() as connection:
                rows = connection.execute(capped.where(is_it)).all()
        except (DatabaseUnavailable, UsageError) as error:
            raise OSError(str(error)) from None
        return next(((size, data) for at, size, data in rows if text_of_time(at) == time), None)

    def _opened(self) -> tuple[Database, Candidates]:
        database = Database(self._url, read_only=True)
        if not database.backend.has_typed_columns:
            return database, _of_any_type
        identity: ColumnElement[Any] = column(self._settings.id)
        any_id = select(identity).select_from(relation_of(self._settings)).limit(1)
        with database.read() as connection:
            example = connection.scalar(any_id)
        if isinstance(example, int):
            return database, partial(_integer, bits=database.backend.integer_bits)
        return database, _uuid if isinstance(example, UUID) else lambda image_id: [image_id]


def _of_any_type(image_id: str) -> list[object]:
    """Return the text and, if it spells an integer, that integer: a column of SQLite may hold both."""
    return [image_id, *_integer(image_id)]


def _integer(image_id: str, bits: int = 63) -> list[int]:
    """Return the integer, or nothing if an integer column can't hold it: databases refuse such a parameter."""
    return [int(image_id)] if _INTEGER.fullmatch(image_id) and -(1 << 63) <= int(image_id) < 1 << bits else []


def _uuid(image_id: str) -> list[UUID]:
    try:
        return [UUID(image_id)]
    except ValueError:
        return []
