"""Runs models over several days: models that take the same pixels together, the others one after another."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from infer_app.database.queries.arrivals import ArrivalGap
from infer_app.database.queries.day_queries import PendingDays
from infer_app.database.queries.day_state import DayStates
from infer_app.day import Day
from infer_app.errors import (
    SIGNALLED,
    DayHeld,
    InferError,
    Interrupted,
    ModelError,
    NothingAllowed,
    PrecisionUnavailable,
    most_severe,
)
from infer_app.models.artifact.artifact import Artifact
from infer_app.pipeline.job import Job, group_by_pixels, open_job
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
    older: PendingDays | None  # with pending images, before those
    rest: Forecast | None  # for the images that an early end left pending
    exit_code: int
    day_state: DayState  # of the last day

    @property
    def last(self) -> RunReport:
        return self.reports[-1]

    @property
    def outcome(self) -> ModelOutcome:
        return ModelOutcome(self.last.model, self.exit_code, self.reports, self.num_older, self.day_state)

    @property
    def num_older(self) -> int:
        return self.older.num_images if self.older else 0

    def to_json(self) -> dict[str, Any]:
        more = {
            "exit_code": self.exit_code,
            "lookback": [report.to_json() for report in self.reports[:-1]],
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
    progress: Progress,
    trace: Trace | None = None,
    not_found: Mapping[str, ModelError] | None = None,
) -> RunSummary:
    """Run the models over the days, oldest first; a model that can't run or whose day is held doesn't stop the others.

    `not_found` has by name the errors of models that should run too and aren't there. Raises the error of the first
    model if none was run, and Interrupted if a signal came before the first.
    """
    results: list[ModelResult] = []
    failures = [FailedModel(name, error) for name, error in (not_found or {}).items()]
    nearest: date | None = None
    gap: ArrivalGap | None = None
    left = deque(group_by_pixels(artifacts))
    with limits.stop() as stop:
        while left and not stop.exit_code:
            group = left.popleft()
            bind_models((artifact.manifest.name, artifact.manifest.model_id) for artifact in group)
            try:
                with open_job(loaded, group, trace=trace is not None) as job:
                    results += _run_job(job, days, limits, stop, progress, trace)
                    if not results[-1].last.day.eligible:
                        nearest, gap = _nearest_date(job, days[-1]), _gap(job, days[-1])
            except (DayHeld, ModelError) as error:
                if len(group) > 1:  # one of them failed: run each by itself
                    left.extendleft([artifact] for artifact in reversed(group))
                else:
                    failures.append(FailedModel(group[0].manifest.name, error))
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
    progress: Progress,
    trace: Trace | None = None,
) -> list[tuple[list[RunReport], Forecast]]:
    """Run a sample of the days without writing; return the reports of each group of models and a forecast."""
    measured = []
    with limits.stop() as stop:
        for group in group_by_pixels(artifacts):
            with open_job(loaded, group, read_only=True, trace=trace is not None) as job:
                reports = dry_run(job, days, stop, progress, limits.num_images, trace)
                measured.append((reports, forecast(reports[0], _count_pending(job, days))))
    return measured


def _run_job(
    job: Job, days: Sequence[Day], limits: RunLimits, stop: Stop, progress: Progress, trace: Trace | None
) -> list[ModelResult]:
    by_day: list[list[RunReport]] = []
    left_out: list[int] = []  # exit codes of days that could not be run
    for day in days:
        try:
            images_left = limits.images_left([reports[0] for reports in by_day])
            by_day.append(run_day(job, day, stop, progress, images_left, trace))
        except (DayHeld, NothingAllowed, PrecisionUnavailable) as error:
            if day is days[-1] or (isinstance(error, PrecisionUnavailable) and len(job.models) > 1):
                raise  # the models are run one by one then
            log.warning("%s left out: %s (%s)", day, error, error.hint)
            left_out.append(error.exit_code)
    was_stopped = any(report.stopped for reports in by_day for report in reports)
    ended_early = bool(stop.exit_code) or was_stopped or limits.images_left([reports[0] for reports in by_day]) == 0
    return [_result(job, days, list(reports), left_out, ended_early) for reports in zip(*by_day, strict=True)]


def _result(
    job: Job, days: Sequence[Day], reports: list[RunReport], left_out: list[int], ended_early: bool
) -> ModelResult:
    last, with_reconnect = reports[-1], job.project.database.with_reconnect
    states = DayStates(job.project.day_queries, job.project.run_store, job.max_rejected)
    older = with_reconnect(lambda: job.project.day_queries.find_older_pending(days[0], last.model_id))
    day_state = with_reconnect(lambda: states.read(days[-1], last.model, last.model_id, last.day))
    exit_code = most_severe(left_out + [report.exit_code for report in reports])
    rest = _forecast_rest(job, days, reports) if ended_early else None
    return ModelResult(reports, older, rest, exit_code, day_state)


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
