"""Decides how models run a day, by settings and rows, before anything is opened."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.second_network import detector_of, second_networks_of
from infer_app.base.day import Day
from infer_app.base.model_variants import BegunVariant, variant_of
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.telemetry.log import names_and_ids
from infer_app.predict.execution_plan import ExecutionPlan, plan_together
from infer_app.tables.choose_models import runs_unasked
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.runs import RunModel

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """How models that take the same pixels run a day: plain data, nothing is open."""

    artifacts: tuple[Artifact, ...]
    executions: tuple[ExecutionPlan, ...]  # one for each model
    models: tuple[RunModel, ...]  # the same, as infer_runs records them
    max_images: int | None = None  # to take; None: all

    @property
    def detector(self) -> int | None:
        """Return the index of the model whose objects second networks take; None if there is no second network."""
        return detector_of(self.artifacts)

    @property
    def second_networks(self) -> frozenset[int]:
        """Return the indices of the second networks."""
        return second_networks_of(self.artifacts)

    @property
    def idle(self) -> frozenset[int]:
        """Return the indices of models that have nothing to predict."""
        return frozenset(number for number, plan in enumerate(self.executions) if plan.is_idle)

    def without_detector(self) -> RunPlan:
        """Return the plan for images that the detector has predicted already: its network is not opened."""
        executions = list(self.executions)
        assert self.detector is not None
        executions[self.detector] = replace(executions[self.detector], is_idle=True)
        return replace(self, executions=tuple(executions))

    @property
    def model_ids(self) -> tuple[str, ...]:
        return tuple(model.model_id for model in self.models)


def plan_models(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], begun: Sequence[BegunVariant | None] = ()
) -> RunPlan:
    """Plan a day that was begun in these variants, by default a new day.

    Raises ModelError if a model was changed or can't run here, and UsageError for settings that exclude each other.
    """
    executions = plan_together(loaded, artifacts, begun or [None] * len(artifacts))
    models = [_run_model(loaded, *one) for one in zip(artifacts, executions, strict=True)]
    detector = detector_of(artifacts)
    if detector is not None:
        of_seconds = {one.manifest.model_id for one in artifacts if one.manifest.crop}
        found_by = models[detector].model_id
        models = [replace(one, detector_id=found_by) if one.model_id in of_seconds else one for one in models]
    return RunPlan(tuple(artifacts), tuple(executions), tuple(models))


def plan_day(
    of_new_day: RunPlan, loaded: LoadedSettings, project: ProjectDatabase, day: Day, end_workers: Callable[[], None]
) -> RunPlan:
    """Plan a day that is held: one that was begun in other variants is continued in those.

    Then `end_workers` is called first: the number of workers is planned by the memory that is left.

    Once such a day is done, nothing more is taken: images that come meanwhile wait for the next run. Raises
    PrecisionUnavailable if no variant of that dtype can run here.
    """
    models, idle = of_new_day.models, of_new_day.idle
    begun = [None if number in idle else _find_begun(project, day, model) for number, model in enumerate(models)]
    if all(one is None or _is_that_of(one, model) for one, model in zip(begun, models, strict=True)):
        return of_new_day
    if not project.count_new_of_days([day], of_new_day.model_ids):
        return replace(of_new_day, max_images=0)
    for one, model in zip(begun, models, strict=True):
        if one is not None and not _is_that_of(one, model):
            of_model = names_and_ids([(model.name, model.model_id)])
            text = "%s of %s was begun with %s and continues in its precision"
            log.info(text, day, model.name, one.variant, extra=of_model)
    end_workers()
    plan = replace(plan_models(loaded, of_new_day.artifacts, begun), max_images=of_new_day.max_images)
    return plan.without_detector() if idle else plan


def _find_begun(project: ProjectDatabase, day: Day, model: RunModel) -> BegunVariant | None:
    """Return the variant that the model keeps on a day; None if the day is new or its results were deleted."""
    found = project.ask(project.run_store.variants_of_day, day, model.model_id)
    for run_id, one in found.items():
        if not variant_of(one.variant).is_fitted:
            found[run_id] = one._replace(sha256=None)  # any build of it goes on
    if not all(_is_that_of(one, model) for one in found.values()):  # results of some runs may have been deleted
        left = project.ask(project.rows.runs_of, day, model.model_id)
        found = {run_id: one for run_id, one in found.items() if run_id in left}
    return next(iter(found.values()), None)


def _is_that_of(begun: BegunVariant, model: RunModel) -> bool:
    return begun.is_that_of(model.variant, model.variant_sha256)


def _run_model(loaded: LoadedSettings, artifact: Artifact, execution: ExecutionPlan) -> RunModel:
    manifest = artifact.manifest
    values = (variant_of(execution.variant), execution.workers, execution.threads)
    of_model = names_and_ids([(manifest.name, manifest.model_id)])
    log.info("%s runs as %s, %d workers x %d threads", manifest.name, *values, extra=of_model)
    for variant, why in execution.passed_over.items():
        log.info("%s was passed over: %s", variant, why, extra=of_model)
    facts = json.loads(manifest.to_json()) | {"labels": artifact.labels}  # exports name all classes, also unseen ones
    return RunModel(
        manifest.name,
        manifest.model_id,
        execution.variant,
        facts,
        execution.passed_over,
        runs_unasked(loaded, artifact),
        manifest.variant_sha256(execution.variant),
    )
