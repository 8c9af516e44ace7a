"""The state of a day: decided here for `infer run` and its notifications, `infer status`, the report and its index."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from statistics import mean
from typing import Any

from infer_app.base.day import Day
from infer_app.base.errors import EXIT_TOO_MANY_REJECTED, most_severe
from infer_app.base.run_report import DayCounts, DayState
from infer_app.base.settings.sections import rejection_budget
from infer_app.tables.queries.day_rows import DayRows
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.pending_images import PendingDays, PendingImages, add_up
from infer_app.tables.queries.scope import Versions
from infer_app.tables.results.runs import RunStore

NUM_DAYS_BEFORE = 7  # with which a day's number of images is compared
UNUSUAL = 3.0  # standard deviations of a Poisson distribution


@dataclass(frozen=True, slots=True)
class DayFacts:
    """Everything that the state of a day is decided by."""

    counts: DayCounts
    runs: Sequence[dict[str, Any]]  # rows of infer_runs of the day, the newest first
    max_rejected: str
    asked: tuple[int, int] | None = None  # predicted and rejected images that the model was given; None: all of them
    is_running: bool = False  # the newest run is alive
    older: PendingDays | None = None  # with pending images
    images_before: Sequence[int] = ()  # of each of the days before; empty while more images may come
    problems: Sequence[str] = ()  # found by an audit of the rows, which only the report makes
    gap: str = ""  # since when no images have come, of a day without images; only the report asks
    labels_moved: bool = False  # by more than chance; only the report asks

    @property
    def last_run(self) -> dict[str, Any] | None:
        return self.runs[0] if self.runs else None


def judge_day(facts: DayFacts) -> DayState:
    """Return the state of a day. Rows take precedence: a day whose images all have results is done, whatever failed."""
    state = _state(facts)
    too_many, last = _too_many_rejected(facts), facts.last_run
    early_end = _early_end(facts)
    ended = [EXIT_TOO_MANY_REJECTED] if too_many else []
    if last is not None and last["exit_code"] is not None:
        ended.append(last["exit_code"] if last["state"] != "done" or early_end else 0)
    is_wrong = bool(facts.problems) or not facts.counts.balanced
    notes = [
        "the counts do not add up" if is_wrong else "",
        _about_failure(facts, state),
        f"too many {too_many}: exit code {EXIT_TOO_MANY_REJECTED}" if too_many else "",
        f"{facts.counts.pending:,} pending" if facts.counts.pending else "",
        f"the last run ended early: exit code {early_end}" if early_end else "",
        _about_number(facts),
        facts.gap,
        f"{facts.older.num_images:,} of earlier days pending" if facts.older else "",
        "the labels have changed" if facts.labels_moved else "",
    ]
    known = tuple(filter(None, notes))
    level = "failed" if is_wrong or state == "failed" else "attention" if known else "good"
    return DayState(state, level, most_severe(ended) if ended else None, known)


def is_unusual(num_images: int, before: Sequence[int]) -> bool:
    """Return whether a day's number of images is beyond half or twice that of every day before, and beyond chance.

    Days without images are not compared, and one day, as in a new project, tells nothing.
    """
    known = [count for count in before if count]
    if len(known) < 2 or not num_images:
        return False
    nearest = min(max(num_images, min(known)), max(known))
    is_far = not nearest / 2 <= num_images <= 2 * nearest
    return is_far and abs(num_images - nearest) > UNUSUAL * math.sqrt(nearest)


def describe_few(facts: DayFacts, day: Day) -> str:
    """Return that unusually few images came on the day; empty if not, or if none came, which `find_gap` tells."""
    if facts.counts.eligible > max(facts.images_before, default=0):
        return ""
    number = _about_number(facts)
    return number and f"{day}: {number}; does what brings them still run?"


class DayStates:
    """Reads the states of days; what several days share is counted once. Ask for the oldest day first."""

    def __init__(self, images: ListedImages, max_rejected: str) -> None:
        self._images, self._pending, self._rows = images, PendingImages(images), DayRows(images)
        self._versions = Versions(images)
        self._run_store = RunStore(images.database)
        self._max_rejected = max_rejected
        self._living: Collection[str] | None = None
        self._num_images: dict[date, int] = {}
        self._older: dict[str, tuple[Day, PendingDays | None]] = {}  # by model id
        self._before_all: dict[tuple[Day, str], PendingDays | None] = {}  # of the days that were asked about first

    def read_facts(self, day: Day, model_id: str, counts: DayCounts | None = None) -> DayFacts:
        """Read all facts but `problems`, which take longer; `counts` are those of the day's rows if they are known."""
        if self._living is None:
            self._living = self._run_store.living_runs()
        runs = self._rows.runs_of_day(day.date, model_id)
        counts = counts or self._images.count_day(day, model_id)
        may_be_too_many = counts.rejected > rejection_budget(self._max_rejected, 0)
        return DayFacts(
            counts=counts,
            runs=runs,
            asked=self._images.count_asked(day, model_id) if may_be_too_many else None,
            max_rejected=self._max_rejected,
            is_running=bool(runs) and runs[0]["id"] in self._living,
            older=self.find_older_pending(day, model_id),
            images_before=self.count_images_before(day) if day.end <= datetime.now(UTC) else (),
        )

    def count_images_before(self, day: Day) -> list[int]:
        """Return the numbers of images of the days before, the latest first."""
        return [self._count_images(day.before(n)) for n in range(1, NUM_DAYS_BEFORE + 1)]

    def find_older_pending(self, day: Day, model_id: str) -> PendingDays | None:
        """Find the pending images before the day; after an older day was asked for, only those in between."""
        known, found = self._older.get(model_id, (None, None))
        if known is None or known.start > day.start:
            if (day, model_id) not in self._before_all:
                in_use = self._versions.ids_in_use()  # which are asked about next
                older = self._pending.find_all_older(day, sorted({model_id, *in_use}))
                self._before_all |= {(day, one): pending for one, pending in older.items()}
            found = self._before_all[day, model_id]
        else:
            between = replace(day.before(1), start=known.start, end=day.start)
            found = add_up([found, self._pending.find_pending_between(between, model_id)])
        self._older[model_id] = (day, found)
        return found

    def _count_images(self, day: Day) -> int:
        if day.date not in self._num_images:
            self._num_images[day.date] = self._images.count(day)
        return self._num_images[day.date]


def _state(facts: DayFacts) -> str:
    if facts.last_run is None:
        return "never run"
    if facts.is_running:
        return "running"
    if facts.last_run["state"] == "done":
        return "pending" if facts.counts.pending else "done"
    return "failed" if facts.counts.pending or not facts.counts.eligible else "done"


def _too_many_rejected(facts: DayFacts) -> str:
    """Return what too many were, if the day has more rejections than allowed, over all its runs, or its decisive run.

    That is the newest one that found images or didn't end well: one that found nothing new changes nothing.
    """
    did_something = (run for run in facts.runs if run["selected"] or run["exit_code"] or run["state"] != "done")
    decisive = next(did_something, None)
    if decisive is not None and decisive["exit_code"] == EXIT_TOO_MANY_REJECTED:
        return "rejected or failed" if decisive["error"] else "rejected"
    predicted, rejected = facts.asked or (facts.counts.predicted, facts.counts.rejected)
    is_over = rejected > rejection_budget(facts.max_rejected, predicted + rejected)
    return "rejected" if is_over else ""


def _about_failure(facts: DayFacts, state: str) -> str:
    last = facts.last_run
    if last is None or state == "running" or last["state"] == "done":
        return ""
    if last["exit_code"] is None:
        return "the last run died"
    return f"the last run failed: exit code {last['exit_code']}"


def _early_end(facts: DayFacts) -> int | None:
    """Return the exit code of the last run if it ended early and left images of the day."""
    last = facts.last_run
    if last is None or last["state"] != "done" or last["exit_code"] == EXIT_TOO_MANY_REJECTED:
        return None
    return (facts.counts.pending and last["exit_code"]) or None


def _about_number(facts: DayFacts) -> str:
    if not is_unusual(facts.counts.eligible, facts.images_before):
        return ""
    images = "1 image" if facts.counts.eligible == 1 else f"{facts.counts.eligible:,} images"
    return f"unusual: {images}, {mean(filter(None, facts.images_before)):,.0f} a day before"
