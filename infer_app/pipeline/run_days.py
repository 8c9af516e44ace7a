"""Runs models over several days: models that take the same pixels together, the others one after another."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import chain
from typing import Any

from infer_app.database.queries.arrivals import ArrivalGap
from infer_app.database.queries.day_queries import PendingDays
from infer_app.database.queries.day_state import DayStates
from infer_app.database.queries.late_days import find_late_days, settle_late_images
from infer_app.day import Day
from infer_app.domain import NewImage
from infer_app.errors import (
    OF_ONE_DAY,
    SIGNALLED,
    DayHeld,
    InferError,
    Interrupted,
    ModelError,
    PrecisionUnavailable,
    StorageUnavailable,
    WorkersKilled,
    most_severe,
)
from infer_app.models.artifact.artifact import Artifact
from infer_app.pipeline.job import Job, group_by_pixels, open_job
from infer_app.pipeline.registration import Registration
from infer_app.pipeline.run_day import dry_run, run_day
from infer_app.pipeline.stop import Stop, seconds_until
from infer_app.run_report import DayState, RunReport
from infer_app.settings.load import LoadedSettings
from infer_app.telemetry.log import bind_models
from infer_app.telemetry.metrics import ModelOutcome
from infer_app.telemetry.progress import Progress
from infer_app.telemetry.summary_line import Forecast, forecast
from infer_app.telemetry.trace import Trace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When a run ends early."""

    num_images: int | None
    finish_by: str | None  # HH:MM
    max_duration_s: float | None

    def images_left(self, reports: Sequence[RunReport]) -> int | None:
        """Return how many more images may be run; the limit is for all days together, for each model."""
        return None if self.num_images is None else self.num_images - sum(report.selected for report in reports)

    def stop(self) -> Stop:
        given = [self.max_duration_s] if self.max_duration_s is not None else []
        if self.finish_by is not None:
            given.append(seconds_until(self.finish_by))
        return Stop(min(given, default=None))


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The reports and the exit code of one model in a run over several days."""

    reports: list[RunReport]  # of each day that was run, oldest first
    late: list[RunReport]  # of the days run after them, for images that were registered late
    older: PendingDays | None  # with pending images, before those
    rest: Forecast | None  # for the images that an early end left pending
    exit_code: int
    day_state: DayState  # of the last day
    all_late_tried: bool  # neither an early end nor another run kept it from a late day
    num_replaced: int  # images of any day whose prediction is of a former file

    @property
    def last(self) -> RunReport:
        return self.reports[-1]

    @property
    def outcome(self) -> ModelOutcome:
        reports, late_pending = [*self.late, *self.reports], sum(report.day.pending for report in self.late)
        older = max(0, self.num_older - late_pending)  # which are among those
        return ModelOutcome(self.last.model, self.exit_code, reports, older, self.day_state)

    @property
    def num_older(self) -> int:
        return self.older.num_images if self.older else 0

    def to_json(self) -> dict[str, Any]:
        more = {
            "exit_code": self.exit_code,
            "lookback": [report.to_json() for report in self.reports[:-1]],
            "late": [report.to_short_json() for report in self.late],  # may be years
            "replaced": self.num_replaced,
            "older_pending": self.num_older,
            "older_pending_dates": [str(self.older.first), str(self.older.last)] if self.older else None,
            "forecast": asdict(self.rest) if self.rest else None,
            "day_state": asdict(self.day_state),
        }
        return self.last.to_json() | more


@dataclass(frozen=True, slots=True)
class FailedModel:
    """Why one of several models was not run."""

    name: str
    error: InferError

    @property
    def outcome(self) -> ModelOutcome:
        return ModelOutcome(self.name, self.error.exit_code)

    def to_json(self) -> dict[str, Any]:
        reason = {"error": str(self.error), "hint": self.error.hint}
        return {"model": self.name, "exit_code": self.error.exit_code} | reason


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run over several models and days ended."""

    results: list[ModelResult]  # at least one
    failures: list[FailedModel]
    outcomes: list[ModelOutcome]  # of all models, also of those that were not started
    nearest: date | None  # the nearest day with images, if the last day has none
    gap: ArrivalGap | None = None  # if images have stopped coming

    @property
    def exit_code(self) -> int:
        codes = [result.exit_code for result in self.results]
        return most_severe(codes + [failure.error.exit_code for failure in self.failures])

    def to_json(self) -> dict[str, Any]:
        """Return what `infer run --json` prints: the first model's figures, and all models if there are several."""
        models = [result.to_json() for result in self.results] + [failure.to_json() for failure in self.failures]
        several = {"models": models} if len(models) > 1 else {}
        return self.results[0].to_json() | {"exit_code": self.exit_code} | several


def run_days(
    loaded: LoadedSettings,
    artifacts: Sequence[Artifact],
    days: Sequence[Day],
    limits: RunLimits,
    stop: Stop,
    progress: Progress,
    trace: Trace | None = None,
    not_found: Mapping[str, ModelError] | None = None,
    *,
    with_late: bool = False,
) -> RunSummary:
    """Run the models over the days, oldest first; a model that can't run or whose day is held doesn't stop the others.

    `with_late`: then also over the days of images that were registered late. `not_found` has by name the errors of
    models that should run too and aren't there. Raises the error of the first model if none was run, and Interrupted if
    a signal came before the first.
    """
    results: list[ModelResult] = []
    failures = [FailedModel(name, error) for name, error in (not_found or {}).items()]
    nearest: date | None = None
    gap: ArrivalGap | None = None
    left = deque(group_by_pixels(artifacts))
    while left and not stop.exit_code:
        group = left.popleft()
        bind_models((artifact.manifest.name, artifact.manifest.model_id) for artifact in group)
        try:
            with open_job(loaded, group, trace=trace is not None) as job:
                results += _run_job(job, days, limits, stop, progress, trace, with_late)
                if not results[-1].last.day.eligible:
                    nearest, gap = _nearest_date(job, days[-1]), _gap(job, days[-1])
                if with_late and not (left or failures) and all(result.all_late_tried for result in results):
                    settle_late_images(job.project.database, job.project.source, days[0])
        except (*OF_ONE_DAY, ModelError) as error:
            if len(group) > 1 and isinstance(error, DayHeld | ModelError):  # one of them: run each by itself
                left.extendleft([artifact] for artifact in reversed(group))
            else:
                failures += [FailedModel(artifact.manifest.name, error) for artifact in group]
    not_started = [artifact.manifest.name for group in left for artifact in group]
    if not_started:
        log.warning("not started: %s", ", ".join(not_started))
    if not results and failures:
        raise failures[0].error
    if not results:
        raise Interrupted(stop.exit_code - SIGNALLED)
    outcomes = [result.outcome for result in results] + [failure.outcome for failure in failures]
    outcomes += [ModelOutcome(name, stop.exit_code) for name in not_started]
    return RunSummary(results, failures, outcomes, nearest, gap)


def dry_run_days(
    loaded: LoadedSettings,
    artifacts: Sequence[Artifact],
    days: Sequence[Day],
    limits: RunLimits,
    stop: Stop,
    progress: Progress,
    trace: Trace | None = None,
    registration: Registration | None = None,
    *,
    with_late: bool = False,
) -> list[tuple[list[RunReport], Forecast]]:
    """Run a sample of the days without writing; return the reports of each group of models and a forecast.

    `registration`: of a dry run; what it would register is in the forecast, and the sample begins with it.
    """
    measured = []
    to_register = registration.to_run if registration else 0
    for group in group_by_pixels(artifacts):
        indices = tuple(range(len(group)))
        sample = tuple(NewImage(ref, indices) for ref in registration.sample) if registration else ()
        with open_job(loaded, group, read_only=True, trace=trace is not None) as job:
            late = find_late_days(job.project.database, job.project.source, days[0], job.model_ids) if with_late else []
            job = replace(job, unregistered=sample)
            reports = dry_run(job, [*late, *days], stop, progress, limits.num_images, trace)
            measured.append((reports, forecast(reports[0], _count_pending(job, days) + to_register)))
    return measured


def _run_job(
    job: Job,
    days: Sequence[Day],
    limits: RunLimits,
    stop: Stop,
    progress: Progress,
    trace: Trace | None,
    with_late: bool,
) -> list[ModelResult]:
    """Run the days and return how each model ended. Raises the error of the last day, once the late days were run.

    Raises Interrupted in its place if a signal came meanwhile.
    """
    ran: dict[Day, list[RunReport]] = {}
    left_out: list[InferError] = []  # why days could not be run
    of_last_day: InferError | None = None

    def images_left() -> int | None:
        return limits.images_left([reports[0] for reports in ran.values()])

    def is_over() -> bool:
        return bool(stop.exit_code) or images_left() == 0

    for day in chain(days, _late_days(job, days, is_over) if with_late else ()):
        try:
            ran[day] = run_day(job, day, stop, progress, images_left(), trace)
        except OF_ONE_DAY as error:
            if isinstance(error, PrecisionUnavailable) and len(job.models) > 1:
                raise  # the models are run one by one then
            if day is days[-1]:
                if isinstance(error, StorageUnavailable | WorkersKilled):
                    raise  # what keeps late days from being run, too
                of_last_day = error
                continue
            log.warning("%s left out: %s (%s)", day, error, error.hint)
            left_out.append(error)
    if of_last_day and stop.exit_code > SIGNALLED:
        raise Interrupted(stop.exit_code - SIGNALLED)
    if of_last_day:
        raise of_last_day
    return [
        _result(job, days, {day: reports[number] for day, reports in ran.items()}, left_out, is_over())
        for number in range(len(job.models))
    ]


def _late_days(job: Job, days: Sequence[Day], is_over: Callable[[], bool]) -> Iterator[Day]:
    """Yield the late days, which are looked for after the run's own days, until the run is to end."""
    database, source = job.project.database, job.project.source
    for day in database.with_reconnect(lambda: find_late_days(database, source, days[0], job.model_ids)):
        if is_over():
            return
        yield day


def _result(
    job: Job, days: Sequence[Day], ran: Mapping[Day, RunReport], left_out: Sequence[InferError], ended_early: bool
) -> ModelResult:
    with_reconnect = job.project.database.with_reconnect
    reports = [ran[day] for day in days if day in ran]
    late = [report for day, report in ran.items() if day not in days]
    last = reports[-1]
    states = DayStates(job.project.day_queries, job.project.run_store, job.max_rejected)
    older = with_reconnect(lambda: job.project.day_queries.find_older_pending(days[0], last.model_id))
    changed = with_reconnect(lambda: job.project.day_queries.count_changed([last.model_id]))
    day_state = with_reconnect(lambda: states.read(days[-1], last.model, last.model_id, last.day))
    exit_code = most_severe([error.exit_code for error in left_out] + [report.exit_code for report in ran.values()])
    all_late_tried = not ended_early and not any(isinstance(error, DayHeld) for error in left_out)
    was_stopped = any(report.stopped for report in ran.values())
    tried = list(dict.fromkeys([*days, *ran]))  # those left out too
    rest = _forecast_rest(job, tried, list(ran.values())) if ended_early or was_stopped else None
    return ModelResult(reports, late, older, rest, exit_code, day_state, all_late_tried, changed.replaced)


def _forecast_rest(job: Job, days: Sequence[Day], reports: Sequence[RunReport]) -> Forecast | None:
    """Forecast a run over the images left pending, by the speed of the day with the most images."""
    pending = job.count_new(days, reports[-1].model_id)
    return forecast(max(reports, key=lambda report: report.selected), pending) if pending else None


def _nearest_date(job: Job, day: Day) -> date | None:
    return job.project.source.database.with_reconnect(lambda: job.project.source.nearest_date(day))


def _gap(job: Job, day: Day) -> ArrivalGap | None:
    return job.project.source.database.with_reconnect(lambda: job.project.day_queries.find_gap(day))


def _count_pending(job: Job, days: Sequence[Day]) -> int:
    """Count the images that this run and a backfill of the days before would run for at least one of the models."""
    day_queries = job.project.day_queries
    older = max(day_queries.count_older_pending(days[0], model_id) for model_id in job.model_ids)
    return job.count_new(days) + older
