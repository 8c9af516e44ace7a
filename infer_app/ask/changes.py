"""Decide from figures alone what has changed since the days before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

from infer_app.ask.drift import SURE, Drift, z_score
from infer_app.ask.run_figures import RunFigures
from infer_app.base.printing import percent
from infer_app.base.run_report import DayCounts
from infer_app.tables.day.notices import is_unusual

NUM_RUNS = 7  # whose median rate a rate is compared with
SLOWER = 0.8  # of the median rate


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of the day beside that of the seven days before."""

    what: str
    now: str
    before: str
    is_notable: bool


@dataclass(frozen=True, slots=True)
class Before:
    """Figures of the seven days before the day."""

    images: Sequence[int]  # of each day
    predicted: int
    rejected: int
    runs: Sequence[RunFigures]  # earlier runs, newest first


def changes(counts: DayCounts, run: RunFigures | None, before: Before, drift: Drift | None) -> tuple[Change, ...]:
    """Return the changes of all figures that are known for the day and for the days before."""
    found = [_images(counts, before), _rejected(counts, before), _rate(run, before), _labels(drift)]
    return tuple(change for change in [*found, *_environment_changes(run, before.runs)] if change)


def _images(counts: DayCounts, before: Before) -> Change | None:
    known = [count for count in before.images if count]
    if not known:
        return None
    return Change("Images", f"{counts.eligible:,}", f"{mean(known):,.0f} a day", is_unusual(counts.eligible, known))


def _rejected(counts: DayCounts, before: Before) -> Change | None:
    done, done_before = counts.predicted + counts.rejected, before.predicted + before.rejected
    if not done or not done_before:
        return None
    is_notable = z_score(counts.rejected, done, before.rejected, done_before) > SURE
    return Change("Rejected", percent(counts.rejected / done), percent(before.rejected / done_before), is_notable)


def _rate(run: RunFigures | None, before: Before) -> Change | None:
    rates = [one.rate for one in before.runs if one.rate][:NUM_RUNS]
    if run is None or not run.rate or not rates:
        return None
    usual = median(rates)
    return Change("Images/s", f"{run.rate:,.0f}", f"{usual:,.0f}", run.rate < SLOWER * usual)


def _labels(drift: Drift | None) -> Change | None:
    if drift is None:
        return None
    return Change("Label drift", f"{drift.distance:.2f}", f"≤ {drift.by_chance:.2f} by chance", drift.is_notable)


def _environment_changes(run: RunFigures | None, earlier: Sequence[RunFigures]) -> Iterator[Change]:
    """Yield what differs from the environment of the previous run, which may explain the other changes."""
    if run is None or not earlier:
        return
    now, before = _environment(run), _environment(earlier[0])
    for name in sorted(now.keys() & before.keys()):
        if now[name] != before[name]:
            yield Change(name, now[name], before[name], True)


def _environment(run: RunFigures) -> dict[str, str]:
    device = {"Device": run.device} if run.device else {}  # of a run that failed before it was planned
    return {"Host": run.host, "Variant": run.variant, **device, **run.versions}
