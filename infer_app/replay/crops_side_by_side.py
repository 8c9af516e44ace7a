"""Compare a second network with another function on the objects that its detector finds in the same files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

from infer_app.domain import Broken, CropOutput, DetectedObject, ImageRef, Prediction
from infer_app.errors import UsageError
from infer_app.images.read.folder_scan import folders_of
from infer_app.images.transform.crop import Shares
from infer_app.images.transform.geometry import Pixels
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.verification.check_report import CheckReport
from infer_app.models.verification.function_check import compare_answers
from infer_app.pipeline.executors import open_executor
from infer_app.pipeline.flow.chunking import FEW_IMAGES, chunks_of
from infer_app.pipeline.planning.execution_plan import ExecutionPlan
from infer_app.plurals import counted
from infer_app.recipe import Recipe
from infer_app.replay.reference_pipeline import ReferencePipeline, open_upright
from infer_app.settings.load import LoadedSettings

DETECTOR, SECOND = 0, 1  # indices of the two models


def compare_crops(
    reference: ReferencePipeline[[Pixels, Shares]],
    loaded: LoadedSettings,
    artifacts: tuple[Artifact, Artifact],
    plans: Sequence[ExecutionPlan],
    paths: Sequence[Path],
    folder: Path,
) -> CheckReport:
    """Predict the images by a detector and a second network, and the objects that this takes by the reference.

    Nothing is timed. Raises UsageError if there is no such object.
    """
    found = _predict(loaded, artifacts, plans, paths, folder)
    detector, second = (artifact.manifest for artifact in artifacts)
    if not found.crops and not found.broken:
        raise UsageError(
            f"{detector.name} finds no object for {second.name} in {counted(len(paths), 'image')}",
            "take images that show some, or build the model with a lower --min-score or other labels",
        )
    theirs, ours = list[tuple[str, object]](), list[Prediction | Broken](found.broken)
    for path, crops in sorted(found.crops.items()):
        answers = _answers(reference, Path(path), second.recipe, [found.objects[path][one.object] for one in crops])
        for one, answer in zip(crops, answers, strict=True):
            named = f"{path}, object {one.object}"
            theirs.append((named, answer))
            ours.append(Prediction(ImageRef(named, named), one.output))
    report = compare_answers(
        theirs,
        ours,
        artifacts[SECOND].labels,
        activation=second.output.activation,
        are_outputs=reference.gives_outputs,
    )
    return replace(report, unit="object")


@dataclass
class _Found:
    """What the two models give for the images, by path."""

    objects: dict[str, tuple[DetectedObject, ...]] = field(default_factory=dict)
    crops: dict[str, tuple[CropOutput, ...]] = field(default_factory=dict)  # of images with one or more
    broken: list[Broken] = field(default_factory=list)  # images that the second network rejects


def _predict(
    loaded: LoadedSettings,
    artifacts: tuple[Artifact, Artifact],
    plans: Sequence[ExecutionPlan],
    paths: Sequence[Path],
    folder: Path,
) -> _Found:
    found = _Found()
    refs = [ImageRef(str(path), str(path)) for path in paths]
    with open_executor(loaded, artifacts, plans, folders_of(folder, paths)) as executor:
        for result in executor.pool.run(chunks_of(refs, FEW_IMAGES, (DETECTOR, SECOND))):
            for one in result.predictions:
                path = one.ref.location
                if one.model_index == DETECTOR:
                    found.objects[path] = one.output.objects or ()
                elif one.output.crops:
                    found.crops[path] = one.output.crops
            found.broken += [one for one in result.broken if one.model_index in (None, SECOND)]
    return found


def _answers(
    reference: ReferencePipeline[[Pixels, Shares]], path: Path, recipe: Recipe, objects: Sequence[DetectedObject]
) -> list[object]:
    """Return the reference's answer for each object of an image, or the exception that it raised."""
    with redirect_stdout(sys.stderr):
        try:
            rgb = open_upright(path, recipe)
        except Exception as error:
            return [error] * len(objects)
        return [_answer(reference, rgb, (one.x, one.y, one.width, one.height)) for one in objects]


def _answer(reference: ReferencePipeline[[Pixels, Shares]], rgb: Pixels, box: Shares) -> object:
    try:
        return reference.answer(rgb, box)
    except Exception as error:  # the user's function may raise anything; it counts as its answer for this object
        return error
