"""Predict stored images again, with the variant that they were predicted with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infer_app.boxes import match_objects
from infer_app.database.queries.image_history import ModelHistory
from infer_app.domain import Broken, ImageRef, Prediction
from infer_app.errors import EXIT_OK, InferError, ModelError, UsageError
from infer_app.model_names import Version, short_name
from infer_app.models.artifact.artifact import Artifact, scan_artifacts
from infer_app.pipeline.chunking import chunks_of
from infer_app.pipeline.execution_plan import plan_run
from infer_app.pipeline.executors import open_executor
from infer_app.reporting.similarity import cosine, mean_difference, numbers_of
from infer_app.run_report import precision_name
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
    again = predict_again(loaded, artifact, stored["variant"] if stored else None, [ref])
    one = Replay(again.variant, again.instead_of, again.why)
    now = again.results[ref.image_id]
    return replace(one, rejected=reason_of(now)) if isinstance(now, Broken) else _compared(one, now, stored)


@dataclass(frozen=True, slots=True)
class Again:
    """Images that were predicted again, by id."""

    variant: str
    instead_of: str | None  # the variant that was wanted, if it can't run here
    why: str | None
    results: Mapping[str, Prediction | Broken]


def predict_again(loaded: LoadedSettings, artifact: Artifact, wanted: str | None, refs: Sequence[ImageRef]) -> Again:
    """Predict images with the variant that is wanted, if it runs here. Raises what opening an executor raises."""
    settings, why = loaded, None
    if wanted is not None:
        settings, why = _with_variant(loaded, artifact, wanted, workers=1 if len(refs) == 1 else loaded.run.workers)
    plan = plan_run(settings, artifact)
    results = dict[str, Prediction | Broken]()
    with open_executor(settings, [artifact], [plan]) as executor:
        for chunk in executor.pool.run(chunks_of(refs)):
            results |= {predicted.ref.image_id: predicted for predicted in chunk.predictions}
            results |= {broken.ref.image_id: broken for broken in chunk.broken}
    return Again(plan.variant, wanted if why else None, why, results)


def _with_variant(
    loaded: LoadedSettings, artifact: Artifact, variant: str, workers: int
) -> tuple[LoadedSettings, str | None]:
    """Return settings that run the variant, or `auto` of the same precision and the reason why it can't run here."""
    wanted = _changed(loaded, variant=variant, workers=workers, executor="auto", device="auto")
    try:
        plan_run(wanted, artifact)
    except (ModelError, UsageError) as error:
        return _changed(wanted, variant="auto", precision=precision_name(variant)), error.message
    return wanted, None


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
