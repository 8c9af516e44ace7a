"""Decide from figures alone what has changed since the days before, and what to do about a day."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import mean, median

from infer_app.ask.drift import SURE, Drift, z_score
from infer_app.ask.next_run import backfill_command
from infer_app.ask.run_figures import RunFigures, count_nearly_black
from infer_app.base.domain import DECODER_MODULES, Reason, ReasonClass
from infer_app.base.errors import EXIT_TOO_MANY_REJECTED
from infer_app.base.packages import install, retried_reasons
from infer_app.base.printing import counted, named, percent, printed_options
from infer_app.base.run_report import DayCounts, DayState
from infer_app.base.telemetry.summary_line import describe_missing, describe_nearly_black, describe_replaced
from infer_app.tables.listing.watched_images import UNCHANGED, ChangedCounts
from infer_app.tables.queries.day_state import DayFacts, is_unusual

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
class Step:
    """Something to do, with the command that does it or shows details."""

    what: str
    command: str | None = None
    takes_model: bool = True  # the command has --model

    def of(self, names: Sequence[str]) -> "Step":
        """Return the step as it is told of these models; without names of all, whose names no command needs."""
        options = printed_options(*(names if len(names) == 1 and self.takes_model else ()))
        return replace(self, what=named(self.what, names), command=self.command and self.command + options)


@dataclass(frozen=True, slots=True)
class Before:
    """Figures of the seven days before the day."""

    images: Sequence[int]  # of each day
    predicted: int
    rejected: int
    runs: Sequence[RunFigures]  # earlier runs, newest first


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that the steps are decided by."""

    date: date
    facts: DayFacts
    day_state: DayState
    reasons: dict[str, int]
    changed: ChangedCounts = UNCHANGED  # of the day


def changes(counts: DayCounts, run: RunFigures | None, before: Before, drift: Drift | None) -> tuple[Change, ...]:
    """Return the changes of all figures that are known for the day and for the days before."""
    found = [_images(counts, before), _rejected(counts, before), _rate(run, before), _labels(drift)]
    return tuple(change for change in [*found, *_environment_changes(run, before.runs)] if change)


def steps(situation: Situation) -> tuple[Step, ...]:
    """Return what to do about a model, the most urgent first; empty if nothing is wrong. Its commands name no model."""
    return tuple(_steps(situation))


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


def _steps(of: Situation) -> Iterator[Step]:
    options = f"--date {of.date}"
    rejected = f"infer list --state rejected {options}"
    facts, last, num_pending = of.facts, of.facts.last_run, of.facts.counts.pending
    pending = f"{counted(num_pending, 'image')} {'is' if num_pending == 1 else 'are'} pending"
    if facts.problems:
        yield Step(f"The counts do not add up: {facts.problems[0]}", f"infer verify {options}")
    if last and last["state"] == "failed":
        text = f"The last run failed: {last['error'] or 'the reason is unknown'}"
        yield Step(text, "infer doctor", False)
    if facts.gap:
        yield Step(facts.gap[0].upper() + facts.gap[1:])
    if num_pending and of.day_state.state == "running":
        yield Step(f"{pending}; a run is in progress", "infer status", False)
    elif num_pending:
        yield Step(f"{pending}: run the day again", f"infer run {options}")
    if older := facts.older:
        what = "1 image of an earlier day is" if older.num_images == 1 else f"{older.num_images:,} of earlier days are"
        yield Step(f"{what} pending", backfill_command(older.first, older.last, ""))
    if of.changed.replaced:
        yield Step(describe_replaced(of.changed.replaced))
    if of.changed.missing:
        yield Step(describe_missing(of.changed.missing))
    if last and last["error"] and last["exit_code"] == EXIT_TOO_MANY_REJECTED:
        yield Step(f"The last run stopped: {last['error']}")
    elif of.day_state.exit_code == EXIT_TOO_MANY_REJECTED:
        yield Step("More images were rejected than --max-rejected allows: see why", rejected)
    elif of.reasons:
        yield Step("; ".join(_about_rejections(of)), rejected)
    if nearly_black := count_nearly_black(facts.runs):
        yield Step(describe_nearly_black(nearly_black))
    if facts.labels_moved:
        yield Step("The labels have changed by more than chance: check the labels and photos below")


def _about_rejections(of: Situation) -> Iterator[str]:
    helps = {reason.value: _HELPS[reason.of] for reason in Reason}
    helps |= dict.fromkeys(DECODER_MODULES, f"want of a decoder: `{install('heic')}`, then run again")
    helps |= dict.fromkeys(retried_reasons(), "now: the next run retries them")
    found = defaultdict[str, list[str]](list)
    for reason in of.reasons:
        found[helps.get(reason, _HELPS[ReasonClass.CONTENT])].append(reason)
    for what, its in found.items():
        retry = f"infer retry --date {of.date}{printed_options()} --reason {' --reason '.join(its)}"
        yield f"{sum(of.reasons[reason] for reason in its):,} rejected for {what.replace('RETRY', retry)}"


_HELPS = {
    ReasonClass.CONTENT: "content: fix or remove the files",
    ReasonClass.MODEL: "the model: correct it, or run `RETRY`",
    ReasonClass.SETTING: "a setting: correct the images, or change it and run `RETRY`",
    ReasonClass.STORAGE: "the storage: run `RETRY`",
}
