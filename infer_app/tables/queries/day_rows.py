"""The results of a day, row by row, and whether its counts add up."""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any, Self

from sqlalchemy import Subquery, Table, select

from infer_app.artifact.model_names import Version
from infer_app.base.day import Day
from infer_app.base.domain import FileFacts, Reason
from infer_app.base.locations import is_local_file, mask_checksum
from infer_app.base.run_report import DayCounts
from infer_app.tables.engine.column_types import Query
from infer_app.tables.queries.audit import audit
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import KeyedJoin, is_preferred, join_results, picture_of
from infer_app.tables.results.schema import pictures, predictions, rejections, runs

_IS_ITS_PICTURE = pictures.c.id == predictions.c.picture
Row = dict[str, Any]  # by the names of the columns


@dataclass(frozen=True, slots=True)
class StoredRejection:
    """A rejection as it is stored, with the facts of the rejected file."""

    picture: int
    location: str
    reason: str
    file: FileFacts

    @classmethod
    def of(cls, row: Row) -> Self:
        facts = FileFacts(row["size"], row["modified"], row["sha256"])
        return cls(row["picture"], row["location"], row["reason"], facts)

    def is_outdated(self, now: FileFacts) -> bool:
        """Return whether a run deletes it, since a masked part of its URL or its file of this machine has changed."""
        if self.reason == Reason.LOCATION_NOT_ALLOWED and self.file.sha256 != mask_checksum(self.location):
            return True
        if now.size is None or not is_local_file(self.location):
            return False
        # A file that is not allowed was not examined, nor is what is no file.
        known = self.file.size is not None and (self.file.size, self.file.modified) != (now.size, now.modified)
        return known or self.reason == Reason.NOT_REGULAR_FILE


@dataclass(frozen=True, slots=True)
class PredictedFile:
    """An image with the file that a model predicted, and its file as it was last seen, which may be another one."""

    picture: int
    image_id: str
    location: str
    sha256: str | None  # of the predicted bytes
    seen: FileFacts

    def differs(self, now: FileFacts) -> bool:
        """Return whether a file with this size and time may be another one than was predicted."""
        is_seen = (self.seen.size, self.seen.modified) == (now.size, now.modified)
        return not is_seen or self.seen.sha256 not in (None, self.sha256)


class DayRows:
    """Reads the rows of days."""

    def __init__(self, images: ListedImages) -> None:
        self._images = images

    def find_problems(self, day: Day, model_id: str, counts: DayCounts | None = None) -> list[str]:
        """Return a message for each problem with the day's rows; an empty list means that the counts add up.

        `counts` are those of the day if they are known already.
        """
        counts = counts or self._images.count_day(day, model_id)
        problems = [] if counts.balanced else [f"{counts} does not balance"]
        with self._images.database.read() as connection:
            return problems + list(audit(connection, self._images.source, day, model_id))

    def read_current_predictions(self, day: Day, versions: Sequence[Version]) -> Iterator[Row]:
        """Yield one prediction of each image for each name: that of the first version that has one.

        `versions`: as `models_in_use` returns them. With all of them the result equals infer_current_predictions.
        """
        by_name: dict[str, list[str]] = {}
        for name, model_id in versions:
            by_name.setdefault(name, []).append(model_id)
        found = self._read_joined(day, predictions, None, list(by_name.values()))
        for _, rows in groupby(found, key=itemgetter("picture")):
            by_version = {row["model_id"]: row for row in rows}
            current: dict[str, str] = {}
            for name, model_id in versions:
                if model_id in by_version:
                    current.setdefault(name, model_id)
            yield from (by_version[model_id] | {"model": name} for name, model_id in sorted(current.items()))

    def read_predictions(self, day: Day, model_id: str | None = None) -> Iterator[Row]:
        """Yield the day's predictions with their locations, in order of time, without their vectors."""
        return self._read_joined(day, predictions, model_id)

    def read_rejections(self, day: Day, model_id: str | None = None) -> Iterator[Row]:
        return self._read_joined(day, rejections, model_id)

    def stored_rejections(self, day: Day, model_id: str) -> Generator[StoredRejection]:
        """Yield the day's rejections with the facts of the file."""
        yield from map(StoredRejection.of, self.read_rejections(day, model_id))

    def predicted_files(self, day: Day, model_ids: Collection[str]) -> Iterator[PredictedFile]:
        """Yield the files of the day's predictions by some models, in order of time."""
        seen = [pictures.c[name] for name in ("size", "modified", "sha256")]
        columns = predictions.c.picture, predictions.c.sha256.label("predicted"), *seen

        def rows_of(images: Subquery) -> Query:
            joined = KeyedJoin(join_results(images, predictions, *model_ids), pictures, _IS_ITS_PICTURE, False)
            return select(images.c[3], images.c[1], *columns).select_from(joined).order_by(images.c[2], images.c[0])

        for image_id, location, number, sha256, *facts in self._images.stream(day, rows_of) if model_ids else ():
            yield PredictedFile(number, image_id, location, sha256, FileFacts(*facts))

    def runs_of(self, day: Day, model_id: str) -> set[str]:
        """Return the ids of the runs that predicted the day's images, as far as their rows are there."""
        run_id = select(predictions.c.run_id).distinct()

        def rows_of(images: Subquery) -> Query:
            return run_id.select_from(join_results(images, predictions, model_id))

        return {row[0] for row in self._images.select(day, rows_of)}

    def runs_of_day(self, day: date, model_id: str) -> list[Row]:
        """Return the day's runs of this version of the model, the newest first."""
        wanted = select(runs).where(runs.c.model_id == model_id, runs.c.day == day)
        newest = wanted.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(100)
        with self._images.database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(newest)]

    def _read_joined(
        self, day: Day, table: Table, model_id: str | None, names: Sequence[Sequence[str]] = ()
    ) -> Iterator[Row]:
        """Yield the rows of `table` for the day's images, with the images' locations.

        `names`: the versions of each, the preferred first; a row is left out where a preferred one rejected its image.
        """
        wanted = [column for column in table.columns if column.name != "vector"]
        wanted += [pictures.c.size, pictures.c.modified] if table is predictions else []

        def rows_of(images: Subquery) -> Query:
            joined = join_results(images, table, *([model_id] if model_id else ()), counting=True)
            if table is predictions:
                joined = KeyedJoin(joined, pictures, _IS_ITS_PICTURE, False)
            statement = select(images.c[3].label("image_id"), *wanted, images.c[1].label("location"))
            wanted_rows = statement.select_from(joined).where(
                *(is_preferred(table, picture_of(images), ids) for ids in names)
            )
            return wanted_rows.order_by(images.c[2], images.c[0], table.c.model_id)

        yield from (dict(row._mapping) for row in self._images.stream(day, rows_of))
