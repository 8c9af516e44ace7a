"""Predict stored images again, with the variant that they were predicted with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from infer_app.database.figures.similarity import cosine, mean_difference, numbers_of
from infer_app.database.queries.image_history import ModelHistory
from infer_app.domain import Broken, ImageRef, Prediction
from infer_app.errors import EXIT_OK, InferError, ModelError, UsageError
from infer_app.model_names import Version, short_name
from infer_app.model_variants import TORCHSCRIPT, variant_facts
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.models_folder import scan_artifacts
from infer_app.models.detection.boxes import match_objects
from infer_app.pipeline.executors import open_executor
from infer_app.pipeline.flow.chunking import chunks_of
from infer_app.pipeline.planning.execution_plan import ExecutionPlan, plan_run
from infer_app.settings.load import LoadedSettings

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
    cosine: float | None = None  # of the vectors
    num_objects: int | None = None  # of a detector
    num_stored: int | None = None
    num_matched: int | None = None  # of one label, whose boxes overlap by at least SAME_BOX
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
    plan = plan_again(loaded, artifact, stored["variant"] if stored else None, workers=1)
    now = plan.predict([ref])[ref.image_id]
    one = Replay(plan.variant, plan.instead_of, plan.why)
    return replace(one, rejected=reason_of(now)) if isinstance(now, Broken) else _compared(one, now, stored)


@dataclass(frozen=True, slots=True)
class PlanAgain:
    """How images of a stored variant are predicted again."""

    artifact: Artifact
    settings: LoadedSettings
    plan: ExecutionPlan
    instead_of: str | None  # the stored variant, if it can't run here
    why: str | None

    @property
    def variant(self) -> str:
        return self.plan.variant

    def predict(self, refs: Sequence[ImageRef]) -> dict[str, Prediction | Broken]:
        """Return the prediction or rejection of each image by its id. Raises ModelError, and what storages raise."""
        results = dict[str, Prediction | Broken]()
        with open_executor(self.settings, [self.artifact], [self.plan]) as executor:
            for chunk in executor.pool.run(chunks_of(refs)):
                results |= {predicted.ref.image_id: predicted for predicted in chunk.predictions}
                results |= {broken.ref.image_id: broken for broken in chunk.broken}
        return results


def plan_again(loaded: LoadedSettings, artifact: Artifact, stored: str | None, workers: int) -> PlanAgain:
    """Plan to run the stored variant, or, if it can't run here, another that computes alike, or in fp32.

    None: plan as a run does. Raises ModelError if none can run here.
    """
    if stored is None:
        return PlanAgain(artifact, loaded, plan_run(loaded, artifact), None, None)
    wanted = _changed(loaded, variant=stored, workers=workers, executor="auto", device="auto")
    try:
        return PlanAgain(artifact, wanted, plan_run(wanted, artifact), None, None)
    except (ModelError, UsageError) as error:
        why = error.message
    similar = _changed(wanted, variant="auto", **variant_facts(stored))
    with suppress(ModelError):
        return PlanAgain(artifact, similar, plan_run(similar, artifact), stored, why)
    full = _changed(similar, **variant_facts(TORCHSCRIPT))
    return PlanAgain(artifact, full, plan_run(full, artifact), stored, why)


def _changed(loaded: LoadedSettings, **values: object) -> LoadedSettings:
    run = loaded.run.model_copy(update=values)
    return loaded.model_copy(update={"run": run})


def _compared(replay: Replay, now: Prediction, stored: dict[str, Any] | None) -> Replay:
    output = now.output
    num_objects = None if output.objects is None else len(output.objects)
    scored = replace(replay, label=output.label, score=output.score, num_objects=num_objects)
    if stored is None:
        return scored
    if output.objects is not None and stored.get("objects") is not None:
        before = [one.found for one in stored["objects"]]
        matches = match_objects(before, output.objects, SAME_BOX)
        scored = replace(scored, num_stored=len(before), num_matched=len(matches))
    alike = None
    if output.vector and output.vector_dtype and stored["vector"]:
        alike = cosine(output.vector, output.vector_dtype, stored["vector"], stored["vector_dtype"])
    same_label = None if output.label is None else output.label == stored["label"]
    return replace(scored, same_label=same_label, score_difference=_score_difference(now, stored), cosine=alike)


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
