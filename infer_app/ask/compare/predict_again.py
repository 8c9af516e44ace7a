"""Predict stored images again, with the variant that they were predicted with."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import Version, short_name
from infer_app.artifact.models_folder import scan_artifacts
from infer_app.base.domain import Broken, FoundObject, ImageRef, NewImage, Prediction, StoredObjects
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.model_variants import BegunVariant, variant_of
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.execution_plan import ExecutionPlan, missing_or_broken, plan_run
from infer_app.predict.executors import open_executor
from infer_app.tables.project_database import read_limits
from infer_app.tables.rows.image_history import ModelHistory
from infer_app.tables.rows.results import Result


@dataclass(frozen=True, slots=True)
class PlanAgain:
    """How images of a stored variant are predicted again."""

    artifact: Artifact
    detector: Artifact | None  # of a second network: the version whose stored objects are cut out again
    settings: LoadedSettings
    plan: ExecutionPlan
    instead_of: str | None  # the stored variant, if it can't run here
    why: str | None

    @property
    def variant(self) -> str:
        return self.plan.variant

    def predict(
        self, refs: Sequence[ImageRef], objects: Mapping[ImageRef, StoredObjects]
    ) -> dict[ImageRef, Prediction | Broken]:
        """Return the prediction or rejection of each image; `objects` are for a second network.

        Raises ModelError, and what storages raise.
        """
        results = dict[ImageRef, Prediction | Broken]()
        artifacts, plans = [self.artifact], [self.plan]
        if self.detector is not None:
            artifacts, plans = [self.detector, *artifacts], [_idle(self.plan, self.detector), *plans]
        new = (NewImage(ref, (len(plans) - 1,), objects.get(ref)) for ref in refs)
        with open_executor(self.settings, artifacts, plans, read_limits(self.settings)) as executor:
            for chunk in executor.predict(new):
                results |= {predicted.ref: predicted for predicted in chunk.predictions}
                results |= {broken.ref: broken for broken in chunk.broken}
        return results


def plan_again(loaded: LoadedSettings, artifact: Artifact, stored: Result, workers: int) -> PlanAgain:
    """Plan to run the variant of a stored row, or, if it can't run here, another of its precision, or full precision.

    Raises ModelError if none can run here, and for a second network without the version of its detector.
    """
    crop = artifact.manifest.crop
    detector = find_version(loaded, (crop.of, stored.detector_id or "")) if crop else None
    device = "cpu" if crop else "auto"
    settings = _changed(loaded, workers=workers, executor=device, device=device)
    begun = BegunVariant(stored.variant, None)
    try:
        plan = plan_run(settings, artifact, begun)
    except (ModelError, UsageError):
        settings, plan = _plan_other(settings, artifact, begun.variant)
    if plan.variant == begun.variant:
        return PlanAgain(artifact, detector, settings, plan, None, None)
    known = artifact.manifest.variants
    why = (
        missing_or_broken(begun.variant, artifact.manifest.requires(begun.variant)) if begun.variant in known else None
    )
    return PlanAgain(artifact, detector, settings, plan, begun.variant, why or "the model here does not have it")


def _plan_other(loaded: LoadedSettings, artifact: Artifact, variant: str) -> tuple[LoadedSettings, ExecutionPlan]:
    """Plan another variant of the precision of one, or else full precision. Raises ModelError if none can run."""
    with suppress(ModelError):
        alike = _changed(loaded, precision=variant_of(variant).precision)
        return alike, plan_run(alike, artifact)
    full = _changed(loaded, precision="full")
    return full, plan_run(full, artifact)


def stored_objects(rows: Iterable[tuple[ImageRef, ModelHistory]]) -> dict[ImageRef, StoredObjects]:
    """Return the objects of a detector by image, where the stored rows are of a second network."""
    return {
        ref: StoredObjects(tuple(FoundObject(its.place, its.found) for its in history.objects), one.sha256)
        for ref, history in rows
        if (one := history.prediction) and one.detector_id is not None and history.objects is not None
    }


def _idle(plan: ExecutionPlan, detector: Artifact) -> ExecutionPlan:
    """Return a plan for a detector that is not run: any of its variants will do."""
    return replace(plan, variant=next(iter(detector.manifest.variants)), is_idle=True)


def _changed(loaded: LoadedSettings, **values: object) -> LoadedSettings:
    run = loaded.run.model_copy(update=values)
    return loaded.model_copy(update={"run": run})


def find_version(loaded: LoadedSettings, version: Version) -> Artifact:
    artifacts, damaged = scan_artifacts(loaded.models_folder)
    for artifact in artifacts:
        if artifact.manifest.model_id == version[1]:
            return artifact
    for error in damaged:
        if version[1] in error.message:  # its folder is named after it
            raise error
    raise ModelError(f"{short_name(*version)} is not in {loaded.models_folder}", "restore its folder from a backup")
