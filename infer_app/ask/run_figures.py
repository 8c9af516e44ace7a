"""A run as the report shows it: its row of infer_runs."""

from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from infer_app.base.run_report import MIN_IMAGES, DayCounts, RunReport, Verdict
from infer_app.base.telemetry.bottleneck import with_bottleneck
from infer_app.base.telemetry.summary_line import balance, short_date, summary_line


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A row of infer_runs; what a failed run did not measure is None or empty."""

    run_id: str
    day: date
    started_at: datetime  # UTC, without a zone
    state: str  # running, done or failed
    exit_code: int | None
    error: str | None
    selected: int
    predicted: int
    rejected: int
    seconds: float | None
    images_per_second: float | None
    steady_images_per_second: float | None
    limit_images_per_second: float | None
    variant: str
    executor: str
    device: str
    host: str
    versions: dict[str, str]

    @property
    def rate(self) -> float | None:
        """Return the steady rate in images per second, or the overall one; None after too few images to judge it."""
        return (self.steady_images_per_second or self.images_per_second) if self.selected >= MIN_IMAGES else None


def run_figures(row: dict[str, Any]) -> RunFigures:
    known = row | {"run_id": row["id"], "steady_images_per_second": _measured(row).get("steady_images_per_second")}
    return RunFigures(**{field.name: known[field.name] for field in fields(RunFigures)})


def run_report(row: dict[str, Any], counts: DayCounts) -> RunReport:
    """Return the run's report from its row, with the present counts of the day."""
    names = {field.name for field in fields(RunReport)}
    measured = {name: value for name, value in _measured(row).items() if name in names and value is not None}
    same = {name: row[name] for name in names & row.keys() if row[name] is not None}
    return with_bottleneck(RunReport(**(same | measured | {"date": row["day"], "run_id": row["id"], "day": counts})))


def day_summary_line(
    day: date, counts: DayCounts, report: RunReport | None, last: RunFigures | None, state: Verdict
) -> str:
    """Return the last line of the day's run; if the last run failed or none ran, that replaces the speed."""
    line = f"{short_date(day)}: {balance(counts)}"
    if last is None or report is None:
        return f"{line} · {state.state if counts.eligible else 'no images'}"
    if state.state == "running":
        return f"{line} · running since {last.started_at:%H:%M} UTC"
    if state.state == "failed":
        return f"{line} · the last run failed{'' if last.exit_code is None else f' with exit code {last.exit_code}'}"
    return summary_line(report)


def _measured(row: dict[str, Any]) -> dict[str, Any]:
    return row["throughput"] or {}
