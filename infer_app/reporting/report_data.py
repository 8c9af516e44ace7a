"""The data of a report, gathered from the database: aggregates and a few rows, independent of the number of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from infer_app import __version__
from infer_app.database.queries.day_queries import DayQueries
from infer_app.database.queries.figures import Figures, RejectedImage, ScoredImage
from infer_app.day import Day
from infer_app.domain import DayCounts, RunReport
from infer_app.locations import shown
from infer_app.reporting.advice import Before, Change, Situation, Step, changes, has_too_many_rejected, steps
from infer_app.reporting.drift import Drift, MovedLabel, drift, moved_labels
from infer_app.reporting.run_figures import RunFigures, day_summary_line, run_figures, run_report
from infer_app.reporting.timeline import Timeline

NUM_RUNS = 30
NUM_LABELS = 200  # kept per day; the page shows fewer
NUM_MOVED = 8
NUM_SHOWN = 16  # least confident images, and as many most confident ones
NUM_REJECTED = 6  # of each reason
NUM_BUCKETS = 20


@dataclass(frozen=True, slots=True)
class LabelCount:
    """A label's count and its share of the predictions."""

    label: str
    count: int
    share: float  # of the day's predictions with a label, 0-1
    share_7: float | None  # of the seven days before; None if they have no predictions
    share_28: float | None


@dataclass(frozen=True, slots=True)
class Labels:
    """A day's labels, compared with the 7 and the 28 days before it."""

    num_labels: int
    most: tuple[LabelCount, ...]  # the most frequent first
    drift_7: Drift | None
    drift_28: Drift | None
    moved: tuple[MovedLabel, ...]  # since the seven days before


@dataclass(frozen=True, slots=True)
class Scores:
    """A histogram of scores."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]  # counts[i] scores lie in [edges[i], edges[i + 1])


@dataclass(frozen=True, slots=True)
class DayReport:
    """The report of one day and model. Keys of its JSON may be added, but are never renamed."""

    date: date
    time_zone: str
    model: str
    model_id: str
    output: str  # classification, embedding, regression or raw; empty for a model that never ran
    made_at: str  # ISO 8601, UTC
    state: str  # good, attention or failed
    verdict: str
    counts: DayCounts
    problems: tuple[str, ...]  # inconsistencies in the day's counts
    older_pending: int
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    run: RunFigures | None  # the last run of the day that selected images
    speed: RunReport | None  # of the same run
    reasons: dict[str, int]
    rejected: tuple[RejectedImage, ...]  # some of each reason
    labels: Labels | None
    scores: Scores | None
    least: tuple[ScoredImage, ...]
    most: tuple[ScoredImage, ...]
    runs: tuple[RunFigures, ...]  # up to the day, oldest first
    infer_app: str  # version that wrote the report
    timeline: Timeline | None = None

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        for image in (*found["rejected"], *found["least"], *found["most"]):
            image["location"] = shown(image["location"])
        return found


def gather(
    day_queries: DayQueries,
    figures: Figures,
    day: Day,
    model: str,
    model_id: str,
    max_rejected: str,
    timeline: Timeline | None = None,
) -> DayReport:
    """Read the data of one day's report from the database."""
    counts = day_queries.count_day(day, model_id)
    todays = figures.runs_of_day(day.date)
    main = next((row for row in todays if row["selected"]), todays[0] if todays else None)
    run, speed = (run_figures(main), run_report(main, counts)) if main else (None, None)
    last = run_figures(todays[0]) if todays else None
    runs = [run_figures(row) for row in figures.last_runs(model, day.date, NUM_RUNS)]
    labels = gather_labels(figures, day)
    moved = labels.drift_7 if labels else None
    reasons = figures.count_reasons(day)
    older = day_queries.find_older_pending(day, model_id)
    situation = Situation(
        date=day.date,
        model=model,
        counts=counts,
        problems=day_queries.find_problems(day, model_id),
        older_pending=older.num_images if older else 0,
        older_days=(older.first, older.last) if older else None,
        reasons=reasons,
        last=last,
        advice=speed.advice if speed else None,
        labels_moved=moved is not None and moved.is_notable,
        too_many_rejected=has_too_many_rejected(counts, last, max_rejected),
    )
    return DayReport(
        date=day.date,
        time_zone=day.zone,
        model=model,
        model_id=model_id,
        output=figures.manifest().get("output", {}).get("kind", ""),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        state=situation.state,
        verdict=day_summary_line(day.date, counts, speed, last),
        counts=counts,
        problems=tuple(situation.problems),
        older_pending=situation.older_pending,
        changes=changes(counts, run, gather_before(figures, day, runs), moved),
        steps=steps(situation),
        run=run,
        speed=speed,
        reasons=reasons,
        rejected=tuple(one for reason in reasons for one in figures.some_rejected(day, reason, NUM_REJECTED)),
        labels=labels,
        scores=gather_scores(figures, day),
        least=tuple(figures.extremes(day, NUM_SHOWN, highest=False)),
        most=tuple(figures.extremes(day, NUM_SHOWN, highest=True)),
        runs=tuple(reversed(runs)),
        infer_app=__version__,
        timeline=timeline,
    )


def days_before(day: Day, num_days: int) -> Day:
    """Return the days before the day as one interval, which ends where the day starts."""
    return replace(day, start=day.before(num_days).start, end=day.start)


def gather_labels(figures: Figures, day: Day) -> Labels | None:
    """Return the day's labels; None for a model without labels and for a day without predictions."""
    today = figures.count_labels(day)
    if not today:
        return None
    week, month = (figures.count_labels(days_before(day, num_days)) for num_days in (7, 28))
    sums = [sum(counts.values()) for counts in (today, week, month)]
    most = [
        LabelCount(
            label,
            count,
            count / sums[0],
            week.get(label, 0) / sums[1] if sums[1] else None,
            month.get(label, 0) / sums[2] if sums[2] else None,
        )
        for label, count in list(today.items())[:NUM_LABELS]
    ]
    return Labels(
        len(today), tuple(most), drift(today, week), drift(today, month), moved_labels(today, week, NUM_MOVED)
    )


def gather_scores(figures: Figures, day: Day) -> Scores | None:
    """Return the histogram of scores, from 0 to 1 if all lie there, otherwise from the lowest to the highest."""
    found = figures.score_range(day)
    if found is None:
        return None
    low, high = (0.0, 1.0) if found[0] >= 0 and found[1] <= 1 else found
    width = (high - low) / NUM_BUCKETS or 1.0
    edges = tuple(low + n * width for n in range(NUM_BUCKETS + 1))
    return Scores(edges, tuple(figures.count_scores(day, edges)))


def gather_before(figures: Figures, day: Day, runs: Sequence[RunFigures]) -> Before:
    week = days_before(day, 7)
    images = [figures.count_images(day.before(n)) for n in range(1, 8)]
    return Before(
        images=[count for count in images if count],
        predicted=figures.count_predicted(week),
        rejected=sum(figures.count_reasons(week).values()),
        runs=[run for run in runs if run.day < day.date and run.state == "done"],
    )
