"""Compare a model with another function on the same files: the function one by one, the model through the executor."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from infer_app.domain import Broken, ChunkResult, ImageRef, Prediction
from infer_app.errors import UsageError
from infer_app.images.read.folder_scan import folders_of
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.verification.check_report import CheckReport, TimedBlock
from infer_app.models.verification.function_check import compare_answers
from infer_app.models.verification.object_check import compare_object_answers
from infer_app.pipeline.executors import Executor, open_executor
from infer_app.pipeline.flow.chunking import FEW_IMAGES, chunks_of
from infer_app.pipeline.planning.execution_plan import ExecutionPlan
from infer_app.replay.reference_pipeline import ReferencePipeline
from infer_app.settings.load import LoadedSettings
from infer_app.telemetry.bottleneck import lost_share
from infer_app.telemetry.stage_clock import queued_seconds

WHAT_DIFFERS = (
    "the recipe differs in channels (--channels bgr), scale (pixels of 0 to 255 are --mean 0 --std 0.00392157), mean, "
    "std, size, resize (--recipe, --resize), interpolation or antialiasing (--antialias), or the order of the labels "
    "does"
)
FIRST_CHUNKS = 2  # for each worker, which both sides start with
BLOCK_CHUNKS = 8  # for each worker, in a block, if there are as many images
MIN_BLOCKS, MAX_BLOCKS = 2, 8


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
    with open_executor(loaded, [artifact], [plan], folders_of(folder, paths)) as executor:
        started, *blocks = cut_into_blocks(paths, executor.num_workers)
        ours += _items(_predict(executor, started))
        their_answers += [_their_answer(reference, path) for path in started]
        for number, block in enumerate(blocks):
            results, seconds = [], {}
            lost_seconds = 0.0
            for side in ("theirs", "ours") if number % 2 else ("ours", "theirs"):  # neither is always the first
                began_at, queued = time.monotonic(), queued_seconds()
                if side == "ours":
                    results = _predict(executor, block)
                else:
                    their_answers += [_their_answer(reference, path) for path in block]
                seconds[side] = time.monotonic() - began_at
                lost_seconds += queued_seconds() - queued if side == "theirs" else 0.0
            if executor.num_workers <= executor.num_cores:  # more of them take the cores from each other
                lost_seconds += seconds["ours"] * _lost_share(results)
            ours += _items(results)
            timed.append(TimedBlock(len(block), seconds["theirs"], seconds["ours"], lost_seconds))
    output = artifact.manifest.output
    if detection := output.detection:
        return compare_object_answers(their_answers, ours, detection, artifact.labels, blocks=timed)
    return compare_answers(
        their_answers,
        ours,
        artifact.labels,
        blocks=timed,
        activation=output.activation,
        are_outputs=reference.gives_outputs,
    )


def failure_of(report: CheckReport, tolerance: float) -> UsageError | None:
    """Return why the two differ; scores may differ by `tolerance`, of objects on average, else in the median."""
    if report.agreement is None:
        hint = "at least one image needs an answer of both"
        if report.num_compared:
            hint = "neither side found an object; take images that show some"
        return UsageError("nothing could be compared", hint)
    if not report.agreement:
        return UsageError("not one answer is the same", WHAT_DIFFERS)
    difference = report.scores.median_difference if report.scores else 0.0
    if report.objects:
        difference = report.objects.mean_score_difference or 0.0
    if difference <= tolerance:
        return None
    message = f"labels are the same, scores are not: they differ by {difference:.3f}, {tolerance:g} is allowed"
    return UsageError(message, f"--activation is wrong, or {WHAT_DIFFERS}")


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
    refs = [ImageRef(str(path), str(path)) for path in paths]
    return list(executor.pool.run(chunks_of(refs, min(FEW_IMAGES, executor.chunk_size or FEW_IMAGES))))


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


def _their_answer(reference: ReferencePipeline[[Path]], path: Path) -> tuple[str, object]:
    with redirect_stdout(sys.stderr):
        try:
            return str(path), reference.answer(path)
        except Exception as error:  # the user's function may raise anything; it counts as its answer for this image
            return str(path), error
