"""Images of our own table whose files are gone, or are other ones than those predicted: always read from the rows.

What a walk over the watched folders finds is stored with the image: when its file was first missed, and the checksum of
a file that has another size or time than before. An image is replaced as long as a prediction is of other bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_, literal_column, or_, select

from infer_app.database.engine.column_types import AsText
from infer_app.database.engine.connect import Database
from infer_app.database.listing.source import PAGE_SIZE, Source
from infer_app.database.results.conditions import count_each
from infer_app.database.results.schema import images, predictions
from infer_app.day import Day


@dataclass(frozen=True, slots=True)
class ChangedImage:
    """An image whose file is gone, or is another one than that predicted."""

    image_id: str
    location: str
    time: datetime  # UTC
    missing_since: datetime | None  # UTC; None: replaced

    @property
    def state(self) -> str:
        return "replaced" if self.missing_since is None else "missing"


@dataclass(frozen=True, slots=True)
class ChangedCounts:
    """How many images were replaced, and how many are missing."""

    replaced: int = 0
    missing: int = 0


def count_changed(
    database: Database, source: Source, model_ids: Sequence[str], day: Day | None = None
) -> ChangedCounts:
    """Count the images, of a day or of all, that `read_changed` yields."""
    if not _is_known(database, source):
        return ChangedCounts()
    states = (_is_replaced(model_ids), images.c.missing_since.is_not(None))
    with database.read() as connection:
        return ChangedCounts(*count_each(connection, images, [and_(*_listed(day), state) for state in states]))


def read_changed(
    database: Database, source: Source, model_ids: Sequence[str], day: Day | None = None
) -> Iterator[ChangedImage]:
    """Yield the images, of a day or of all, that are missing, or of which a model predicted other bytes, by time."""
    if not _is_known(database, source):
        return
    columns = (images.c.id, images.c.location, images.c.added_at, images.c.missing_since)
    changed = or_(images.c.missing_since.is_not(None), _is_replaced(model_ids))
    wanted = select(*columns).where(*_listed(day), changed).order_by(images.c.added_at, images.c.id)
    with database.read() as connection:
        for row_id, location, time, missing_since in connection.execution_options(yield_per=PAGE_SIZE).execute(wanted):
            since = None if missing_since is None else missing_since.replace(tzinfo=UTC)
            yield ChangedImage(str(row_id), location, time.replace(tzinfo=UTC), since)


def _is_known(database: Database, source: Source) -> bool:
    return source.is_ours and source.database is database


def _is_replaced(model_ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a prediction is of other bytes: for the few images whose file was looked at again."""
    one: ColumnElement[int] = literal_column("1")
    its = predictions.c.image_id == AsText(images.c.id), predictions.c.model_id.in_(model_ids)
    of_others = select(one).where(*its, predictions.c.sha256 != images.c.sha256).limit(one).scalar_subquery()
    return and_(images.c.missing_since.is_(None), images.c.sha256.is_not(None), of_others.is_not(None))


def _listed(day: Day | None) -> list[ColumnElement[bool]]:
    if day is None:
        return []
    return [images.c.added_at >= day.start.replace(tzinfo=None), images.c.added_at < day.end.replace(tzinfo=None)]
