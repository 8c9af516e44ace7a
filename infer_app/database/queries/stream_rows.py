"""Results of a day's images, read row by row: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Select, Subquery

from infer_app.database.engine.connect import Database
from infer_app.database.listing.cross_database_source import as_relation
from infer_app.database.listing.source import PAGE_SIZE, Source
from infer_app.day import Day

IMAGES_AT_ONCE = 250  # whose rows are in memory, perhaps 300 objects of each


def stream_rows(
    database: Database, source: Source, days: Day, rows_of: Callable[[Subquery], Select[Any]]
) -> Iterator[Any]:
    """Yield the rows that `rows_of` selects for relations of images as `Source.parts` yields them, in their order.

    A caller may take its time, as when it writes to a full pipe; a transaction is open meanwhile. Where that would
    block a run's commits, the rows of a few images at a time are read in a transaction of their own, which ends before
    they are yielded: a prediction is seen whole or not at all, but the day is no consistent snapshot.
    """
    if database.readers_block_commits:
        for page in source.list_pages(days, PAGE_SIZE):
            for first in range(0, len(page), IMAGES_AT_ONCE):
                images = as_relation(page[first : first + IMAGES_AT_ONCE], database.dialect, source.picture)
                with database.read() as connection:
                    rows = connection.execute(rows_of(images)).all()
                yield from rows
        return
    with database.read() as connection:
        streaming = connection.execution_options(yield_per=PAGE_SIZE)
        for images in source.parts(connection, days):
            yield from streaming.execute(rows_of(images))
