"""`infer run` and `infer backfill`: read the settings, run the days, print how they ended."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from infer_app.cli.run.notifications import RunSession, notifying
from infer_app.cli.run.run_output import Verbosity, print_dry_run_summary, print_summary
from infer_app.cli.terminal.failures import heard
from infer_app.day import Day, each_date, parse_date
from infer_app.errors import gravest
from infer_app.pipeline.job import choose_artifacts
from infer_app.pipeline.run_days import RunLimits, dry_run_days, run_days
from infer_app.settings.load import Flags, LoadedSettings, load_settings
from infer_app.telemetry.log import bind, log_to_stderr
from infer_app.telemetry.progress import Progress
from infer_app.telemetry.trace import Trace

log = logging.getLogger(__name__)


def run(
    date_text: str,
    flags: Flags,
    limits: RunLimits,
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


def backfill(first: str, last: str, flags: Flags, limits: RunLimits, verbosity: Verbosity, config: Path | None) -> int:
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
    limits: RunLimits,
    verbosity: Verbosity,
    session: RunSession,
    trace: Trace | None = None,
) -> int:
    artifacts = choose_artifacts(loaded)
    session.begins(days, [artifact.manifest.name for artifact in artifacts], loaded.shown_url)
    summary = run_days(loaded, artifacts, days, limits, Progress(verbosity.quiet), trace)
    session.ended(summary.to_json(), summary.outcomes, summary.exit_code)
    bind(model=", ".join(session.models))
    with heard(sys.stdout):  # at once: notifications are sent next, which may take seconds
        print_summary(summary, days, verbosity)
    return summary.exit_code


def _dry_run(
    loaded: LoadedSettings, days: Sequence[Day], limits: RunLimits, verbosity: Verbosity, trace: Trace | None
) -> int:
    measured = dry_run_days(loaded, choose_artifacts(loaded), days, limits, Progress(verbosity.quiet), trace)
    exit_code = gravest([report.exit_code for reports, _ in measured for report in reports])
    print_dry_run_summary(measured, exit_code, verbosity)
    return exit_code
