"""Predict stored images again, with the variant that they were predicted with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import Version, short_name
from infer_app.artifact.models_folder import scan_artifacts
from infer_app.ask.figures.similarity import cosine, mean_difference, numbers_of
from infer_app.base.domain import Broken, CropOutput, ImageRef, NewImage, Output, Prediction, StoredObjects
from infer_app.base.errors import EXIT_OK, InferError, ModelError, UsageError
from infer_app.base.model_variants import BegunVariant
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.chunking import FEW_IMAGES, ChunkSize, cut_into_chunks
from infer_app.predict.detection.boxes import match_objects
from infer_app.predict.executors import open_executor
from infer_app.predict.planning.execution_plan import ExecutionPlan, plan_run
from infer_app.tables.project_database import read_limits
from infer_app.tables.queries.image_history import ModelHistory, StoredObject

SAME_BOX = 0.9  # intersection over union of an object that was found again


@dataclass(frozen=True, slots=True)
class Replay:
    """A repeated prediction of the image; `error` if it can't be made."""

    variant: str | None = None  # the one that ran
    instead_of: str | None = None  # the variant of the stored prediction, if it can't run here
    why: str | None = None  # it can't run here
    label: str | None = None
    score: float | None = None
    rejected: str | None = None  # reason: detail
    same_label: bool | None = None
    score_difference: float | None = None  # now minus stored; for several numbers the mean absolute difference
    cosine: float | None = None  # of the vectors; of those of several objects the lowest
    num_objects: int | None = None  # of a detector, or those that a second network takes
    num_stored: int | None = None
    num_matched: int | None = None  # of one label, whose boxes overlap by at least SAME_BOX, or which are one box
    changed_objects: tuple[str, ...] = ()  # of a second network: those with another label, and both labels
    error: str | None = None
    hint: str | None = None
    exit_code: int = EXIT_OK


def replay(loaded: LoadedSettings, image_id: str, location: str | None, history: ModelHistory) -> Replay:
    """Predict an image as a run does, with the variant of its stored prediction if it runs here.

    Never raises an InferError: the result contains the reason.
    """
    if location is None:
        return Replay(error="the source no longer lists the image", exit_code=UsageError.exit_code)
    try:
        artifact = find_version(loaded, (history.model, history.model_id))
        return _replay(loaded, artifact, ImageRef(image_id, location), history.prediction)
    except InferError as error:
        return Replay(error=error.message, hint=error.hint, exit_code=error.exit_code)


def _replay(loaded: LoadedSettings, artifact: Artifact, ref: ImageRef, stored: dict[str, Any] | None) -> Replay:
    plan = plan_again(loaded, artifact, stored, workers=1)
    now = plan.predict([ref], stored_objects([(ref, stored)]))[ref.image_id]
    one = Replay(plan.variant, plan.instead_of, plan.why)
    return replace(one, rejected=reason_of(now)) if isinstance(now, Broken) else _compared(one, now, stored)


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

    def predict(self, refs: Sequence[ImageRef], objects: Mapping[str, StoredObjects]) -> dict[str, Prediction | Broken]:
        """Return the prediction or rejection of each image by its id; `objects` are for a second network.

        Raises ModelError, and what storages raise.
        """
        results = dict[str, Prediction | Broken]()
        artifacts, plans = [self.artifact], [self.plan]
        if self.detector is not None:
            artifacts, plans = [self.detector, *artifacts], [_idle(self.plan, self.detector), *plans]
        new = (NewImage(ref, (len(plans) - 1,), objects.get(ref.image_id)) for ref in refs)
        with open_executor(self.settings, artifacts, plans, read_limits(self.settings)) as executor:
            for chunk in executor.pool.run(cut_into_chunks(new, ChunkSize(2 * FEW_IMAGES))):
                results |= {predicted.ref.image_id: predicted for predicted in chunk.predictions}
                results |= {broken.ref.image_id: broken for broken in chunk.broken}
        return results


def plan_again(loaded: LoadedSettings, artifact: Artifact, stored: Mapping[str, Any] | None, workers: int) -> PlanAgain:
    """Plan to run the variant of a stored row, or, if it can't run here, another of its precision, or full precision.

    None: plan as a run does. Raises ModelError if none can run here, and for a second network without a stored row or
    without the version of its detector.
    """
    detector = None
    if crop := artifact.manifest.crop:
        if stored is None:
            raise ModelError(
                f"no objects of {crop.of} were given to {artifact.manifest.name} yet", "`infer run` predicts them"
            )
        detector = find_version(loaded, (crop.of, stored["detector_id"]))
    if stored is None:
        return PlanAgain(artifact, detector, loaded, plan_run(loaded, artifact), None, None)
    device = "cpu" if crop else "auto"
    settings = _changed(loaded, workers=workers, executor=device, device=device)
    begun = BegunVariant(stored["variant"], None)
    try:
        plan = plan_run(settings, artifact, begun)
        why = plan.choice.passed_over.get(begun.variant, "the model here does not have it")
    except (ModelError, UsageError) as error:
        settings, why = _changed(settings, precision="full"), error.message
        plan = plan_run(settings, artifact)
    is_same = plan.variant == begun.variant
    return PlanAgain(artifact, detector, settings, plan, *((None, None) if is_same else (begun.variant, why)))


def stored_objects(rows: Iterable[tuple[ImageRef, Mapping[str, Any] | None]]) -> dict[str, StoredObjects]:
    """Return the objects of a detector by image id, where the stored rows are of a second network."""
    return {
        ref.image_id: StoredObjects(tuple(enumerate(one.found for one in row["objects"])), row["sha256"])
        for ref, row in rows
        if row and row["detector_id"] is not None
    }


def _idle(plan: ExecutionPlan, detector: Artifact) -> ExecutionPlan:
    """Return a plan for a detector that is not run: any of its variants will do."""
    return replace(plan, choice=replace(plan.choice, variant=next(iter(detector.manifest.variants))), is_idle=True)


def _changed(loaded: LoadedSettings, **values: object) -> LoadedSettings:
    run = loaded.run.model_copy(update=values)
    return loaded.model_copy(update={"run": run})


def _compared(replay: Replay, now: Prediction, stored: dict[str, Any] | None) -> Replay:
    output = now.output
    scored = replace(replay, label=output.label, score=output.score, num_objects=output.num_objects)
    if stored is None:
        return scored
    if output.crops is not None:
        scored = _compared_crops(scored, output.crops, stored["objects"])
    if output.objects is not None and stored.get("objects") is not None:
        before = [one.found for one in stored["objects"]]
        matches = match_objects(before, output.objects, SAME_BOX)
        scored = replace(scored, num_stored=len(before), num_matched=len(matches))
    same_label = None if output.label is None else output.label == stored["label"]
    alike = scored.cosine if output.crops else _cosine(output, stored)
    return replace(scored, same_label=same_label, score_difference=_score_difference(now, stored), cosine=alike)


def _compared_crops(replay: Replay, crops: Sequence[CropOutput], stored: Sequence[StoredObject]) -> Replay:
    """Compare what a second network gives for each object with what is stored of it."""
    made = {number: one.made for number, one in enumerate(stored) if one.made}
    pairs = {number: (output, made[number]) for number, output in crops if number in made}
    changed = tuple(
        f"object {number}: {row['label']} stored, {output.label} now"
        for number, (output, row) in pairs.items()
        if output.label != row["label"]
    )
    cosines = [alike for alike in (_cosine(*pair) for pair in pairs.values()) if alike is not None]
    same, least = len(pairs) - len(changed), min(cosines, default=None)
    return replace(replay, num_stored=len(made), num_matched=same, cosine=least, changed_objects=changed)


def _cosine(output: Output, stored: Mapping[str, Any]) -> float | None:
    if not (output.vector and output.vector_dtype and stored["vector"]):
        return None
    return cosine(output.vector, output.vector_dtype, stored["vector"], stored["vector_dtype"])


def _score_difference(now: Prediction, stored: dict[str, Any]) -> float | None:
    score = now.output.score
    if score is not None and stored["score"] is not None:
        return float(score - stored["score"])
    return mean_difference(numbers_of(None, now.output.details), numbers_of(None, stored["output"]))


def find_version(loaded: LoadedSettings, version: Version) -> Artifact:
    artifacts, damaged = scan_artifacts(loaded.models_folder)
    for artifact in artifacts:
        if artifact.manifest.model_id == version[1]:
            return artifact
    for error in damaged:
        if version[1] in error.message:  # its folder is named after it
            raise error
    raise ModelError(f"{short_name(*version)} is not in {loaded.models_folder}", "restore its folder from a backup")


def reason_of(broken: Broken) -> str:
    return f"{broken.reason}: {broken.detail}"
