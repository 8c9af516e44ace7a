"""The line a run ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from infer_app.domain import DayCounts, RunReport
from infer_app.telemetry.bottleneck import in_words
from infer_app.telemetry.stage_clock import WAITING_STAGES

LITTLE = 0.1  # of the cores' time


def summary_line(report: RunReport) -> str:
    """`19 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending · 46 min · 94 % of the limit · the model limits`."""
    parts = [f"{short_date(report.date)}: {balance(report.day)}"]
    if not report.selected:
        nothing = "no images" if not report.day.eligible else "nothing done" if report.day.pending else "nothing new"
        return " · ".join([*parts, nothing])
    parts.append(duration(report.seconds))
    return " · ".join([*parts, speed(report)])


def speed(report: RunReport) -> str:
    """`94 % of the limit · the model limits`; where others took most of what is missing, they do."""
    share = report.share_of_limit
    if share is None or report.limited_by is None:
        return "too few images to judge the speed"
    others_limit = taken_by_others(report) >= max(LITTLE, (1 - share) / 2)
    return (
        f"{100 * share:.0f} % of the limit · {'other programs limit' if others_limit else in_words(report.limited_by)}"
    )


def taken_by_others(report: RunReport) -> float:
    """Share of the cores' time that the workers were ready and others ran, 0-1.

    The wall time of stages that wait for nothing but a core, beyond their CPU time; 0 where more processes than cores
    take them from each other.
    """
    busy = [stage for stage in report.walls if stage not in WAITING_STAGES]
    cpu, wall = (sum(times.get(stage, 0.0) for stage in busy) for times in (report.stages, report.walls))
    return max(0.0, 1 - cpu / wall) if wall and report.num_workers <= report.num_cores else 0.0


def balance(counts: DayCounts) -> str:
    sign = "=" if counts.balanced else "≠"
    return (
        f"{counts.eligible:,} {sign} {counts.predicted:,} predicted"
        f" + {counts.rejected:,} rejected + {counts.pending:,} pending"
    )


def stage_costs(report: RunReport) -> str:
    """`CPU ms per image: decode 1.7, model 14.1 …; waiting: read 3.2; limit 120 images/s, reached 113`."""
    costs = _in_ms(report.stages)
    waits = f"; waiting: {_in_ms(report.waits)}" if _in_ms(report.waits) else ""
    limit = f"{report.limit_images_per_second:,.0f}" if report.limit_images_per_second else "unknown"
    steady = report.steady_images_per_second
    reached = f"{report.images_per_second:,.0f}" + (f", {steady:,.0f} once the workers ran" if steady else "")
    told = f"CPU ms per image: {costs}{waits}; limit {limit} images/s, reached {reached}"
    return "; ".join(filter(None, [told, told_of_others(taken_by_others(report))]))


def node_costs(report: RunReport) -> dict[str, str]:
    """`120 images, 14 images/s, CPU ms per image: decode 1.7, model 14.1` of each node of a cluster, by name."""
    return {
        node: f"{one['images']:,} images, {one['images_per_second']:,.0f} images/s, CPU ms per image: "
        + _in_ms(one["stages"])
        for node, one in report.nodes.items()
    }


def told_of_others(share: float) -> str:
    """What other programs took of the cores' time, 0-1; nothing where it is little."""
    return f"other programs took {100 * share:.0f} % of the cores' time" if share >= LITTLE else ""


def _in_ms(stages: Mapping[str, float]) -> str:
    """Leaves out what rounds to nothing."""
    return ", ".join(f"{stage} {ms:.2f}" for stage, ms in stages.items() if ms >= 0.005)


def short_date(day: date) -> str:
    return f"{day.day} {day:%b}"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


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
