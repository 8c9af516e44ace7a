"""Everything about one image: its location, each model's results, and what a model would predict now."""

import os
import shlex
from dataclasses import dataclass, replace
from datetime import date, datetime

from infer_app.artifact.models_folder import find_artifact
from infer_app.ask.missing_prediction import (
    Cause,
    Why,
    explain_changed_file,
    explain_forgotten,
    explain_former_objects,
    explain_image,
    explain_other_model,
    refusal_of,
)
from infer_app.ask.next_run import NextRun
from infer_app.base.day import Day, find_zone
from infer_app.base.domain import Broken, FileFacts, ImageRef, Reason
from infer_app.base.errors import InferError, UsageError
from infer_app.base.locations import shown as shown_location
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.workers.isolated_call import run_in_process
from infer_app.tables.engine.column_types import is_utf8
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.queries.pending_images import StoredFailure
from infer_app.tables.rows.image_history import ModelHistory, read_history

START_UP_S = 10.0  # of the process that reads


@dataclass(frozen=True, slots=True)
class FileNow:
    """The result of reading the image's file now."""

    facts: FileFacts
    reason: str | None = None  # why it can't be read
    detail: str | None = None

    @property
    def is_allowed(self) -> bool:
        return self.reason != Reason.LOCATION_NOT_ALLOWED


@dataclass(frozen=True, slots=True)
class Explanation:
    """An image, its file and its results by model."""

    image_id: str
    location: str | None  # None if the source no longer lists the image
    time: datetime | None  # UTC
    day: date | None  # in the zone of [run] time_zone
    file: FileNow | None
    histories: list[ModelHistory]
    causes: list[Cause | None]  # why each of them has no prediction of the file as it is now
    no_model: str | None = None  # why there is no model at all
    is_forgotten: bool = False  # its day


def explain(
    loaded: LoadedSettings, project: ProjectDatabase, image_id: str, day: Day | None, model: str | None
) -> Explanation:
    """Return all that is known of an image. Raises UsageError if it is unknown or belongs to another day."""
    check_id(image_id)
    next_run = NextRun.of(loaded).with_late(project, loaded.run.time_zone)
    place = _find(loaded, project, image_id, day)
    picture = project.source.find_picture(image_id, place[0] if place else None)
    histories = read_history(project.database, _versions(project, next_run, model), picture)
    if place is None and all(one.state == "pending" for one in histories):
        raise _unknown(project, image_id)
    location, time, its_day = place or (None, None, None)
    file = None if location is None else look_at(location, read_limits(loaded), loaded.images.timeout_s + START_UP_S)
    is_forgotten = project.source.has_forgotten(time)
    found = Explanation(image_id, location, time, its_day, file, histories, [], is_forgotten=is_forgotten)
    no_model = f"{next_run.error.message}: {next_run.error.hint}" if next_run.error and not histories else None
    causes = [_cause(loaded, project, next_run, found, one) for one in histories]
    return replace(found, causes=causes, no_model=no_model)


def _versions(project: ProjectDatabase, next_run: NextRun, wanted: str | None) -> list[tuple[str, str]]:
    """Return (name, id) of the models that ran, the most recent first, then those that only the next run will use."""
    new = [version for version in next_run.models if wanted is None or wanted in version]
    try:
        known = project.versions.models_of(wanted)
    except UsageError:
        if not new:
            raise
        return new
    return known + [version for version in new if version not in known]


def _cause(
    loaded: LoadedSettings, project: ProjectDatabase, next_run: NextRun, found: Explanation, history: ModelHistory
) -> Cause | None:
    """Return why a model has no prediction of the image, or one of another file; None if it has one."""
    version, is_same = (history.model, history.model_id), is_same_file(found.file, history)
    if history.state == "predicted":
        is_changed = is_same is False and version in next_run.models
        return explain_changed_file(found.image_id) if is_changed else None
    if found.location is None:
        return None
    if version not in next_run.models:
        return explain_other_model(next_run, version, found.day, is_built=_is_built(loaded, version))
    if history.detector_out_of_use and found.day and not found.is_forgotten:
        versions = project.versions.replaced_by(history.detector_out_of_use)
        return explain_former_objects(next_run, found.day, versions)
    row, refusal = history.rejection, None
    failure = StoredFailure(row.reason, row.attempts, row.detail, row.is_settled) if row else None
    if found.file is not None and not found.file.is_allowed:
        ref = ImageRef(found.image_id, found.location)
        broken = Broken(ref, Reason.LOCATION_NOT_ALLOWED, found.file.detail or "", "read")
        refusal = refusal_of(broken, read_limits(loaded))
    others = (one for one in found.histories if one.model == history.model and one.prediction)
    if found.is_forgotten and found.day:
        return explain_forgotten(found.day)
    if row is None and found.day and next_run.era(found.day) == "older" and any(others):
        message = "a former version of this model predicted it, and no run covers its day any more"
        return Cause(Why.NOT_COVERED, message, next_run.command(found.day, found.day))
    is_replaced = bool(row and found.file and row.is_outdated(found.file.facts, found.location))
    place = found.image_id, found.day
    return explain_image(next_run, *place, failure, refusal, found.location, is_replaced=is_replaced)


def _is_built(loaded: LoadedSettings, version: tuple[str, str]) -> bool:
    try:
        return find_artifact(loaded.models_folder, version[0]).manifest.model_id == version[1]
    except InferError:
        return False


def find_place(loaded: LoadedSettings, project: ProjectDatabase, image_id: str, day: Day | None) -> tuple[str, date]:
    """Return location and day of an image.

    Raises UsageError if it is unknown, of another day, or has no time, or if its day was forgotten.
    """
    check_id(image_id)
    place = _find(loaded, project, image_id, day)
    if place is None:
        raise _unknown(project, image_id)
    if place[2] is None:
        fix = f"give it a time in {loaded.source.time_column}"
        raise UsageError(f"image {image_id} has no time, so no run would predict it again", fix)
    if project.source.has_forgotten(place[1]):
        raise UsageError(f"image {image_id}: {explain_forgotten(place[2]).message}")
    return place[0], place[2]


def check_id(image_id: str) -> None:
    """Raise UsageError for an id that no database can hold."""
    if not is_utf8(image_id):
        raise UsageError(f"the id {image_id!r} is not text in UTF-8", "no such image can be in a database")


def _find(
    loaded: LoadedSettings, project: ProjectDatabase, image_id: str, day: Day | None
) -> tuple[str, datetime | None, date | None] | None:
    """Return the location, time and day of an image, or None if the source does not list it.

    Raises UsageError if it is of another day than `day`, or if several images have its id.
    """
    source = project.source
    places = source.find_by_id(image_id, day) or (source.find_by_id(image_id) if day else [])
    zone = find_zone(loaded.run.time_zone)
    dated = [(location, time, time and time.astimezone(zone).date()) for location, time in places]
    chosen = [one for one in dated if day is None or one[2] == day.date]
    if dated and not chosen:
        date_of = dated[0][2]
        why = f"belongs to {date_of}, not to {day}" if date_of else f"has no time, so it does not belong to {day}"
        raise UsageError(f"image {image_id} {why}")
    if len(chosen) > 1:
        raise UsageError(f"{len(chosen)} or more images have the id {image_id}", "name the day of one with --date")
    return chosen[0] if chosen else None


def is_same_file(file: FileNow | None, history: ModelHistory) -> bool | None:
    """Return whether the result was made from the file as it is now; None if that is unknown."""
    stored = history.prediction or history.rejection
    if stored is None or file is None:
        return None
    now, then = file.facts, stored.file
    if then.sha256 is not None and now.sha256 is not None:
        return now.sha256 == then.sha256
    if then.size is None or now.size is None:
        return None
    return (now.size, now.modified) == (then.size, then.modified)


def look_at(location: str, limits: ReadLimits, timeout_s: float) -> FileNow:
    """Read the file in a separate process, since reading can hang."""
    try:
        return run_in_process(file_now, location, limits, timeout_s=timeout_s)
    except InferError as error:
        return FileNow(FileFacts(), Reason.READ_TIMEOUT, error.message)


def file_now(location: str, limits: ReadLimits) -> FileNow:
    try:
        return FileNow(read_image(location, limits).facts)
    except BadImage as bad:
        return FileNow(bad.facts or FileFacts(), bad.reason, bad.detail)


def _unknown(project: ProjectDatabase, image_id: str) -> UsageError:
    found = project.source.find_similar(image_id)
    similar = [f"{one} ({shown_location(location)})" for one, location in found]
    hint = "`infer list --state predicted --date DATE` lists the ids of a day, without --state the pending ones"
    if os.path.exists(image_id):  # noqa: PTH110 - a Path raises for a text that can't be a file's name
        adds = f"`infer images add {shlex.quote(image_id)}` registers it"
        hint = adds if project.source.registered else "your table lists no image with that location: add a row to it"
    elif "/" in image_id or "." in image_id:  # possibly a file name
        hint = "no listed location contains it, and there is no such file here"
    if similar:
        hint = f"did you mean {', '.join(similar)}?"
    return UsageError(f"no image has the id {image_id!r}", hint)
