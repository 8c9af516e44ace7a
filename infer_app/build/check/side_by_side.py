"""Compare a model with another function on the same files: the function one by one, the model through the executor.

A second network is compared on the objects that its detector finds in the files.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import Broken, ChunkResult, CropOutput, DetectedObject, ImageRef, NewImage, Prediction
from infer_app.base.errors import InferError, ProvesLittle, UsageError
from infer_app.base.printing import counted
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.telemetry.bottleneck import lost_share
from infer_app.base.telemetry.stage_clock import queued_seconds
from infer_app.build.check.check_report import CheckReport, TimedBlock
from infer_app.build.check.function_check import MOVED, compare_answers
from infer_app.build.check.object_check import compare_object_answers
from infer_app.build.check.other_recipes import explain_differences
from infer_app.build.check.reference_pipeline import ReferencePipeline, open_upright
from infer_app.predict.chunking import FEW_IMAGES
from infer_app.predict.execution_plan import ExecutionPlan
from infer_app.predict.executors import Executor, open_executor
from infer_app.predict.images.read.folder_scan import folders_of
from infer_app.predict.images.transform.crop import Shares
from infer_app.predict.images.transform.geometry import Pixels
from infer_app.predict.verification.golden import LABEL_MARGIN

SAME = 0.95  # two decoders and two resizes of one recipe agree on more, and find more of each other's objects
WHAT_DIFFERS = (
    "the recipe differs in channels (channels=bgr), scale (pixels of 0 to 255 are mean=0 and std=0.00392157), mean, "
    "std, size, recipe, resize, interpolation, antialias, where it crops (centre) or pads (pad), or the order of the "
    "labels does"
)
SAME_BEYOND_CHANCE = 0.9  # what SAME is where two classes have as many images
ENOUGH = 10  # answers of a class, or objects; fewer may be the same by chance
FEW_CLASSES = 10  # up to which there must be ENOUGH of each; of more, of all but the most frequent one
FIRST_CHUNKS = 2  # for each worker, which both sides start with
BLOCK_CHUNKS = 8  # for each worker, in a block, if there are as many images
MIN_BLOCKS, MAX_BLOCKS = 2, 8
DETECTOR, SECOND = 0, 1  # indices of the two models


@dataclass
class _Found:
    """The predictions that two models give for the images, by path."""

    objects: dict[str, tuple[DetectedObject, ...]] = field(default_factory=dict)
    crops: dict[str, tuple[CropOutput, ...]] = field(default_factory=dict)  # of images with one or more
    broken: list[Broken] = field(default_factory=list)  # images that the second network rejects


def compare_with(
    reference: ReferencePipeline[[Path]],
    loaded: LoadedSettings,
    artifact: Artifact,
    plan: ExecutionPlan,
    paths: Sequence[Path],
    folder: Path,
) -> CheckReport:
    """Predict the images with both sides, block by block in turn, so that what else the machine does affects both.

    The first block is not timed: both sides start with it.
    """
    their_answers: list[tuple[str, object]] = []
    ours: list[Prediction | Broken] = []
    timed: list[TimedBlock] = []
    with open_executor(loaded, [artifact], [plan], _limits(loaded, folder, paths)) as executor:
        started, *blocks = cut_into_blocks(paths, executor.num_workers)
        ours += _items(_predict(executor, started))
        their_answers += [(str(path), _answer(reference.answer, path)) for path in started]
        for number, block in enumerate(blocks):
            results, seconds = [], {}
            lost_seconds = 0.0
            for side in ("theirs", "ours") if number % 2 else ("ours", "theirs"):  # neither is always the first
                began_at, queued = time.monotonic(), queued_seconds()
                if side == "ours":
                    results = _predict(executor, block)
                else:
                    their_answers += [(str(path), _answer(reference.answer, path)) for path in block]
                seconds[side] = time.monotonic() - began_at
                lost_seconds += queued_seconds() - queued if side == "theirs" else 0.0
            if executor.num_workers <= executor.num_cores:  # more of them take the cores from each other
                lost_seconds += seconds["ours"] * _lost_share(results)
            ours += _items(results)
            timed.append(TimedBlock(len(block), seconds["theirs"], seconds["ours"], lost_seconds))
    compare = _comparison(artifact, reference.gives_outputs)
    report = compare(their_answers, ours, blocks=timed)
    if failure_of(report, LABEL_MARGIN) is None:
        return report
    return replace(report, explained=explain_differences(artifact, their_answers, report, compare))


def _comparison(artifact: Artifact, are_outputs: bool) -> Callable[..., CheckReport]:
    output, labels = artifact.manifest.output, artifact.labels
    if detection := output.detection:
        return partial(compare_object_answers, detection=detection, labels=labels)
    return partial(compare_answers, labels=labels, activation=output.activation, are_outputs=are_outputs)


def failure_of(report: CheckReport, tolerance: float) -> InferError | None:
    """Return why the two differ: in more than a few answers, or in scores by more than `tolerance`.

    Answers count by the worse of all and of what chance leaves of them. Of objects the mean difference of scores
    counts, else the median. Return ProvesLittle if the two may be the same by chance, or differ in some scores alone.
    """
    if report.agreement is None:
        hint = "at least one image needs an answer of both"
        if report.num_compared:
            hint = "neither side found an object; take images that show some"
        return UsageError("nothing could be compared", hint)
    found = report.objects
    if found and found.geometry:
        hint = "one of the two maps boxes back to the upright picture otherwise: look at its shift, scale and padding"
        return UsageError(f"your boxes are {found.geometry}", hint)
    num = report.num_compared if found is None else found.num_theirs
    differing = len(report.disagreements) if found is None else num - found.num_found  # theirs may leave some out
    is_chance = differing > 1 and report.beyond_chance < SAME_BEYOND_CHANCE
    if not report.agreement or is_chance or differing > max(1, (1 - SAME) * num):
        what = f"{differing:,} of {num:,} answers are not" if report.agreement else "not one answer is"
        return UsageError(f"{what} the same", _what_differs(report))
    difference = report.scores.median_difference if report.scores else 0.0
    if found:
        difference = found.mean_score_difference or 0.0
    if difference <= tolerance:
        return _doubt(report)
    how = "on average" if found else "in the median"
    message = f"scores of the same answers differ by {difference:.3f} {how}, {tolerance:g} is allowed"
    return UsageError(message, f"activation is wrong, or {_what_differs(report)}")


def _doubt(report: CheckReport) -> ProvesLittle | None:
    """Return why the same answers prove little, if they do."""
    found, classes = report.objects, [one for one in report.classes if one.num_theirs]
    nums = sorted(one.num_theirs for one in classes)
    few = nums[0] if 1 < len(nums) <= FEW_CLASSES else sum(nums[:-1])
    if found is not None:
        few = found.num_theirs
    if few < ENOUGH:
        named = ", ".join(f"{one.num_theirs:,} {one.label}" for one in classes[:FEW_CLASSES])
        message = f"this proves little: your answers are {named or counted(few, 'object')}"
        hint = f"give images with {ENOUGH} or more of each that you rely on"
        return ProvesLittle(message, f"{hint}; {report.explained}" if report.explained else hint)
    if found and found.num_extra > max(1, (1 - SAME_BEYOND_CHANCE) * found.num_ours):
        message = f"of our {counted(found.num_ours, 'object')}, you do not have {found.num_extra:,}"
        return ProvesLittle(message, f"does your program leave some out? Else {_what_differs(report)}")
    for one in classes:
        if one.num_theirs - one.num_same > max(1, (1 - SAME_BEYOND_CHANCE) * one.num_theirs):
            message = f"of your {one.num_theirs:,} {one.label}, {one.num_same:,} are the same"
            return ProvesLittle(message, _what_differs(report))
    if not report.scores or not report.scores.num_moved:
        return None
    message = f"scores of {counted(report.scores.num_moved, report.unit)} of the same label differ by more than {MOVED}"
    return ProvesLittle(message, f"does your program store a JPEG in between? Else {_what_differs(report)}")


def _what_differs(report: CheckReport) -> str:
    if report.explained:
        return report.explained
    if report.objects is not None:
        return f"{WHAT_DIFFERS}, or the head; or your boxes are not x1 y1 x2 y2 in pixels of the upright picture"
    of_crop = "what is cut out (crop, crop_margin, crop_rounding), or " if report.unit == "object" else ""
    return of_crop + WHAT_DIFFERS


def cut_into_blocks(paths: Sequence[Path], num_workers: int) -> list[Sequence[Path]]:
    """Return the images that both sides start with, then blocks of about equal size that are timed, at most MAX_BLOCKS.

    A block has several chunks for each worker, so that the end of a block, where some of them are idle, is short.
    """
    num_first = min(len(paths), FIRST_CHUNKS * FEW_IMAGES * num_workers)
    rest = paths[num_first:]
    num_blocks = min(MAX_BLOCKS, max(MIN_BLOCKS, len(rest) // (BLOCK_CHUNKS * FEW_IMAGES * num_workers)))
    size = math.ceil(len(rest) / num_blocks)
    return [paths[:num_first], *(rest[first : first + size] for first in range(0, len(rest), size or 1))]


def _predict(executor: Executor, paths: Sequence[Path]) -> list[ChunkResult]:
    return list(executor.predict(NewImage(ImageRef(str(path), str(path)), (0,)) for path in paths))


def _items(results: Sequence[ChunkResult]) -> list[Prediction | Broken]:
    items: list[Prediction | Broken] = []
    for result in results:
        items += [*result.predictions, *result.broken]
    return items


def _lost_share(results: Sequence[ChunkResult]) -> float:
    cpu, wall = Counter[str](), Counter[str]()
    for result in results:
        cpu.update(result.cpu_seconds)
        wall.update(result.wall_seconds)
    return lost_share(cpu, wall)


def _answer(function: Callable[..., object], *inputs: object) -> object:
    """Return what a function gives, or the exception that it raised: the user's may raise anything."""
    with redirect_stdout(sys.stderr):
        try:
            return function(*inputs)
        except Exception as error:
            return error


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
    found = _predict_both(loaded, artifacts, plans, paths, folder)
    detector, second = (artifact.manifest for artifact in artifacts)
    if not found.crops and not found.broken:
        raise UsageError(
            f"{detector.name} finds no object for {second.name} in {counted(len(paths), 'image')}",
            "take images that show some, or build the model with a lower min_score or other labels",
        )
    theirs, ours = list[tuple[str, object]](), list[Prediction | Broken](found.broken)
    for path, crops in sorted(found.crops.items()):
        rgb = _answer(open_upright, Path(path), second.recipe)
        for crop in crops:
            one, named = found.objects[path][crop.object], f"{path}, object {crop.object}"
            box = one.x, one.y, one.width, one.height
            theirs.append((named, rgb if isinstance(rgb, Exception) else _answer(reference.answer, rgb, box)))
            ours.append(Prediction(ImageRef(named, named), crop.output))
    return replace(_comparison(artifacts[SECOND], reference.gives_outputs)(theirs, ours), unit="object")


def _predict_both(
    loaded: LoadedSettings,
    artifacts: tuple[Artifact, Artifact],
    plans: Sequence[ExecutionPlan],
    paths: Sequence[Path],
    folder: Path,
) -> _Found:
    found = _Found()
    images = (NewImage(ImageRef(str(path), str(path)), (DETECTOR, SECOND)) for path in paths)
    with open_executor(loaded, artifacts, plans, _limits(loaded, folder, paths)) as executor:
        for result in executor.predict(images):
            for one in result.predictions:
                path = one.ref.location
                if one.model_index == DETECTOR:
                    found.objects[path] = one.output.objects or ()
                elif one.output.crops:
                    found.crops[path] = one.output.crops
            found.broken += [one for one in result.broken if one.model_index in (None, SECOND)]
    return found


def _limits(loaded: LoadedSettings, folder: Path, paths: Sequence[Path]) -> ReadLimits:
    return ReadLimits(folders_of(folder, paths), loaded.images.max_bytes)
