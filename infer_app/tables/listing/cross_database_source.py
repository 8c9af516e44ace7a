"""A source in another database than the results.

No statement can join tables of two databases, so the results are queried for one page of the source's ids at a time.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Dialect,
    Integer,
    String,
    Subquery,
    TypeDecorator,
    column,
    select,
    text,
    type_coerce,
)

from infer_app.base.day import Day
from infer_app.base.domain import NewImage
from infer_app.base.errors import UsageError
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.column_types import MAX_ID, AsText
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.listing.source import Bounds, Source, is_listed_picture, new_image, storable_id
from infer_app.tables.results.conditions import KeyedJoin, new_among, picture_of
from infer_app.tables.results.schema import pictures

PAGE_SIZE = 5000  # ids in one query of the database of results


class CrossDatabaseSource(Source):
    """A source whose images are listed in `database`, which is only read; `results` holds our tables."""

    def __init__(
        self,
        database: Database,
        settings: SourceSettings,
        results: Database,
        page_size: int = PAGE_SIZE,
        camera: str | None = None,
    ) -> None:
        super().__init__(database, settings, page_size, camera, results)

    def select_pages(self, day: Day, *model_ids: str) -> Iterator[list[NewImage]]:
        left_out = self.find_left_out(day)
        for page in self.list_pages(day, self.page_size):
            usable = [row for row in page if not left_out.has(row[3])]
            yield self.results.ask(partial(self._new_among, page=usable, model_ids=model_ids))

    def parts(self, connection: Connection, day: Day) -> Iterator[Subquery]:
        return self._by_page(connection, self.database.ask(partial(self._bounds, day=day)))

    def older_parts(self, connection: Connection, day: Day, num_images: int) -> Iterator[Subquery]:
        return self._by_page(connection, self.database.ask(partial(self._older_bounds, day=day, num_images=num_images)))

    def _new_among(self, connection: Connection, page: Sequence[object], model_ids: Sequence[str]) -> list[NewImage]:
        images = as_relation(page, self)
        statement = new_among(select(images), picture_of(images), model_ids).order_by(images.c[2])
        backend_of(connection).plan_for_pages(connection)
        return [new_image(row) for row in connection.execute(statement)]

    def _by_page(self, connection: Connection, bounds: Bounds) -> Iterator[Subquery]:
        backend_of(connection).plan_for_pages(connection)
        for page in self._every_page(bounds, self.page_size):
            yield as_relation(page, self)

    @property
    def id_limit(self) -> int | None:
        return MAX_ID if self.results.backend.has_text_limits else None


class _PageValue(TypeDecorator[Any]):
    """An index into a page, starting at 1, that is read as the page's value there: the values need not be sent."""

    impl = Integer
    cache_ok = False

    def __init__(self, values: Sequence[object]) -> None:
        super().__init__()
        self._values = values

    def process_result_value(self, value: int | None, dialect: Dialect) -> object:
        return None if value is None else self._values[value - 1]


def as_relation(page: Sequence[Any], source: Source) -> Subquery:
    """Return rows of the source's `list_pages` as `Source.parts` does, in the database of results, ordered by time."""
    backend = source.results.backend
    max_chars = MAX_ID if backend.has_text_limits else None
    # One parameter for any number of rows. One parameter for each id takes five times as long or more.
    ids = (_sendable_id(row[3], max_chars) for row in page)
    sent = [(image_id, image_id and source.key_of(image_id, row[1])) for image_id, row in zip(ids, page, strict=True)]
    named = text(backend.json_pictures).bindparams(pictures=json.dumps(sent, ensure_ascii=False))
    columns = column("place", Integer), column("image_id", String), column("picture_key", BigInteger)
    given = named.columns(*columns).subquery("page")
    as_text, key = AsText(given.c.image_id), given.c.picture_key
    is_it = pictures.c.id == key if source.registered else is_listed_picture(key)
    location, time = (type_coerce(given.c.place, _PageValue([row[index] for row in page])) for index in (1, 2))
    listed = (
        given.c.image_id.label("id"),
        location.label("location"),
        time.label("time"),
        as_text.label("infer_image_id"),
    )
    joined = KeyedJoin(given, pictures, is_it, True)
    picture = pictures.c.id.label("infer_picture")
    return select(*listed, picture).select_from(joined).where(*source.conditions).subquery()


def _sendable_id(image_id: str | None, max_chars: int | None) -> str | None:
    """Return the id, or None for one that can't be the key of a result."""
    if image_id is None or (max_chars is not None and len(image_id) > max_chars):
        return None
    if "\0" in image_id:
        raise UsageError(f"the id {image_id!r} holds a NUL, which no other database takes", "leave it out by a query")
    return storable_id(image_id)
