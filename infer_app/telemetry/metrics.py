"""What a run came to, in the text format of Prometheus, for node_exporter's textfile collector.

A run writes the whole file anew and keeps of the earlier one what it says nothing about: the time of a model's last
success where this run had none, and everything of models that it did not run. The project's folder is a label of all,
since node_exporter refuses two files that say the same of different projects.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from infer_app.domain import RunReport

LAST_SUCCESS = "infer_last_success_timestamp_seconds"
HELP = {
    "infer_last_run_timestamp_seconds": "When the last run ended, whatever its exit code.",
    "infer_last_run_exit_code": "Exit code of the last run, over all its models.",
    "infer_last_run_duration_seconds": "How long it took.",
    LAST_SUCCESS: "When a run of the model last ended with exit code 0.",
    "infer_model_exit_code": "Exit code of the model's last run.",
    "infer_images_selected": "New images that the last run took up, its look-back included.",
    "infer_images_predicted": "Those it predicted.",
    "infer_images_rejected": "Those it rejected, by reason.",
    "infer_images_pending": "Images with neither a prediction nor a rejection after it, days before included.",
    "infer_images_per_second": "Rate that was reached, start-up included.",
    "infer_limit_images_per_second": "Rate that this machine allows.",
}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]  # (name, labels): value


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """What a run came to for one model; no reports where it was not run."""

    model: str
    exit_code: int
    reports: Sequence[RunReport] = ()  # one for each day
    older_pending: int = 0  # of days before those

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
        """Of the day that says most about speed."""
        return max((report for report in self.reports if report.selected), key=lambda one: one.selected, default=None)


def read_samples(text: str) -> Samples:
    """Of an earlier file. Raises ValueError where it is none of ours."""
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in samples if one.name in HELP}


def render_metrics(
    earlier: Samples,
    project: Path,
    outcomes: Sequence[ModelOutcome],
    exit_code: int,
    seconds: float,
    now: float | None = None,
) -> bytes:
    """The new file; `now` is the run's end, in seconds since 1970."""
    now = time.time() if now is None else now
    new: Samples = {
        ("infer_last_run_timestamp_seconds", ()): now,
        ("infer_last_run_exit_code", ()): exit_code,
        ("infer_last_run_duration_seconds", ()): seconds,
    }
    for outcome in outcomes:
        new |= _of_model(outcome, now)
    of_project = ("project", str(project))
    samples = _kept(earlier, [{of_project, ("model", outcome.model)} for outcome in outcomes])
    samples |= {(name, tuple(sorted((*labels, of_project)))): value for (name, labels), value in new.items()}
    registry = CollectorRegistry()
    registry.register(_Fixed(samples))
    return generate_latest(registry)


def _kept(earlier: Samples, replaced: Sequence[set[tuple[str, str]]]) -> Samples:
    return {
        (name, labels): value
        for (name, labels), value in earlier.items()
        if name == LAST_SUCCESS or not any(these.issubset(labels) for these in replaced)
    }


def _of_model(outcome: ModelOutcome, now: float) -> Samples:
    values: dict[str, float] = {"infer_model_exit_code": outcome.exit_code}
    if outcome.exit_code == 0:
        values[LAST_SUCCESS] = now
    if outcome.reports:
        values["infer_images_selected"] = outcome.selected
        values["infer_images_predicted"] = outcome.predicted
        values["infer_images_pending"] = outcome.pending
    if outcome.longest:
        values["infer_images_per_second"] = outcome.longest.images_per_second
    if outcome.longest and outcome.longest.limit_images_per_second:
        values["infer_limit_images_per_second"] = outcome.longest.limit_images_per_second
    model = ("model", outcome.model)
    samples: Samples = {(name, (model,)): value for name, value in values.items()}
    for reason, count in outcome.reasons.items():
        samples[("infer_images_rejected", (model, ("reason", reason)))] = count
    return samples


class _Fixed(Collector):
    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> list[Metric]:
        families = {name: Metric(name, text, "gauge") for name, text in HELP.items()}
        for (name, labels), value in sorted(self._samples.items()):
            families[name].add_sample(name, dict(labels), value)
        return [family for family in families.values() if family.samples]
