"""`infer run` and `infer backfill`: opens the job, runs the days, says how they ended."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from infer_app.cli.run.notifications import RunSession, notifying
from infer_app.cli.run.run_output import Failure, ModelResult, Verbosity, in_json, print_dry_run_summary, print_summary
from infer_app.cli.terminal.failures import heard
from infer_app.day import Day, each_date, parse_date
from infer_app.domain import RunReport
from infer_app.errors import SIGNALLED, DayHeld, Interrupted, ModelError, NothingAllowed, gravest
from infer_app.pipeline.job import Job, choose_artifacts, group_by_pixels, open_job
from infer_app.pipeline.run_day import dry_run, run_day
from infer_app.pipeline.stop import Stop, seconds_until
from infer_app.settings.load import Flags, LoadedSettings, load_settings
from infer_app.telemetry.log import bind, log_to_stderr
from infer_app.telemetry.metrics import ModelOutcome
from infer_app.telemetry.progress import Progress
from infer_app.telemetry.summary_line import Forecast, forecast
from infer_app.telemetry.trace import Trace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends early."""

    images: int | None
    finish_by: str | None
    max_duration_s: float | None

    def left(self, reports: Sequence[RunReport]) -> int | None:
        """Images that may still be taken; the limit is that of all days, for each model."""
        return None if self.images is None else self.images - sum(report.selected for report in reports)

    def stop(self) -> Stop:
        given = [self.max_duration_s] if self.max_duration_s is not None else []
        if self.finish_by is not None:
            given.append(seconds_until(self.finish_by))
        return Stop(min(given, default=None))


def run(
    date_text: str,
    flags: Flags,
    limits: Limits,
    verbosity: Verbosity,
    is_dry: bool,
    config: Path | None,
    trace: Path | None = None,
) -> int:
    """One day and its look-back, oldest first; returns the exit code."""
    loaded = _load(config, flags, verbosity)
    settings = loaded.run
    with notifying(loaded, notify=not is_dry) as session:
        day = Day.of(parse_date(date_text, settings.time_zone), settings.time_zone)
        days = [day.before(n) for n in range(settings.lookback, -1, -1)]
        with Trace(trace) if trace else nullcontext() as traced:
            if is_dry:
                return _dry_run(loaded, days, limits, verbosity, traced)
            return _run_days(loaded, days, limits, verbosity, session, traced)


def backfill(first: str, last: str, flags: Flags, limits: Limits, verbosity: Verbosity, config: Path | None) -> int:
    """Every day of the range, oldest first; returns the gravest exit code."""
    loaded = _load(config, flags, verbosity)
    zone = loaded.run.time_zone
    dates = each_date(parse_date(first, zone), parse_date(last, zone))
    with notifying(loaded, notify=False) as session:
        return _run_days(loaded, [Day.of(one, zone) for one in dates], limits, verbosity, session)


def _load(config: Path | None, flags: Flags, verbosity: Verbosity) -> LoadedSettings:
    """The settings, and a log as they want it: wrong settings too are told in the form that was asked for outside."""
    asked = flags.get("log", {}).get("format") or os.environ.get("INFER_LOG__FORMAT", "text")
    log_to_stderr(asked, verbosity.quiet, verbosity.verbose)
    loaded = load_settings(config, flags)
    log_to_stderr(loaded.log.format, verbosity.quiet, verbosity.verbose)
    return loaded


def _run_days(
    loaded: LoadedSettings,
    days: Sequence[Day],
    limits: Limits,
    verbosity: Verbosity,
    session: RunSession,
    trace: Trace | None = None,
) -> int:
    """Models that take the same pixels together, the others after them, also where one can't run or is held."""
    artifacts = choose_artifacts(loaded)
    session.begins(days, [artifact.manifest.name for artifact in artifacts], loaded.shown_url)
    answers: list[ModelResult] = []
    failures: list[Failure] = []
    nearest: date | None = None
    left = deque(group_by_pixels(artifacts))
    with limits.stop() as stop:
        while left and not stop.exit_code:
            artifacts = left.popleft()
            bind(model=", ".join(artifact.manifest.name for artifact in artifacts))
            try:
                with open_job(loaded, artifacts, trace=trace is not None) as job:
                    answers += _run_job(job, days, limits, stop, Progress(verbosity.quiet), trace)
                    nearest = _nearest_date(job, days[-1]) if not answers[-1].last.day.eligible else None
            except (DayHeld, ModelError) as error:
                if len(artifacts) > 1:  # whichever it is, the others do without it
                    left.extendleft([artifact] for artifact in reversed(artifacts))
                else:
                    failures.append(Failure(artifacts[0].manifest.name, error))
    not_begun = [artifact.manifest.name for artifacts in left for artifact in artifacts]
    if not_begun:
        log.warning("not begun: %s", ", ".join(not_begun))
    if not answers and failures:
        raise failures[0].error
    if not answers:  # the signal came before the first of them
        raise Interrupted(stop.exit_code - SIGNALLED)
    exit_code = gravest([answer.exit_code for answer in answers] + [failure.exit_code for failure in failures])
    told = in_json(answers, failures, exit_code)
    outcomes = [answer.outcome for answer in answers] + [failure.outcome for failure in failures]
    outcomes += [ModelOutcome(name, stop.exit_code) for name in not_begun]
    session.ended(told, outcomes, exit_code)
    bind(model=", ".join(session.models))
    with heard(sys.stdout):  # at once: others are told next, which may take seconds
        print_summary(answers, failures, days, nearest, exit_code, told, verbosity)
    return exit_code


def _run_job(
    job: Job, days: Sequence[Day], limits: Limits, stop: Stop, progress: Progress, trace: Trace | None
) -> list[ModelResult]:
    by_day: list[list[RunReport]] = []
    left_out: list[int] = []
    for day in days:
        try:
            left = limits.left([reports[0] for reports in by_day])
            with job.for_day(day) as todays:
                by_day.append(run_day(todays, day, stop, progress, left, trace))
        except (DayHeld, NothingAllowed) as error:
            if day is days[-1]:
                raise
            log.warning("%s left out: %s (%s)", day, error, error.hint)
            left_out.append(error.exit_code)
    was_stopped = any(report.stopped for reports in by_day for report in reports)
    ended_early = bool(stop.exit_code) or was_stopped or limits.left([reports[0] for reports in by_day]) == 0
    return [_answer(job, days, list(reports), left_out, ended_early) for reports in zip(*by_day, strict=True)]


def _nearest_date(job: Job, day: Day) -> date | None:
    return job.project.source.database.with_reconnect(lambda: job.project.source.nearest_date(day))


def _answer(
    job: Job, days: Sequence[Day], reports: list[RunReport], left_out: list[int], ended_early: bool
) -> ModelResult:
    model_id = reports[-1].model_id
    older = job.project.database.with_reconnect(lambda: job.project.day_queries.count_older_pending(days[0], model_id))
    exit_code = gravest(left_out + [report.exit_code for report in reports])
    return ModelResult(reports, older, _forecast_rest(job, days, reports) if ended_early else None, exit_code)


def _forecast_rest(job: Job, days: Sequence[Day], reports: Sequence[RunReport]) -> Forecast | None:
    """How long a run would take for what this one has left undone; by the day of it that says most about speed."""
    day_queries, model_id = job.project.day_queries, reports[-1].model_id
    pending = job.project.database.with_reconnect(lambda: sum(day_queries.count_new(day, model_id) for day in days))
    return forecast(max(reports, key=lambda report: report.selected), pending) if pending else None


def _dry_run(
    loaded: LoadedSettings, days: Sequence[Day], limits: Limits, verbosity: Verbosity, trace: Trace | None
) -> int:
    rehearsed: list[tuple[list[RunReport], Forecast]] = []
    with limits.stop() as stop:
        for artifacts in group_by_pixels(choose_artifacts(loaded)):
            with open_job(loaded, artifacts, read_only=True, trace=trace is not None) as job:
                reports = dry_run(job, days, stop, Progress(verbosity.quiet), limits.images, trace)
                rehearsed.append((reports, forecast(reports[0], _pending(job, days))))
    told = [
        report.to_json() | {"dry_run": True, "forecast": asdict(rest)}
        for reports, rest in rehearsed
        for report in reports
    ]
    exit_code = gravest([report.exit_code for reports, _ in rehearsed for report in reports])
    if verbosity.as_json:
        several = {"models": told} if len(told) > 1 else {}
        print(json.dumps(told[0] | {"exit_code": exit_code} | several))
        return exit_code
    for reports, rest in rehearsed:
        print_dry_run_summary(reports, rest, len(rehearsed) > 1)
    return exit_code


def _pending(job: Job, days: Sequence[Day]) -> int:
    """Images that this run and a backfill of the days before would do for at least one of the models."""
    day_queries = job.project.day_queries
    older = max(day_queries.count_older_pending(days[0], model_id) for model_id in job.model_ids)
    return sum(day_queries.count_new(day, *job.model_ids) for day in days) + older
