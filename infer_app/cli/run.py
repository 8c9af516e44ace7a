"""`infer run` and `infer backfill`: opens the job, runs the days, says how they ended."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infer_app.day import Day, each_date, parse_date
from infer_app.errors import DayHeld, NothingAllowed, gravest
from infer_app.job import Job, open_job
from infer_app.observe.forecast import Forecast, forecast
from infer_app.observe.log import log_to_stderr
from infer_app.observe.progress import Progress
from infer_app.observe.trace import Trace
from infer_app.observe.verdict import speed, stage_costs, verdict
from infer_app.records import RunReport
from infer_app.run import dry_run, run_day
from infer_app.settings import LoadedSettings, load_settings
from infer_app.stop import Stop, seconds_until

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends early."""

    images: int | None
    finish_by: str | None
    max_duration_s: float | None

    def left(self, reports: Sequence[RunReport]) -> int | None:
        """Images that may still be taken; the limit is that of the whole command."""
        return None if self.images is None else self.images - sum(report.selected for report in reports)

    def stop(self) -> Stop:
        given = [self.max_duration_s] if self.max_duration_s is not None else []
        if self.finish_by is not None:
            given.append(seconds_until(self.finish_by))
        return Stop(min(given, default=None))


@dataclass(frozen=True, slots=True)
class Voice:
    """How much is said, and in which form."""

    quiet: bool
    verbose: bool
    as_json: bool


def run_flags(
    model: str | None,
    lookback: int | None,
    max_rejected: str | None,
    executor: str | None,
    device: str | None,
    variant: str | None,
    workers: int | None,
    allow_int8: bool | None = None,
) -> dict[str, Any]:
    """Flags as settings; None leaves the setting alone."""
    return {
        "run.model": model,
        "run.lookback": lookback,
        "run.max_rejected": max_rejected,
        "run.executor": executor,
        "run.device": device,
        "run.variant": variant,
        "run.workers": workers,
        "run.allow_int8": allow_int8,
    }


def run(
    date: str,
    flags: dict[str, Any],
    limits: Limits,
    voice: Voice,
    is_dry: bool,
    config: Path | None,
    trace: Path | None = None,
) -> int:
    """One day and its look-back, oldest first; returns the exit code."""
    loaded = load_settings(config, flags)
    settings = loaded.settings.run
    day = Day.of(parse_date(date, settings.time_zone), settings.time_zone)
    days = [day.before(n) for n in range(settings.lookback, -1, -1)]
    with Trace(trace) if trace else nullcontext() as traced:
        if is_dry:
            return _dry_run(loaded, days, limits, voice, traced)
        return _run_days(loaded, days, limits, voice, traced)


def backfill(first: str, last: str, flags: dict[str, Any], limits: Limits, voice: Voice, config: Path | None) -> int:
    """Every day of the range, oldest first; returns the gravest exit code."""
    loaded = load_settings(config, flags)
    zone = loaded.settings.run.time_zone
    dates = each_date(parse_date(first, zone), parse_date(last, zone))
    return _run_days(loaded, [Day.of(date, zone) for date in dates], limits, voice)


def _run_days(
    loaded: LoadedSettings, days: Sequence[Day], limits: Limits, voice: Voice, trace: Trace | None = None
) -> int:
    log_to_stderr(voice.quiet, voice.verbose)
    reports: list[RunReport] = []
    exit_codes: list[int] = []
    with limits.stop() as stop, open_job(loaded, trace=trace is not None) as job:
        progress = Progress(voice.quiet)
        for day in days:
            try:
                reports.append(run_day(job.for_day(day), day, stop, progress, limits.left(reports), trace))
            except (DayHeld, NothingAllowed) as error:
                if day is days[-1]:
                    raise
                log.warning("%s left out: %s (%s)", day, error, error.hint)
                exit_codes.append(error.exit_code)
        older = job.tables.books.count_older_pending(days[0], job.model.model_id)
        exit_code = gravest(exit_codes + [report.exit_code for report in reports])
        ended_early = stop.exit_code or limits.left(reports) == 0
        _say(job, days, reports, older, _forecast_rest(job, days, reports) if ended_early else None, exit_code, voice)
    return exit_code


def _forecast_rest(job: Job, days: Sequence[Day], reports: Sequence[RunReport]) -> Forecast | None:
    """How long a run would take for what this one has left undone; by the day of it that says most about speed."""
    pending = sum(job.tables.books.count_new(day, job.model.model_id) for day in days)
    return forecast(max(reports, key=lambda report: report.selected), pending) if pending else None


def _say(
    job: Job,
    days: Sequence[Day],
    reports: list[RunReport],
    older: int,
    rest: Forecast | None,
    exit_code: int,
    voice: Voice,
) -> None:
    last = reports[-1]
    if voice.as_json:
        others = [report.to_json() for report in reports[:-1]]
        more = {"lookback": others, "older_pending": older, "forecast": asdict(rest) if rest else None}
        print(json.dumps(last.to_json() | {"exit_code": exit_code} | more))
        return
    if voice.quiet and exit_code == 0:
        return
    for report in reports[:-1]:
        if report.selected or report.day.pending:
            print(verdict(report))
    if last.reasons:
        print("rejected: " + ", ".join(f"{count:,} {reason}" for reason, count in last.reasons.items()))
    if older:
        print(f"{older:,} images older than the look-back are pending: `infer backfill --from … --to …` predicts them")
    if last.selected:
        _say_costs(last)
    elif not last.day.eligible:
        _name_nearest(job, days[-1])
    if rest:
        print(f"if it goes on now: {rest.told(_now())}")
    print(verdict(last))


def _say_costs(report: RunReport) -> None:
    print(stage_costs(report))
    if report.advice:
        print(f"measured here: {report.advice}")


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def _name_nearest(job: Job, day: Day) -> None:
    nearest = job.tables.source.nearest_date(day)
    print(f"no images on {day}; the nearest day that has any is {nearest}" if nearest else "there are no images at all")


def _dry_run(loaded: LoadedSettings, days: Sequence[Day], limits: Limits, voice: Voice, trace: Trace | None) -> int:
    log_to_stderr(voice.quiet, voice.verbose)
    with ExitStack() as stack:
        stop = stack.enter_context(limits.stop())
        job = stack.enter_context(open_job(loaded, read_only=True, trace=trace is not None))
        report = dry_run(job, days, stop, Progress(voice.quiet), limits.images, trace)
        books, model_id = job.tables.books, job.model.model_id
        pending = sum(books.count_new(day, model_id) for day in days) + books.count_older_pending(days[0], model_id)
    rest = forecast(report, pending)
    if voice.as_json:
        print(json.dumps(report.to_json() | {"dry_run": True, "forecast": asdict(rest)}))
        return report.exit_code
    if report.selected:
        _say_costs(report)
        counts = f"{report.predicted:,} would be predicted, {report.rejected:,} rejected"
        print(f"dry run, nothing written: {counts} · {speed(report)}")
    print(rest.told(_now()))
    return report.exit_code
