"""Images that lie in a column of the source, read by the worker that needs them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, case, column, func, select

from infer_app.database.connect import Database
from infer_app.database.source import relation_of
from infer_app.errors import DatabaseUnavailable, UsageError
from infer_app.settings.sections import SourceSettings

# Of ids as drivers give them; others are compared as text.
_KINDS = (int, UUID)


class RowReader:
    """Opens its connection when it first reads, in the process that reads: it travels to workers."""

    def __init__(self, url: str, settings: SourceSettings) -> None:
        self._url = url
        self._settings = settings
        self._open: tuple[Database, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": None}

    def read(self, image_id: str, max_bytes: int) -> tuple[int, bytes | str | None] | None:
        """Size and bytes of an image; None for no such row, and no bytes where there are more than `max_bytes`.

        Raises OSError where the database can't be read.
        """
        identity: ColumnElement[Any] = column(self._settings.id)
        data: ColumnElement[Any] = column(str(self._settings.bytes))
        size = func.length(data)
        capped = select(func.coalesce(size, 0), case((size <= max_bytes, data)))
        capped = capped.select_from(relation_of(self._settings))
        try:
            database, kind = self._open = self._open or self._opened()
            with database.read() as connection:
                row = connection.execute(capped.where(identity == kind(image_id))).first()
        except (DatabaseUnavailable, UsageError) as error:
            raise OSError(str(error)) from None
        return None if row is None else (row[0], row[1])

    def _opened(self) -> tuple[Database, Any]:
        """The database, and what makes an id of the column's own type from its text, by which an index finds it."""
        database = Database(self._url, read_only=True)
        identity: ColumnElement[Any] = column(self._settings.id)
        any_id = select(identity).select_from(relation_of(self._settings)).limit(1)
        with database.read() as connection:
            example = connection.scalar(any_id)
        return database, next((kind for kind in _KINDS if isinstance(example, kind)), str)
