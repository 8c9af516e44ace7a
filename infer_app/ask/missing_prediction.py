"""Decide why an image has no prediction, and which command changes that. `explain`, `list` and `retry` all ask here.

The causes are pure functions of what was read; the functions that read stand at the end.
"""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum

from infer_app.artifact.model_names import Version
from infer_app.ask.next_run import NextRun, retry_command
from infer_app.base.domain import (
    DECODER_MODULES,
    MAX_ATTEMPTS,
    TRANSIENT_REASONS,
    WITHOUT_LIMIT,
    Broken,
    Reason,
    ReasonClass,
)
from infer_app.base.errors import InferError
from infer_app.base.locations import is_local_file
from infer_app.base.packages import install, retried_reasons
from infer_app.base.printing import printed_options, with_config
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.refusals import how_to_allow
from infer_app.tables.queries.pending_images import StoredFailure

_OF_CONTENT = frozenset(one for one in Reason if one.of is ReasonClass.CONTENT) - TRANSIENT_REASONS


class Why(StrEnum):
    """Why an image has no prediction of a model: a closed list, documented in docs/reasons.md."""

    NO_MODEL = "no_model"  # no run is possible
    OTHER_MODEL = "other_model"  # runs use other models, or another version of this one
    NO_TIME = "no_time"
    FORGOTTEN = "forgotten"  # its day
    REJECTED = "rejected"  # no run tries it again
    NOT_ALLOWED = "not_allowed"  # its location
    IN_FUTURE = "in_future"
    RETRIED = "retried"  # a failure that the next run tries again
    NOT_COVERED = "not_covered"  # no run covers its day any more
    COVERED = "covered"  # the next run covers its day
    FILE_CHANGED = "file_changed"  # it has a prediction, made from another file
    FILE_MISSING = "file_missing"  # whatever its results are
    DETECTOR_CHANGED = "detector_changed"  # its result is of objects that another version of the detector found


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an image has no prediction, what must be changed first, and the command that then leads to one."""

    why: Why
    message: str
    command: str | None  # None where no command helps
    fix: str = ""  # to be done before the command


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a location may not be read, and how to allow it."""

    detail: str
    fix: str


def what_to_do(fix: str, command: str | None) -> str:
    """Return the fix and the command of a cause as one line; empty if there is neither."""
    return ", then ".join(filter(None, [fix, f"`{command}`" if command else ""]))


def explain_days(next_run: NextRun, first: date, last: date) -> Cause:
    """Return why images of a range of days, which are all of one `NextRun.era`, are pending."""
    if next_run.error is not None:
        return _no_model(next_run.error)
    if next_run.backlog and next_run.era(first) == "older":
        first, last = next_run.backlog
    days, command = str(first) if first == last else f"{first} to {last}", next_run.command(first, last)
    match next_run.era(first):
        case "older":
            return Cause(Why.NOT_COVERED, f"no run covers {days} any more", command)
        case "covered":
            return Cause(Why.COVERED, f"the next run covers {days}", command)
        case "today":
            return Cause(Why.COVERED, f"tomorrow's run covers {days}, which is today", command)
    fix = "correct the time if it is wrong"
    return Cause(Why.IN_FUTURE, f"{days} {'is' if first == last else 'are'} in the future", command, fix)


def explain_image(
    next_run: NextRun,
    image_id: str,
    day: date | None,
    failure: StoredFailure | None = None,
    refusal: Refusal | None = None,
    location: str | None = None,
    *,
    is_replaced: bool = False,
    retry: str = "",
) -> Cause:
    """Return why an image has no prediction of a model that the next run uses.

    `failure`: its rejection; `refusal`: why its location may not be read; `is_replaced`: its file has changed since it
    was rejected, which runs notice by themselves; `retry`: the command that deletes the rejection.
    """
    if next_run.error is not None:
        return _no_model(next_run.error)
    if day is None:
        return Cause(
            Why.NO_TIME, "it has no time, so no run covers it", None, f"give it a time in {next_run.time_column}"
        )
    of_day = explain_days(next_run, day, day)
    of_changed = _explain_changed(next_run, location, of_day) if location and is_local_file(location) else None
    if failure is not None and failure.is_settled and not is_replaced:
        if failure.reason in DECODER_MODULES:
            message = f"{describe_failure(failure)}; no run tries it again before its decoder is installed"
            return Cause(Why.REJECTED, message, of_day.command, install("heic"))
        return _rejected(retry or retry_command([image_id]), failure, refusal, of_changed)
    if refusal is not None:
        return Cause(Why.NOT_ALLOWED, f"its location is not allowed: {refusal.detail}", of_day.command, refusal.fix)
    if failure is None:
        return of_day
    changed = ", and the file has changed since" if is_replaced else ""
    of_day = of_changed or of_day if is_replaced else of_day
    its_objects = failure.reason == Reason.OTHER_FILE  # which only its detector finds again
    command = retry_command([image_id]) if its_objects else of_day.command
    return Cause(Why.RETRIED, f"{describe_failure(failure)}{changed}; {of_day.message}", command)


def explain_former_objects(next_run: NextRun, day: date, versions: tuple[str, str]) -> Cause:
    """Return the cause for a second network's result of objects that a former version of its detector found.

    `versions`: that version and the one in use, as `replaced_by` returns them.
    """
    of_day = explain_days(next_run, day, day)
    if next_run.error is not None:
        return of_day
    former, used = versions
    message = f"made of objects of {former}, and {used} is in use now; {of_day.message}"
    return replace(of_day, why=Why.DETECTOR_CHANGED, message=message)


def explain_forgotten(day: date) -> Cause:
    return Cause(Why.FORGOTTEN, f"`infer forget --before DATE` has taken {day} out: no run covers it", None)


def explain_changed_file(image_id: str) -> Cause:
    """Return the cause for an image whose file is another one than that which was predicted."""
    return Cause(Why.FILE_CHANGED, "the file has changed since it was predicted", retry_command([image_id]))


def explain_missing_file(since: datetime) -> Cause:
    message = f"its file has been missing since {since:%Y-%m-%d %H:%M} UTC"
    fix = f"put it back, or `infer forget --missing{printed_options()}` deletes its results"
    return Cause(Why.FILE_MISSING, message, None, fix)


def explain_other_model(next_run: NextRun, version: Version, day: date | None, *, is_built: bool) -> Cause:
    """Return the cause for a model that the next run doesn't use; `is_built`: its name stands for this version."""
    if next_run.error is not None:
        return _no_model(next_run.error)
    name, model_id = version
    if is_built:
        day = day or next_run.today - timedelta(days=1)
        command = replace(next_run, options=printed_options(name)).command(day, day)
        return Cause(Why.OTHER_MODEL, f"runs use {', '.join(dict(next_run.models))} unless told otherwise", command)
    newer = dict(next_run.models).get(name)
    return Cause(
        Why.OTHER_MODEL, f"runs use version {newer} of {name}" if newer else f"{name} {model_id} is gone", None
    )


def describe_failure(failure: StoredFailure) -> str:
    """Return the reason and, of one that passes, how often the image was tried."""
    detail = f" ({failure.detail})" if failure.detail else ""
    if failure.reason not in TRANSIENT_REASONS:
        found = ", and its decoder is installed now" if failure.reason in retried_reasons() else ""
        return f"rejected as {failure.reason}{detail}{found}"
    if failure.reason in WITHOUT_LIMIT:
        return f"{failure.reason}{detail}"
    return f"{failure.reason}{detail}, tried {failure.attempts} of {MAX_ATTEMPTS} times"


def _no_model(error: InferError) -> Cause:
    return Cause(Why.NO_MODEL, f"no run is possible: {error.message}", None, with_config(error.hint))


def _explain_changed(next_run: NextRun, location: str, of_day: Cause) -> Cause | None:
    """Return how a run takes an image whose file has changed since it was rejected; None if none does by itself."""
    if of_day.why is Why.COVERED:
        return of_day
    if of_day.why is Why.NOT_COVERED and next_run.watches(location) and not next_run.is_of_version:
        return replace(of_day, message="the next run takes it", command=f"infer run{next_run.options}")
    return None


def _rejected(retry: str, failure: StoredFailure, refusal: Refusal | None, of_changed: Cause | None) -> Cause:
    fix, described = "", describe_failure(failure)
    if failure.reason == Reason.LOCATION_NOT_ALLOWED:
        fix = refusal.fix if refusal else ""
    elif failure.reason not in TRANSIENT_REASONS:
        fix = "repair or replace the file, if that is the cause"
    if of_changed is not None and failure.reason in _OF_CONTENT:
        return Cause(Why.REJECTED, f"{described}; a corrected file is taken by the next run", of_changed.command, fix)
    return Cause(Why.REJECTED, f"{described}; no run tries it again", retry, fix)


def refusal_of(broken: Broken, limits: ReadLimits) -> Refusal:
    return Refusal(broken.detail, how_to_allow(broken, limits))
