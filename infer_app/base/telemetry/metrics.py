"""Metrics of a run in Prometheus' text format, for node_exporter's textfile collector.

Each run rewrites the whole file. It keeps the samples of models that it did not run, and the time of a model's last
success if the model failed now. Every sample is labelled with the project's folder, since node_exporter refuses files
that contain the same sample twice.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from infer_app.base.run_report import LEVELS, ModelOutcome

LAST_SUCCESS = "infer_last_success_timestamp_seconds"
HELP = {
    "infer_last_run_timestamp_seconds": "When the last run ended, whatever its exit code.",
    "infer_last_run_exit_code": "Exit code of the last run, over all its models.",
    "infer_last_run_duration_seconds": "Duration of the last run.",
    LAST_SUCCESS: "When a run of the model last ended with exit code 0.",
    "infer_model_exit_code": "Exit code of the model's last run.",
    "infer_images_selected": "New images that the last run selected, its look-back included.",
    "infer_images_predicted": "Images that the last run predicted.",
    "infer_images_rejected": "Images that the last run rejected, by reason.",
    "infer_images_pending": "Images without prediction or rejection after the last run, earlier days included.",
    "infer_day_needs_attention": "0: all is well with the day of the last run, 1: it needs attention, 2: it failed.",
    "infer_images_per_second": "Rate of the last run, start-up included, unless it had too few images.",
    "infer_limit_images_per_second": "Highest rate that this machine can reach.",
}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]  # (name, labels): value


def read_samples(text: str) -> Samples:
    """Parse an earlier file. Raises ValueError if it is not in Prometheus' text format."""
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
    """Return the new file's content; `now` is the end of the run, in seconds since 1970."""
    now = time.time() if now is None else now
    new: Samples = {
        ("infer_last_run_timestamp_seconds", ()): now,
        ("infer_last_run_exit_code", ()): exit_code,
        ("infer_last_run_duration_seconds", ()): seconds,
    }
    for outcome in outcomes:
        new |= _model_samples(outcome, now)
    project_label = ("project", str(project))
    samples = _kept(earlier, [{project_label, ("model", outcome.model)} for outcome in outcomes])
    samples |= {(name, tuple(sorted((*labels, project_label)))): value for (name, labels), value in new.items()}
    registry = CollectorRegistry()
    registry.register(_Fixed(samples))
    return generate_latest(registry)


def _kept(earlier: Samples, replaced: Sequence[set[tuple[str, str]]]) -> Samples:
    return {
        (name, labels): value
        for (name, labels), value in earlier.items()
        if name == LAST_SUCCESS or not any(model_labels.issubset(labels) for model_labels in replaced)
    }


def _model_samples(outcome: ModelOutcome, now: float) -> Samples:
    values: dict[str, float] = {"infer_model_exit_code": outcome.exit_code}
    if outcome.exit_code == 0:
        values[LAST_SUCCESS] = now
    if outcome.reports:
        values["infer_images_selected"] = outcome.selected
        values["infer_images_predicted"] = outcome.predicted
        values["infer_images_pending"] = outcome.pending
    if outcome.day_state or outcome.is_failed:
        level = outcome.day_state.level if outcome.day_state else "failed"
        values["infer_day_needs_attention"] = [*LEVELS].index(level)
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
