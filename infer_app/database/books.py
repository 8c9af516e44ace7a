"""What the tables say of a day: counts by rows, lists for people and scripts, and whether the books balance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Subquery, delete, or_, select

from infer_app.database.audit import audit
from infer_app.database.connect import Database
from infer_app.database.matching import count_rows, has_prediction, has_rejection, is_new
from infer_app.database.schema import models, predictions, rejections, runs
from infer_app.database.source import PAGE_SIZE, Source
from infer_app.day import Day
from infer_app.records import TRANSIENT_REASONS, DayCounts, FileFacts, Reason

EXAMINED = 500_000  # images: of ten million, looking at each would take longer than most nights


@dataclass(frozen=True, slots=True)
class StoredRejection:
    image_id: str
    location: str
    reason: str
    file: FileFacts

    def differs(self, now: FileFacts) -> bool:
        """Whether a regular file of these facts is another one than was rejected."""
        if self.reason == Reason.NOT_REGULAR_FILE:
            return True
        known = self.file.size is not None  # of what is not allowed nothing was looked at
        return known and (self.file.size, self.file.modified) != (now.size, now.modified)


class Books:
    """Reads of one database; only `forget_rejections` writes."""

    def __init__(self, database: Database, source: Source) -> None:
        self._database = database
        self._source = source

    def count_day(self, day: Day, model_id: str) -> DayCounts:
        """Four counts, each from rows: pending is counted, not subtracted, so that they can disagree."""
        counts = DayCounts(0, 0, 0, 0)
        with self._database.read() as connection:
            for images in self._source.parts(connection, day):
                predicted, rejected = _results_of(images, model_id)
                counts += DayCounts(
                    eligible=count_rows(connection, images),
                    predicted=count_rows(connection, images, predicted),
                    rejected=count_rows(connection, images, ~predicted, rejected),
                    pending=count_rows(connection, images, ~predicted, ~rejected),
                )
        return counts

    def count_new(self, day: Day, *model_ids: str) -> int:
        """Images that a run of the day would select: new for at least one of the models."""
        with self._database.read() as connection:
            return sum(
                count_rows(connection, images, or_(*(is_new(images.c[3], model_id) for model_id in model_ids)))
                for images in self._source.parts(connection, day)
            )

    def count_older_pending(self, day: Day, model_id: str) -> int:
        """Of the last EXAMINED images of earlier days those with neither a prediction nor a rejection."""
        with self._database.read() as connection:
            return sum(
                count_rows(connection, images, *(~known for known in _results_of(images, model_id)))
                for images in self._source.older_parts(connection, day, EXAMINED)
            )

    def find_problems(self, day: Day, model_id: str) -> list[str]:
        """What is wrong with the day's rows, in words; empty when the books balance."""
        counts = self.count_day(day, model_id)
        problems = [] if counts.balanced else [f"{counts} does not balance"]
        with self._database.read() as connection:
            return problems + list(audit(connection, self._source, day, model_id))

    def models_of(self, name: str | None = None) -> list[tuple[str, str]]:
        """(name, id) of the models that ever ran, the newest first."""
        known = select(models.c.name, models.c.id).order_by(models.c.created_at.desc())
        with self._database.read() as connection:
            return [(row.name, row.id) for row in connection.execute(known) if name in (None, row.name)]

    def read_predictions(self, day: Day, model_id: str | None = None) -> Iterator[dict[str, Any]]:
        """The day's predictions with their locations, as rows in order of time; vectors are left in the database."""
        wanted = [column for column in predictions.columns if column.name != "vector"]
        yield from self._read_joined(day, predictions, wanted, model_id)

    def read_rejections(self, day: Day, model_id: str | None = None) -> Iterator[dict[str, Any]]:
        yield from self._read_joined(day, rejections, list(rejections.columns), model_id)

    def final_rejections(self, day: Day, model_id: str) -> Iterator[StoredRejection]:
        """The day's rejections that stand because of the content, with what was recorded of the file."""
        for row in self.read_rejections(day, model_id):
            if row["reason"] not in TRANSIENT_REASONS:
                facts = FileFacts(row["size"], row["modified"], row["sha256"])
                yield StoredRejection(row["image_id"], row["location"], row["reason"], facts)

    def forget_rejections(self, image_ids: list[str], model_id: str) -> int:
        """Makes these images pending again; returns how many there were."""
        forgotten = 0
        for first in range(0, len(image_ids), 500):
            some = image_ids[first : first + 500]
            gone = delete(rejections).where(rejections.c.model_id == model_id, rejections.c.image_id.in_(some))
            with self._database.write() as connection:
                forgotten += connection.execute(gone).rowcount
        return forgotten

    def last_runs(self, limit: int) -> list[dict[str, Any]]:
        newest = select(runs).order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(newest)]

    def _read_joined(self, day: Day, table: Any, wanted: list[Any], model_id: str | None) -> Iterator[dict[str, Any]]:
        """Rows of `table` for the day's images, page by page of the day's images."""
        with self._database.read() as connection:
            streaming = connection.execution_options(yield_per=PAGE_SIZE)
            for images in self._source.parts(connection, day):
                statement = select(*wanted, images.c[1].label("image_location")).select_from(images)
                statement = statement.join(table, table.c.image_id == images.c[3])
                if model_id is not None:
                    statement = statement.where(table.c.model_id == model_id)
                ordered = statement.order_by(images.c[2], images.c[0], table.c.model_id)
                for row in streaming.execute(ordered):
                    found = dict(row._mapping)
                    yield found | {"location": found.pop("image_location")}


def _results_of(images: Subquery, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Whether an image has a prediction, and whether it has a rejection."""
    return has_prediction(images.c[3], model_id), has_rejection(images.c[3], model_id)
