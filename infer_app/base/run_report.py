"""The figures of a run, and of a day."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from infer_app.base.errors import EXIT_OK, EXIT_TIME_BUDGET, SIGNALLED, DayHeld
from infer_app.base.model_variants import variant_facts

LEVELS = {"good": "all is well", "attention": "needs attention", "failed": "failed"}  # of a day, the worst last
MIN_IMAGES = 20  # a run of fewer is mostly start-up: its speed is judged nowhere


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The counts of rows for one day and model: eligible = predicted + rejected + pending."""

    eligible: int
    predicted: int
    rejected: int
    pending: int

    @property
    def balanced(self) -> bool:
        return self.eligible == self.predicted + self.rejected + self.pending


@dataclass(frozen=True, slots=True)
class DayObjects:
    """Counts of a day's objects for a second network."""

    found: int  # by its detector
    taken: int  # of these, by the network
    done: int  # of these, predicted

    def __str__(self) -> str:
        return f"objects: {self.found:,} found, {self.taken:,} taken, {self.done:,} done"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a day and model, which `tables.day.verdict` gives and everything else only shows."""

    state: str  # done, pending, running, failed or never run
    level: str  # good, attention or failed
    exit_code: int | None  # how the day ended; None while no run has ended
    notes: tuple[str, ...]  # what is not as it should be, the most severe first

    @property
    def outcome(self) -> str:
        return self.notes[0] if self.notes else self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The report of one model's run over one day, as `infer run --json` prints it. Keys are added, never renamed."""

    date: date
    model: str
    model_id: str
    variant: str
    run_id: str
    executor: str
    device: str
    selected: int
    predicted: int
    rejected: int
    reasons: dict[str, int] = field(default_factory=dict)
    day: DayCounts
    objects: DayObjects | None = None  # of the day, for a second network
    seconds: float = 0.0
    images_per_second: float = 0.0  # over the total time, including start-up
    steady_images_per_second: float | None = None  # from the first result on; None when there was only one
    limit_images_per_second: float | None = None
    stages: dict[str, float] = field(default_factory=dict)  # CPU milliseconds per image
    exit_code: int = 0
    walls: dict[str, float] = field(default_factory=dict)  # milliseconds per image, other programs' included
    waits: dict[str, float] = field(default_factory=dict)  # milliseconds per image waiting for storage and database
    limits: dict[str, float] = field(default_factory=dict)  # images per second of cores, workers and database
    limited_by: str | None = None  # a stage, storage or database; None when there was nothing to measure
    share_of_limit: float | None = None  # of the steady rate, 0-1
    num_cores: int = 0
    num_workers: int = 0
    passed_over: dict[str, str] = field(default_factory=dict)  # variant: why it was not chosen
    # Of a cluster, by name: images, images_per_second, stages.
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopped: str | None = None  # why the run stopped early and left images pending; exit code 3
    bottleneck: str | None = None  # `limited_by`, or other programs; None when there were too few images to judge
    nearly_black: int = 0  # images of 16 bits that use at most 12 of them, as they were read by depth full

    def to_short_json(self) -> dict[str, object]:
        """Return what `to_json` says of the images."""
        names = ("run_id", "selected", "predicted", "rejected", "reasons", "exit_code")
        return {"date": self.date.isoformat(), "day": asdict(self.day)} | {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"date": self.date.isoformat()} | variant_facts(self.variant)


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """Result of a run for one model; without reports if the model was not run."""

    model: str
    exit_code: int
    reports: Sequence[RunReport] = ()  # one for each day
    older_pending: int = 0  # pending images of earlier days
    day_state: Verdict | None = None  # of the last day

    @property
    def is_failed(self) -> bool:
        """Return whether the model could not be run: not where another run did, or it was ended before."""
        ended = self.exit_code > SIGNALLED or self.exit_code in (EXIT_OK, DayHeld.exit_code, EXIT_TIME_BUDGET)
        return not self.reports and not ended

    @property
    def selected(self) -> int:
        return sum(report.selected for report in self.reports)

    @property
    def predicted(self) -> int:
        return sum(report.predicted for report in self.reports)

    @property
    def reasons(self) -> Counter[str]:
        return sum((Counter(report.reasons) for report in self.reports), Counter())

    @property
    def pending(self) -> int:
        return sum(report.day.pending for report in self.reports) + self.older_pending

    @property
    def longest(self) -> RunReport | None:
        """Return the report of the day with most images, whose rate is the most reliable; None if all had too few."""
        enough = (report for report in self.reports if report.selected >= MIN_IMAGES)
        return max(enough, key=lambda one: one.selected, default=None)
