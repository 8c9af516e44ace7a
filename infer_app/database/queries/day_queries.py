"""What the tables say of a day: counts by rows, lists for people and scripts, and whether the counts add up."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Subquery, delete, or_, select

from infer_app.database.engine.connect import Database
from infer_app.database.listing.source import PAGE_SIZE, Source
from infer_app.database.queries.audit import audit
from infer_app.database.results.conditions import count_rows, has_prediction, has_rejection, is_new, join_results
from infer_app.database.results.schema import models, predictions, rejections, runs
from infer_app.day import Day
from infer_app.domain import TRANSIENT_REASONS, DayCounts, FileFacts, Reason
from infer_app.errors import UsageError
from infer_app.locations import as_location

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


class DayQueries:
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
        """What is wrong with the day's rows, in words; empty when the counts add up."""
        counts = self.count_day(day, model_id)
        problems = [] if counts.balanced else [f"{counts} does not balance"]
        with self._database.read() as connection:
            return problems + list(audit(connection, self._source, day, model_id))

    def models_of(self, wanted: str | None = None) -> list[tuple[str, str]]:
        """List (name, id) of the models that ever ran, the one that ran last first: of each name the first is current.

        `wanted`: a name, or the id of a version; UsageError where neither has run.
        """
        ordered = select(models.c.name, models.c.id).order_by(models.c.created_at.desc(), models.c.id.desc())
        with self._database.read() as connection:
            known = [(row.name, row.id) for row in connection.execute(ordered)]
        found = [version for version in known if wanted is None or wanted in version]
        if wanted is not None and not found:
            names = ", ".join(sorted({name for name, _ in known}))
            hint = f"those that have: {names}" if names else "`infer run` first"
            raise UsageError(f"no model {wanted!r} has run on this database", hint)
        return found

    def read_current_predictions(self, day: Day, versions: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Read one prediction of each image for each name: that of the first version that has one.

        `versions`: as `models_of` lists them. Of all of them it is what infer_current_predictions shows.
        """
        for _, rows in groupby(self.read_predictions(day), key=itemgetter("image_id")):
            of_version = {row["model_id"]: row for row in rows}
            current: dict[str, str] = {}
            for name, model_id in versions:
                if model_id in of_version:
                    current.setdefault(name, model_id)
            yield from (of_version[model_id] | {"model": name} for name, model_id in sorted(current.items()))

    def read_predictions(self, day: Day, model_id: str | None = None) -> Iterator[dict[str, Any]]:
        """The day's predictions with their locations, as rows in order of time; vectors are left in the database."""
        wanted = [column for column in predictions.columns if column.name != "vector"]
        yield from self._read_joined(day, predictions, wanted, model_id)

    def read_rejections(self, day: Day, model_id: str | None = None) -> Iterator[dict[str, Any]]:
        yield from self._read_joined(day, rejections, list(rejections.columns), model_id)

    def final_rejections(self, day: Day, model_id: str) -> Generator[StoredRejection]:
        """The day's rejections that stand because of the content, with what was recorded of the file."""
        for row in self.read_rejections(day, model_id):
            if row["reason"] not in TRANSIENT_REASONS:
                facts = FileFacts(row["size"], row["modified"], row["sha256"])
                yield StoredRejection(row["image_id"], as_location(row["location"]), row["reason"], facts)

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
                joined = join_results(images, table, images.c[3], model_id)
                statement = select(*wanted, images.c[1].label("image_location")).select_from(joined)
                ordered = statement.order_by(images.c[2], images.c[0], table.c.model_id)
                for row in streaming.execute(ordered):
                    found = dict(row._mapping)
                    yield found | {"location": found.pop("image_location")}


def _results_of(images: Subquery, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Whether an image has a prediction, and whether it has a rejection."""
    return has_prediction(images.c[3], model_id), has_rejection(images.c[3], model_id)
