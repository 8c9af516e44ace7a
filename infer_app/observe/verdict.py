"""The line a run ends with."""

from __future__ import annotations

from datetime import date

from infer_app.observe.stages import name_the_limit
from infer_app.records import DayCounts, RunReport


def verdict(report: RunReport) -> str:
    """`19 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending · 46 min · 94 % of the limit · the model limits`."""
    parts = [f"{short_date(report.date)}: {balance(report.day)}"]
    if not report.selected:
        nothing = "no images" if not report.day.eligible else "nothing done" if report.day.pending else "nothing new"
        return " · ".join([*parts, nothing])
    parts.append(duration(report.seconds))
    if report.steady_images_per_second is None or report.limit_images_per_second is None:
        return " · ".join([*parts, "too few images to judge the speed"])
    parts.append(f"{100 * report.steady_images_per_second / report.limit_images_per_second:.0f} % of the limit")
    parts.append(name_the_limit(report.stages))
    return " · ".join(parts)


def balance(counts: DayCounts) -> str:
    sign = "=" if counts.balanced else "≠"
    return (
        f"{counts.eligible:,} {sign} {counts.predicted:,} predicted"
        f" + {counts.rejected:,} rejected + {counts.pending:,} pending"
    )


def stage_costs(report: RunReport) -> str:
    """`CPU ms per image: decode 1.7, model 14.1 …; limit 120 images/s, reached 113`."""
    costs = ", ".join(f"{stage} {ms:.2f}" for stage, ms in report.stages.items() if ms >= 0.005)
    limit = f"{report.limit_images_per_second:,.0f}" if report.limit_images_per_second else "unknown"
    steady = report.steady_images_per_second
    reached = f"{report.images_per_second:,.0f}" + (f", {steady:,.0f} once the workers ran" if steady else "")
    return f"CPU ms per image: {costs}; limit {limit} images/s, reached {reached}"


def short_date(day: date) -> str:
    return f"{day.day} {day:%b}"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
