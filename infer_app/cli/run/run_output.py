"""Print how `infer run` ended, as text or as one JSON object."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime

from infer_app.cli.terminal.options import DaysOptions
from infer_app.day import Day
from infer_app.domain import RunReport
from infer_app.pipeline.run_days import ModelResult, RunSummary
from infer_app.reporting.missing_prediction import backfill_command, model_option
from infer_app.telemetry.printable import counted
from infer_app.telemetry.summary_line import Forecast, describe_state, node_costs, speed, stage_costs, summary_line

log = logging.getLogger(__name__)


def print_summary(summary: RunSummary, days: Sequence[Day], options: DaysOptions) -> None:
    """Print the results of each model, or one JSON object; log the models that were not run."""
    for failure in summary.failures:
        log.error("%s was not run: %s (%s)", failure.name, failure.error, failure.error.hint)
    if options.as_json:
        print(json.dumps(summary.to_json()))
        return
    if options.quiet and summary.exit_code == 0:
        return
    for result in summary.results:
        if len(summary.results) + len(summary.failures) > 1:
            print(f"{result.last.model}:")
        _print_result(result, days, summary.nearest)


def _print_result(result: ModelResult, days: Sequence[Day], nearest: date | None) -> None:
    last = result.last
    for report in result.reports[:-1]:
        if report.selected or report.day.pending:
            _print_rejected(report)
            print(summary_line(report))
    _print_rejected(last)
    if older := result.older:
        command = backfill_command(older.first, older.last, model_option(last.model))
        verb = "is" if older.num_images == 1 else "are"
        print(
            f"{counted(older.num_images, 'image')} older than the look-back {verb} pending: `{command}` predicts them"
        )
    if result.day_state.notes:
        print(describe_state(result.day_state))
    if last.selected:
        _print_costs(last)
    elif not last.day.eligible:
        no_images = f"no images on {days[-1]}; the nearest day that has any is {nearest}"
        print(no_images if nearest else "there are no images at all")
    if result.rest:
        print(f"if it goes on now: {result.rest.describe(_now())}")
    print(summary_line(last))


def _print_rejected(report: RunReport) -> None:
    """Print what was rejected, with the command that lists it: the day may be one of the look-back."""
    if report.reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.reasons.items())
        print(f"rejected: {reasons}; `infer rejects --date {report.date}` lists them")


def _print_costs(report: RunReport) -> None:
    print(stage_costs(report))
    for node, costs in node_costs(report).items():
        print(f"{node}: {costs}")
    if report.advice:
        print(f"measured here: {report.advice}")


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def print_dry_run_summary(
    measured: Sequence[tuple[Sequence[RunReport], Forecast]], exit_code: int, as_json: bool
) -> None:
    """Print the reports and the forecast of each group of models, or one JSON object."""
    if as_json:
        models = [
            report.to_json() | {"dry_run": True, "forecast": asdict(rest)}
            for reports, rest in measured
            for report in reports
        ]
        several = {"models": models} if len(models) > 1 else {}
        print(json.dumps(models[0] | {"exit_code": exit_code} | several))
        return
    for reports, rest in measured:
        if len(measured) > 1:
            print(f"{' and '.join(report.model for report in reports)}:")
        if reports[0].selected:
            _print_costs(reports[0])
        for report in reports if reports[0].selected else ():
            name = f"{report.model}: " if len(reports) > 1 else ""
            counts = f"{report.predicted:,} would be predicted, {report.rejected:,} rejected"
            print(f"dry run, nothing written: {name}{counts} · {speed(report)}")
        print(rest.describe(_now()))
