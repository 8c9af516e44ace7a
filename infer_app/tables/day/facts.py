"""Everything that a day is judged by, and what holds of a project beside its days: read once, for all that tell it."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import func, select

from infer_app.artifact.model_names import Version
from infer_app.base.day import Day, find_zone, naive
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import rejection_budget
from infer_app.tables.cameras.copies import CopiedCamera, read_copies
from infer_app.tables.day.arrivals import ArrivalGap, find_gap
from infer_app.tables.day.ill_cameras import NONE_ILL, IllCameraReader, IllCameras
from infer_app.tables.listing.watched_images import UNCHANGED, ChangedCounts, count_changed, count_missing
from infer_app.tables.queries.day_rows import DayRows
from infer_app.tables.queries.late_days import has_late_images
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.pending_images import PendingDays, PendingImages, add_up
from infer_app.tables.queries.scope import Versions
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import pictures

OlderPending = Mapping[str, PendingDays | None]  # by the ids of versions
NOTHING_KNOWN: OlderPending = {}
NUM_DAYS_BEFORE = 7  # with which a day's number of images is compared


@dataclass(frozen=True, slots=True)
class DayFacts:
    """Everything that a day is judged by, of one version."""

    day: date
    counts: DayCounts
    runs: Sequence[dict[str, Any]]  # rows of infer_runs of the day, the newest first
    max_rejected: str
    asked: tuple[int, int] | None = None  # predicted and rejected images that the model was given; None: all of them
    is_running: bool = False  # the newest run is alive
    is_of_camera: bool = False  # the counts are of one camera, the runs of all
    older: PendingDays | None = None  # with pending images
    images_before: Sequence[int] = ()  # of each of the days before; empty while more images may come
    gap: ArrivalGap | None = None  # of a day without images
    changed: ChangedCounts = UNCHANGED  # of the day; only the report asks, as for the two below
    problems: Sequence[str] = ()  # found by an audit of the rows
    reasons: Mapping[str, int] = field(default_factory=dict)  # of rejections

    @property
    def last_run(self) -> dict[str, Any] | None:
        return self.runs[0] if self.runs else None

    @property
    def state(self) -> str:
        """Return done, pending, running, failed or never run.

        Rows take precedence: a day whose images all have results is done, whatever failed.
        """
        if self.last_run is None:
            return "never run"
        if self.is_running:
            return "running"
        if self.last_run["state"] == "done":
            return "pending" if self.counts.pending else "done"
        is_empty = not self.counts.eligible and not self.is_of_camera
        return "failed" if self.counts.pending or is_empty else "done"

    @property
    def nearly_black(self) -> int:
        """Return how many images of 16 bits use at most 12: each run has predicted others."""
        return sum((run["throughput"] or {}).get("nearly_black", 0) for run in self.runs)


@dataclass(frozen=True, slots=True)
class MissingImages:
    """Registered images whose files are gone."""

    num_images: int
    at: datetime  # when the last ones were missed first, in UTC without a zone
    day: date  # of that
    num_newest: int  # that were missed first on this day
    folder: str  # of those
    num_of_folder: int  # images that are registered there, missing or not


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What holds of a project beside its days."""

    gap: ArrivalGap | None  # if images have stopped coming
    ill: IllCameras
    copied: Sequence[CopiedCamera]
    replaced: int  # images of any day whose prediction is of a former file
    missing: MissingImages | None
    older: Mapping[str, PendingDays | None]  # images that no look-back covers, by the names of all models in use
    late_left: bool  # the next run takes some of these


class DayReader:
    """Reads the facts of days; what several days share is counted once. Ask for the oldest day first."""

    def __init__(self, images: ListedImages, max_rejected: str) -> None:
        self._images, self._pending, self._rows = images, PendingImages(images), DayRows(images)
        self._versions, self.ill_cameras = Versions(images), IllCameraReader(images)
        self._run_store = RunStore(images.database)
        self._max_rejected = max_rejected
        self._living: Collection[str] | None = None
        self._num_images: dict[date, int] = {}
        self._gaps: dict[date, ArrivalGap | None] = {}
        self._older: dict[str, tuple[Day, PendingDays | None]] = {}  # by model id
        self._before_all: dict[tuple[Day, str], PendingDays | None] = {}  # of the days that were asked about first

    def read_facts(self, day: Day, model_id: str, counts: DayCounts | None = None) -> DayFacts:
        """Read what all tell of a day; `counts` are those of the day's rows if they are known."""
        if self._living is None:
            self._living = self._run_store.living_runs()
        runs = self._rows.runs_of_day(day.date, model_id)
        counts = counts or self._images.count_day(day, model_id)
        may_be_too_many = counts.rejected > rejection_budget(self._max_rejected, 0)
        return DayFacts(
            day=day.date,
            counts=counts,
            runs=runs,
            asked=self._images.count_asked(day, model_id) if may_be_too_many else None,
            max_rejected=self._max_rejected,
            is_running=bool(runs) and runs[0]["id"] in self._living,
            is_of_camera=self._images.source.camera is not None,
            older=self.find_older_pending(day, model_id),
            images_before=self.count_images_before(day),
            gap=None if counts.eligible or not _is_over(day) else self._find_gap(day),
        )

    def _find_gap(self, day: Day) -> ArrivalGap | None:
        """Find the gap that ends with the day, of all cameras."""
        if day.date not in self._gaps:
            source = self._images.source
            self._gaps[day.date] = find_gap(source, day) if source.camera is None else None
        return self._gaps[day.date]

    def count_images_before(self, day: Day) -> list[int]:
        """Return the numbers of images of the days before, the latest first; [] while more images of it may come."""
        if not _is_over(day):
            return []
        return [self.count_images(day.before(n)) for n in range(1, NUM_DAYS_BEFORE + 1)]

    def find_older_pending(self, day: Day, model_id: str) -> PendingDays | None:
        """Find the pending images before the day; after an older day was asked for, only those in between."""
        known, found = self._older.get(model_id, (None, None))
        if known is None or known.start > day.start:
            if (day, model_id) not in self._before_all:
                in_use = self._versions.ids_in_use()  # which are asked about next
                older = self._pending.find_all_older(day, sorted({model_id, *in_use}))
                self._before_all |= {(day, one): pending for one, pending in older.items()}
            found = self._before_all[day, model_id]
        else:
            between = replace(day.before(1), start=known.start, end=day.start)
            found = add_up([found, self._pending.find_pending_between(between, model_id)])
        self._older[model_id] = (day, found)
        return found

    def count_images(self, day: Day) -> int:
        """Return the number of images of a day."""
        if day.date not in self._num_images:
            self._num_images[day.date] = self._images.count(day)
        return self._num_images[day.date]


def _is_over(day: Day) -> bool:
    return day.end <= datetime.now(UTC)


def read_project(
    images: ListedImages, first: Day, last: Day, versions: Sequence[Version], older: OlderPending = NOTHING_KNOWN
) -> ProjectFacts:
    """Read what holds of a project once a run of these days, the look-back's first and last, has ended.

    `older`: what is pending before the first day, if the run has counted it for all versions.
    """
    source, database = images.source, images.database
    model_ids = [model_id for _, model_id in versions]
    if not older.keys() >= {*model_ids}:
        older = PendingImages(images).find_all_older(first, model_ids)
    changed = count_changed(database, source, model_ids)
    is_of_all = source.camera is None
    return ProjectFacts(
        gap=find_gap(source, last) if is_of_all else None,
        ill=IllCameraReader(images).find(last, model_ids) if is_of_all and source.camera_of else NONE_ILL,
        copied=read_copies(images) if is_of_all and source.camera_of else (),
        replaced=changed.replaced,
        missing=_read_missing(images, last.zone) if changed.missing else None,
        older={name: older[model_id] for name, model_id in versions},
        late_left=has_late_images(database, source, first, model_ids),
    )


def _read_missing(images: ListedImages, zone: str) -> MissingImages | None:
    """Read which registered images are missing; those of the newest day on which some were missed are told apart."""
    since = pictures.c.missing_since
    is_gone = images.source.is_listed, since.is_not(None)
    with images.database.read() as connection:
        num_images, newest = connection.execute(select(func.count(), func.max(since)).where(*is_gone)).one()
        if newest is None:  # they are back
            return None
        day = Day.of(newest.replace(tzinfo=UTC).astimezone(find_zone(zone)).date(), zone)
        last = select(pictures.c.location).where(*is_gone, since >= naive(day.start))
        found = Counter(one.rpartition("/")[0] or "/" for one in connection.scalars(last))
    if not found:
        return None
    folder = os.path.commonpath(found)  # by bytes, whatever the database's order of text
    of_folder = count_missing(images.database, [f"{folder.rstrip('/')}/"])[1]
    return MissingImages(num_images, newest, day.date, found.total(), folder, of_folder)
