"""The last line of a run, and the other texts about its counts, costs and expected duration."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date, datetime, timedelta

from infer_app.base.errors import EXIT_TOO_MANY_REJECTED
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import counted, shown_rate
from infer_app.base.run_report import LEVELS, DayCounts, RunReport, Verdict
from infer_app.base.telemetry.bottleneck import MIN_TAKEN, display_name, taken_by_others


def summary_line(report: RunReport) -> str:
    """Return the last line of a run.

    `19 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending · 46 min · 94 % of the limit; bottleneck: model`,
    and after `pending` what it was computed in unless that is fp32.
    """
    return " · ".join(summary_parts(report))


def summary_parts(report: RunReport) -> list[str]:
    """Return the parts of the last line, first the counts."""
    parts = [f"{short_date(report.date)}: {balance(report.day)}"]
    if not report.selected:
        return [
            *parts,
            "no images" if not report.day.eligible else "nothing done" if report.day.pending else "nothing new",
        ]
    variant = variant_of(report.variant)
    if report.exit_code == EXIT_TOO_MANY_REJECTED:
        parts.append("too many rejected or failed" if report.stopped else "too many rejected")
    parts += [str(report.objects)] if report.objects else []
    parts += [] if variant.is_exact else [variant.words]
    return [*parts, duration(report.seconds), speed(report)]


def late_line(reports: Sequence[RunReport]) -> str:
    """Return `registered late, 2026-10-27 to 2026-11-02: 500 = 498 predicted + 2 rejected + 0 pending`."""
    first, last = reports[0].date, reports[-1].date
    days = str(first) if first == last else f"{first} to {last}"
    counts = [sum(values) for values in zip(*(astuple(report.day) for report in reports), strict=True)]
    return f"registered late, {days}: {balance(DayCounts(*counts))}"


def speed(report: RunReport) -> str:
    """Return `94 % of the limit; bottleneck: model`."""
    if report.share_of_limit is None or report.bottleneck is None:
        return "too few images to judge the speed"
    return f"{100 * report.share_of_limit:.0f} % of the limit; bottleneck: {display_name(report.bottleneck)}"


def balance(counts: DayCounts) -> str:
    sign = "=" if counts.balanced else "≠"
    return (
        f"{counts.eligible:,} {sign} {counts.predicted:,} predicted"
        f" + {counts.rejected:,} rejected + {counts.pending:,} pending"
    )


def stage_costs(report: RunReport) -> str:
    """Return `CPU ms per image: decode 1.7, model 14.1 …; waiting: read 3.2; limit 120 images/s, reached 113`.

    After too few images to judge the speed, it is the costs alone.
    """
    costs = _format_ms(report.stages) or "under 0.01"
    waits = f"; waiting: {_format_ms(report.waits)}" if _format_ms(report.waits) else ""
    if report.bottleneck is None:
        return f"CPU ms per image: {costs}{waits}"
    limit = shown_rate(report.limit_images_per_second) if report.limit_images_per_second else "unknown"
    steady = report.steady_images_per_second
    reached = shown_rate(report.images_per_second) + (f", {shown_rate(steady)} once the workers ran" if steady else "")
    text = f"CPU ms per image: {costs}{waits}; limit {limit} images/s, reached {reached}"
    return "; ".join(filter(None, [text, describe_others(taken_by_others(report))]))


def node_costs(report: RunReport) -> dict[str, str]:
    """Return `120 images, 14 images/s, CPU ms per image: decode 1.7, model 14.1` for each node of a cluster."""
    return {
        node: f"{counted(one['images'], 'image')}, {shown_rate(one['images_per_second'])} images/s, CPU ms per image: "
        + _format_ms(one["stages"])
        for node, one in report.nodes.items()
    }


def describe_state(state: Verdict) -> str:
    """Return `needs attention: 12 pending`, the same text wherever a day is shown; empty if all is well."""
    return f"{LEVELS[state.level]}: {'; '.join(state.notes)}" if state.notes else ""


def describe_others(share: float) -> str:
    """Return how much of the cores' time other programs took, as text; empty if it is under a tenth."""
    return f"other programs took {100 * share:.0f} % of the cores' time" if share >= MIN_TAKEN else ""


def _format_ms(stages: Mapping[str, float]) -> str:
    """Return the milliseconds of each stage as text, without stages that round to 0."""
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
    """How long a run over the pending images would take."""

    pending: int
    seconds: float | None  # None if nothing was measured

    def describe(self, now: datetime) -> str:
        """Return `412,000 pending, 46 min, done 05:12` for a run that starts now."""
        if self.seconds is None:
            return f"{self.pending:,} pending"
        done = now + timedelta(seconds=self.seconds)
        return f"{self.pending:,} pending, {duration(self.seconds)}, done {done:%H:%M}"


def forecast(report: RunReport, pending: int) -> Forecast:
    """Estimate the duration for `pending` images from a run: its start-up and idle end, plus its steady rate.

    A run too short for a steady rate spent most of its time on start-up; its rate limit is used instead.
    """
    if not report.selected:
        return Forecast(pending, None)
    steady = report.steady_images_per_second or report.limit_images_per_second or report.images_per_second
    overhead = max(0.0, report.seconds - report.selected / steady)
    return Forecast(pending, overhead + pending / steady)
