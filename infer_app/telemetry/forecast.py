"""How long the images that are left will take, from what a run of some of them took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from infer_app.domain import RunReport
from infer_app.telemetry.summary_line import duration


@dataclass(frozen=True, slots=True)
class Forecast:
    pending: int
    seconds: float | None  # None when nothing was measured

    def told(self, now: datetime) -> str:
        """`412,000 pending, 46 min, done 05:12`, if it starts now."""
        if self.seconds is None:
            return f"{self.pending:,} pending"
        done = now + timedelta(seconds=self.seconds)
        return f"{self.pending:,} pending, {duration(self.seconds)}, done {done:%H:%M}"


def forecast(report: RunReport, pending: int) -> Forecast:
    """What the run took besides its images (starting, and the idle end), then `pending` images at its steady rate.

    A run too short to have one mostly started: then at the limit that its costs allow.
    """
    if not report.selected:
        return Forecast(pending, None)
    steady = report.steady_images_per_second or report.limit_images_per_second or report.images_per_second
    besides = max(0.0, report.seconds - report.selected / steady)
    return Forecast(pending, besides + pending / steady)
