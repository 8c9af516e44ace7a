"""What `infer db upgrade` adds to predictions of earlier releases: the locations that their source lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, select, update

from infer_app.database.engine.connect import Database, backend_of
from infer_app.database.listing.cross_database_source import PAGE_SIZE, as_relation
from infer_app.database.listing.recorded_sources import SourceIdentity, adopt_runs, number_among_others, record_source
from infer_app.database.listing.source import Source
from infer_app.database.results.conditions import ListedPicture
from infer_app.database.results.schema import predictions, runs
from infer_app.day import Day


def has_unknown_runs(database: Database) -> bool:
    """Return whether a run of an earlier release has predicted anything, from a source that is not known."""
    unknown = select(runs.c.id).where(runs.c.source_id.is_(None), runs.c.predicted > 0).limit(1)
    with database.read() as connection:
        return connection.scalar(unknown) is not None


def fill_locations(results: Database, source: Source) -> int:
    """Store the locations of predictions whose images are still listed on the day of their run; return their number.

    So an id that several days use is no mistake. Nothing is done once another source is known. It can be repeated.
    """
    identity = SourceIdentity.of(source, results)
    if number_among_others(results, identity) is not None:
        return 0
    interval = (runs.c.day, runs.c.time_zone, runs.c.interval_start, runs.c.interval_end)
    unknown = select(*interval).distinct().where(runs.c.source_id.is_(None), runs.c.predicted > 0)
    with results.read() as connection:
        intervals = connection.execute(unknown).all()
    filled = 0
    for date, zone, start, end in intervals:
        its_runs = select(runs.c.id).where(runs.c.interval_start == start, runs.c.interval_end == end)
        day = Day(date, zone, start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
        for page in source.list_pages(day, PAGE_SIZE):
            filled += results.transact(partial(_fill, source=source, page=page, its_runs=its_runs))
    adopt_runs(results, record_source(results, identity))
    return filled


def _fill(connection: Connection, source: Source, page: Sequence[Row[Any]], its_runs: Any) -> int:
    backend_of(connection).plan_for_pages(connection)
    images = as_relation(page, backend_of(connection), ListedPicture(source.id_text, source.location))
    its = predictions.c.image_id == images.c.infer_image_id, predictions.c.run_id.in_(its_runs)
    located = update(predictions).values(location=images.c.infer_location)
    return connection.execute(located.where(*its, predictions.c.location.is_(None))).rowcount
