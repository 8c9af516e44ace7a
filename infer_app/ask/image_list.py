"""The images of a day in one state, or those of all days that wait for a run, each with its cause."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

from infer_app.artifact.model_names import Version, short_name
from infer_app.ask.missing_prediction import (
    Cause,
    Refusal,
    Why,
    describe_failure,
    explain_former_objects,
    explain_image,
    refusal_of,
    what_to_do,
)
from infer_app.ask.next_run import NextRun
from infer_app.base.day import MAX_YEAR, Day
from infer_app.base.domain import ImageRef, Reason
from infer_app.base.errors import EXIT_OK, InferError, StorageUnavailable, UsageError
from infer_app.base.printing import counted, printed_options
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.read_image import refused_among
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, run_in_process
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.queries.pending_images import UnpredictedImage
from infer_app.tables.rows.results import Part, Result, Selection, by_image, read

_NO_MODEL = ("", "")
_IMAGES_AT_ONCE = 5000  # whose locations one process checks


@dataclass(frozen=True, slots=True)
class ImageRow:
    """An image in a list."""

    image_id: str | None
    location: str
    date: dt.date
    model: str | None  # None: of whatever model
    model_id: str | None
    state: str  # of the image: predicted, rejected, pending, changed, missing
    label: str | None  # and its score, of a predicted image
    score: float | None
    cause: str | None  # the reason or a `Why`, of the others
    message: str
    fix: str = ""  # to be done before the command
    command: str | None = None

    @property
    def version(self) -> str:
        return short_name(self.model, self.model_id) if self.model and self.model_id else ""

    @property
    def to_do(self) -> str:
        return what_to_do(self.fix, self.command)

    @classmethod
    def of(
        cls, image_id: str | None, location: str, date: dt.date, version: Version | None, state: str, why: Cause
    ) -> ImageRow:
        name, model_id = version or (None, None)
        result = None, None, why.why, why.message, why.fix, why.command
        return cls(image_id, location, date, name, model_id, state, *result)


def read_predicted(project: ProjectDatabase, day: Day, model: str | None) -> Iterator[ImageRow]:
    """Yield one prediction of each image for each name: that of the version in use or, without one, used before it."""
    versions, names = project.versions.models_in_use(model), defaultdict[str, list[str]](list)
    for name, model_id in versions:
        names[name].append(model_id)
    wanted = Selection([model_id for _, model_id in versions], Part.TEXT, names.values())
    for found in by_image(read(project, day, wanted)) if versions else ():
        for name in sorted(names):
            if one := next((found[model_id] for model_id in names[name] if model_id in found), None):
                shown = name, one.model_id, "predicted", one.label, one.score, None, _describe(one)
                yield ImageRow(one.image_id, one.location, day.date, *shown)


def _describe(one: Result) -> str:
    """Return a prediction in a few words."""
    best = "" if one.label is None else one.label if one.score is None else f"{one.label} {one.score:.3f}"
    if one.num_objects is not None:
        return counted(one.num_objects, "object") + (f", the best {best}" if best else "")
    if one.output.vector_dim is not None:
        return f"a vector of {one.output.vector_dim:,} {one.output.vector_dtype}"
    return best or (json.dumps(one.output.details) if one.score is None else f"{one.score:.6g}")


@dataclass(frozen=True, slots=True)
class Unpredicted:
    """Lists images without a prediction; `model` is what is asked for, else all."""

    loaded: LoadedSettings
    project: ProjectDatabase
    next_run: NextRun
    model: str | None

    @classmethod
    def of(cls, loaded: LoadedSettings, project: ProjectDatabase, model: str | None) -> Unpredicted:
        return cls(loaded, project, NextRun.of(loaded, model).with_late(project, loaded.run.time_zone), model)

    def read_rejected(self, day: Day) -> Iterator[ImageRow]:
        """Yield what the versions of the day have rejected."""
        versions = {one[1]: one for one in self.project.versions.models_of_day(day, self.model)}
        for version in versions.values():
            found = self.project.pending.read_rejected(day, version[1])
            yield from self._rows(found, version, self.next_run, only_refused=True)

    def read_pending(self, day: Day | None) -> Iterator[ImageRow]:
        """Yield what the next run or another one is to predict, of a day or of all, those rejected for now too.

        Of the days that no run covers any more, only the last images are examined, as at the end of a run.
        """
        pending = self.project.pending
        for version in self._versions_to_run():
            model_id = version[1]
            done_by = [one for one in self.project.versions.versions_of(model_id) if one != model_id]
            if day is not None:
                is_older = self.next_run.era(day.date) == "older"  # it is not done again after a switch of versions
                found = pending.read_pending(day, model_id, done_by if is_older else ())
                yield from self._rows(found, version, self.next_run)
                continue
            zone = self.loaded.run.time_zone
            covered = Day.of(self.next_run.today - timedelta(days=1 + self.next_run.lookback), zone)
            found = pending.read_pending(_until(covered, dt.date(MAX_YEAR, 12, 31)), model_id)
            yield from self._rows(found, version, self.next_run)
            if older := pending.find_older_selected(covered, model_id, done_by):
                backlog = older.first, older.last
                found = pending.read_pending(_until(Day.of(older.first, zone), older.last), model_id, done_by)
                yield from self._rows(found, version, replace(self.next_run, backlog=backlog))

    def _versions_to_run(self) -> Sequence[Version]:
        """Return the models that the next run uses, or those that ran if no run is possible."""
        if versions := self.next_run.named(self.model):
            return versions
        current: dict[str, str] = {}
        for name, model_id in self.project.versions.models_of(self.model):
            current.setdefault(name, model_id)
        return list(current.items()) or [_NO_MODEL]

    def _rows(
        self, found: Generator[UnpredictedImage], version: Version, next_run: NextRun, *, only_refused: bool = False
    ) -> Iterator[ImageRow]:
        """Yield the images with their causes; those of one page are in memory.

        `only_refused`: the storage is asked only about images rejected for their location. Raises StorageUnavailable if
        it does not answer whether a location is allowed.
        """
        with closing(found):
            while page := list(islice(found, _IMAGES_AT_ONCE)):
                asked = [one for one in page if not only_refused or _is_refused(one)]
                refusals = find_refusals(asked, read_limits(self.loaded)) if asked else {}
                for one in page:
                    cause = self._explain(one, version, next_run, refusals.get(one.location))
                    state, failure = ("pending", None) if one.failure is None else ("rejected", one.failure)
                    row = ImageRow.of(one.image_id, one.location, one.day, version, state, cause)
                    yield replace(row, cause=failure.reason) if failure else row

    def _explain(self, one: UnpredictedImage, version: Version, next_run: NextRun, refusal: Refusal | None) -> Cause:
        failure = one.failure
        if one.former_detector:
            versions = self.project.versions.replaced_by(one.former_detector)
            return explain_former_objects(next_run, one.day, versions)
        if failure and version not in next_run.models:
            return Cause(Why.OTHER_MODEL, describe_failure(failure), None)
        options = printed_options(*([self.model] if self.model else []))
        retry = f"infer retry --date {one.day} --reason {failure.reason}{options}" if failure else ""
        return explain_image(next_run, one.image_id or "", one.day, failure, refusal, one.location, retry=retry)


def _until(day: Day, last: dt.date) -> Day:
    """Return the interval from a day to another one, both included."""
    return replace(day, end=Day.of(last, day.zone).end)


def last_failures(project: ProjectDatabase, day: Day, model: str | None) -> Iterator[str]:
    """Yield how the last runs of a day failed, those of its models that did."""
    with suppress(UsageError):  # the model has not run yet
        for model_id in dict.fromkeys(model_id for _, model_id in project.versions.models_of_day(day, model)):
            last = next(iter(project.rows.runs_of_day(day.date, model_id)), None)
            if last is not None and last["exit_code"] not in (None, EXIT_OK):
                error = f": {last['error']}" if last["error"] else ""
                yield f"the last run of {day} ended with exit code {last['exit_code']}{error}"


def _is_refused(image: UnpredictedImage) -> bool:
    return image.failure is not None and image.failure.reason == Reason.LOCATION_NOT_ALLOWED


def find_refusals(images: Sequence[UnpredictedImage], limits: ReadLimits) -> dict[str, Refusal]:
    """Return the refusals of the locations that may not be read, by location.

    Another process resolves the links, because that can hang. Raises StorageUnavailable if it does.
    """
    refs = [ImageRef(one.image_id or "", one.location) for one in images]
    try:
        refused = run_in_process(refused_among, refs, limits, timeout_s=STORAGE_TIMEOUT_S)
    except InferError as error:
        raise StorageUnavailable(error.message, "is the image storage mounted?") from None
    return {broken.ref.location: refusal_of(broken, limits) for broken in refused}
