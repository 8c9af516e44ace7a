"""What `infer run` has to say at its end: to people, and as one JSON object."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from infer_app.day import Day
from infer_app.domain import RunReport
from infer_app.errors import InferError
from infer_app.telemetry.metrics import ModelOutcome
from infer_app.telemetry.summary_line import Forecast, node_costs, speed, stage_costs, summary_line

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much is said, and in which form."""

    quiet: bool
    verbose: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one of several models was not run."""

    model: str
    error: InferError

    @property
    def exit_code(self) -> int:
        return self.error.exit_code

    @property
    def outcome(self) -> ModelOutcome:
        return ModelOutcome(self.model, self.exit_code)

    def to_json(self) -> dict[str, Any]:
        told = {"error": str(self.error), "hint": self.error.hint}
        return {"model": self.model, "exit_code": self.exit_code} | told


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What a run has to say of one model."""

    reports: list[RunReport]  # of each day that was run, oldest first
    older: int  # pending images of days before those
    rest: Forecast | None  # of what an early end left undone
    exit_code: int

    @property
    def last(self) -> RunReport:
        return self.reports[-1]

    @property
    def outcome(self) -> ModelOutcome:
        return ModelOutcome(self.last.model, self.exit_code, self.reports, self.older)

    def to_json(self) -> dict[str, Any]:
        more = {
            "exit_code": self.exit_code,
            "lookback": [report.to_json() for report in self.reports[:-1]],
            "older_pending": self.older,
            "forecast": asdict(self.rest) if self.rest else None,
        }
        return self.last.to_json() | more


def in_json(answers: Sequence[ModelResult], failures: Sequence[Failure], exit_code: int) -> dict[str, Any]:
    models = [answer.to_json() for answer in answers] + [failure.to_json() for failure in failures]
    several = {"models": models} if len(models) > 1 else {}
    return answers[0].to_json() | {"exit_code": exit_code} | several


def print_summary(
    answers: list[ModelResult],
    failures: list[Failure],
    days: Sequence[Day],
    nearest: date | None,
    exit_code: int,
    told: dict[str, Any],
    verbosity: Verbosity,
) -> None:
    for failure in failures:
        log.error("%s was not run: %s (%s)", failure.model, failure.error, failure.error.hint)
    if verbosity.as_json:
        print(json.dumps(told))
        return
    if verbosity.quiet and exit_code == 0:
        return
    for answer in answers:
        if len(answers) + len(failures) > 1:
            print(f"{answer.last.model}:")
        _say_answer(answer, days, nearest)


def _say_answer(answer: ModelResult, days: Sequence[Day], nearest: date | None) -> None:
    last = answer.last
    for report in answer.reports[:-1]:
        if report.selected or report.day.pending:
            print(summary_line(report))
    if last.reasons:
        print("rejected: " + ", ".join(f"{count:,} {reason}" for reason, count in last.reasons.items()))
    if answer.older:
        print(
            f"{answer.older:,} images older than the look-back are pending: "
            "`infer backfill --from … --to …` predicts them"
        )
    if last.selected:
        _say_costs(last)
    elif not last.day.eligible:
        what = f"no images on {days[-1]}; the nearest day that has any is {nearest}"
        print(what if nearest else "there are no images at all")
    if answer.rest:
        print(f"if it goes on now: {answer.rest.told(_now())}")
    print(summary_line(last))


def _say_costs(report: RunReport) -> None:
    print(stage_costs(report))
    for node, told in node_costs(report).items():
        print(f"{node}: {told}")
    if report.advice:
        print(f"measured here: {report.advice}")


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def print_dry_run_summary(reports: Sequence[RunReport], rest: Forecast, is_one_of_several: bool) -> None:
    first = reports[0]
    if is_one_of_several:
        print(f"{' and '.join(report.model for report in reports)}:")
    if first.selected:
        _say_costs(first)
    for report in reports if first.selected else ():
        name = f"{report.model}: " if len(reports) > 1 else ""
        counts = f"{report.predicted:,} would be predicted, {report.rejected:,} rejected"
        print(f"dry run, nothing written: {name}{counts} · {speed(report)}")
    print(rest.told(_now()))
