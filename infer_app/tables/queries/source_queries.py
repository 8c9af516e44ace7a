"""Queries over the images of a source, part by part or row by row: memory does not grow with their number."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Subquery, select

from infer_app.base.day import Day
from infer_app.tables.engine.column_types import Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.cross_database_source import as_relation
from infer_app.tables.listing.source import PAGE_SIZE, Source
from infer_app.tables.results.conditions import ListedPicture, join_results
from infer_app.tables.results.schema import predictions

IMAGES_AT_ONCE = 250  # whose rows are in memory, perhaps 300 objects of each


@contextmanager
def opened_parts(database: Database, source: Source, days: Day) -> Iterator[Iterator[tuple[Connection, Subquery]]]:
    """Open a transaction for the images of an interval of days, in parts as `Source.parts` yields them.

    What is asked within the `with` block fails as the database's own errors do, which can be tried again.
    """
    with database.read() as connection:
        yield ((connection, images) for images in source.parts(connection, days))


def stream_rows(database: Database, source: Source, days: Day, rows_of: Callable[[Subquery], Query]) -> Iterator[Any]:
    """Yield the rows that `rows_of` selects for relations of images as `Source.parts` yields them, in their order.

    A caller may take its time, as when it writes to a full pipe; a transaction is open meanwhile. Where that would
    block a run's commits, the rows of a few images at a time are read in a transaction of their own, which ends before
    they are yielded: a prediction is seen whole or not at all, but the day is no consistent snapshot.
    """
    if database.readers_block_commits:
        for page in source.list_pages(days, PAGE_SIZE):
            for first in range(0, len(page), IMAGES_AT_ONCE):
                images = as_relation(page[first : first + IMAGES_AT_ONCE], database.backend, source.picture)
                with database.read() as connection:
                    rows = connection.execute(rows_of(images)).all()
                yield from rows
        return
    with database.read() as connection:
        streaming = connection.execution_options(yield_per=PAGE_SIZE)
        for images in source.parts(connection, days):
            yield from streaming.execute(rows_of(images))


def stream_keys(
    database: Database, source: Source, model_ids: Sequence[str], day: Day | None
) -> Iterator[tuple[str, str]]:
    """Yield (image id, model id) of the predictions of some models: those of a day, or all."""
    keys = select(predictions.c.image_id, predictions.c.model_id)
    of_models = predictions.c.model_id.in_(model_ids)
    if day is not None:

        def rows_of(images: Subquery) -> Any:
            return keys.select_from(join_results(images, predictions, ListedPicture.of(images))).where(of_models)

        found = stream_rows(database, source, day, rows_of)
        yield from ((image_id, model_id) for image_id, model_id in found)
        return
    with database.read() as connection:
        found = connection.execution_options(yield_per=PAGE_SIZE).execute(keys.where(of_models))
        yield from ((image_id, model_id) for image_id, model_id in found)
