"""The images that wait for a run, and the days that have any, each with the reason; `infer pending` prints them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby, islice

from infer_app.artifact.model_names import Version
from infer_app.ask.missing_prediction import (
    Cause,
    Refusal,
    explain_days,
    explain_former_objects,
    explain_image,
    explain_left_out,
    refusal_of,
)
from infer_app.ask.next_run import NextRun
from infer_app.base.day import MAX_YEAR, Day
from infer_app.base.domain import ImageRef
from infer_app.base.errors import EXIT_OK, InferError, StorageUnavailable
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.read_image import refused_among
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, run_in_process
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.queries.pending_images import PendingDays, PendingImage

NO_MODEL = ("", "")
_IMAGES_AT_ONCE = 5000  # whose locations one process checks


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """How many images of a day wait for a run, and how many no run tries again."""

    pending: int
    retried: int  # rejected for now
    final: int  # rejected for good


@dataclass(frozen=True, slots=True)
class PendingList:
    """Lists what waits for the next run."""

    loaded: LoadedSettings
    project: ProjectDatabase
    next_run: NextRun

    @classmethod
    def of(cls, loaded: LoadedSettings, project: ProjectDatabase, model: str | None) -> PendingList:
        return cls(loaded, project, NextRun.of(loaded, model).with_late(project, loaded.run.time_zone))

    def versions(self, wanted: str | None) -> list[Version]:
        """Return the models that the next run uses, or those that ran if no run is possible."""
        if self.next_run.models:
            return list(self.next_run.models)
        current: dict[str, str] = {}
        for name, model_id in self.project.versions.models_of(wanted):
            current.setdefault(name, model_id)
        return list(current.items()) or [NO_MODEL]

    def images(self, day: Day, model_id: str) -> Generator[tuple[PendingImage, Cause]]:
        """Yield the images of a day with their causes, in order of time; those of one page are in memory.

        Raises StorageUnavailable if the storage does not answer whether a location is allowed.
        """
        next_run = self.next_run
        left_out = self.project.source.find_left_out(day)
        versions = self.project.versions.versions_of(model_id) if self._is_older(day) else []
        done_by = [one for one in versions if one != model_id]  # their days are not done again by themselves
        with closing(self.project.pending.read_pending(day, model_id, done_by)) as pending:
            while page := list(islice(pending, _IMAGES_AT_ONCE)):
                refs = [(one, ImageRef(one.image_id or "", one.location)) for one in page]
                with_id = [ref for one, ref in refs if not left_out.has(one.image_id)]
                refusals = find_refusals(with_id, read_limits(self.loaded))
                for one, ref in refs:
                    if left_out.has(one.image_id):
                        yield one, explain_left_out(next_run, day.date, self.loaded.source.id)
                        continue
                    if one.former_detector:
                        versions_of_detector = self.project.versions.replaced_by(one.former_detector)
                        yield one, explain_former_objects(next_run, day.date, versions_of_detector)
                        continue
                    refusal = refusals.get(ref.image_id)
                    yield one, explain_image(next_run, ref.image_id, day.date, one.failure, refusal)

    def count(self, day: Day, model_id: str) -> PendingCounts:
        counts = self.project.count_day(day, model_id)
        num_retried = max(0, self.project.count_new(day, model_id) - counts.pending)
        num_pending = counts.pending
        if self._is_older(day):  # then it is not done again after a switch of versions
            num_pending = self.project.count_pending(day, *self.project.versions.versions_of(model_id))
        return PendingCounts(num_pending, num_retried, max(0, counts.rejected - num_retried))

    def days(self, model_id: str) -> list[PendingDays]:
        """Return the days with images that wait for a run, in order.

        Of the days that no run covers any more, only the last images are examined, as at the end of a run.
        """
        zone = self.loaded.run.time_zone
        covered = Day.of(self.next_run.today - timedelta(days=1 + self.next_run.lookback), zone)
        since = replace(covered, end=Day.of(date(MAX_YEAR, 12, 31), zone).end)
        pending = self.project.pending
        older = pending.read_older_pending_days(covered, model_id)
        return [*older, *pending.read_pending_days(since, model_id)]

    def ranges(self, days: Sequence[PendingDays]) -> Iterator[tuple[Cause, int]]:
        """Yield the cause of each range of days that one command predicts, with the number of its images."""
        for _, group in groupby(days, lambda one: self.next_run.era(one.first)):
            ranged = list(group)
            num_images = sum(one.num_images + one.num_retried for one in ranged)
            yield explain_days(self.next_run, ranged[0].first, ranged[-1].last), num_images

    def without_time(self) -> tuple[int, Cause]:
        """Return the number of images without a time, which no list has, and what to do about them."""
        number = self.project.source.count_without_time()
        return number, explain_image(self.next_run, "", None)

    def _is_older(self, day: Day) -> bool:
        return self.next_run.era(day.date) == "older"


def last_failure(project: ProjectDatabase, day: Day, model_id: str) -> str | None:
    """Return how the day's last run failed, or None if it did not."""
    runs = project.rows.runs_of_day(day.date, model_id)
    if not runs or runs[0]["exit_code"] in (None, EXIT_OK):
        return None
    error = f": {runs[0]['error']}" if runs[0]["error"] else ""
    return f"the last run of {day} ended with exit code {runs[0]['exit_code']}{error}"


def find_refusals(refs: Sequence[ImageRef], limits: ReadLimits) -> dict[str, Refusal]:
    """Return the refusals of the locations that may not be read, by image id.

    Another process resolves the links, because that can hang. Raises StorageUnavailable if it does.
    """
    try:
        refused = run_in_process(refused_among, refs, limits, timeout_s=STORAGE_TIMEOUT_S)
    except InferError as error:
        raise StorageUnavailable(error.message, "is the image storage mounted?") from None
    return {broken.ref.image_id: refusal_of(broken, limits) for broken in refused}
