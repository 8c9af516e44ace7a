"""`infer model check`: compares a model with the user's own function on their images."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from infer_app.cli.commands.model_commands import CheckOptions
from infer_app.cli.model.model import find_model, print_progress
from infer_app.cli.model.object_differences import WHAT_DIFFERS, path_in, print_objects
from infer_app.cli.model.own_pipeline import RECIPE_UNCHECKED, Answer, own_pipeline
from infer_app.cli.terminal.failures import fail
from infer_app.cli.terminal.output import show_table
from infer_app.domain import Broken, ChunkResult, ImageRef, Prediction
from infer_app.errors import EXIT_OK, UsageError
from infer_app.images.read.folder_scan import find_images, folders_of
from infer_app.model_names import short_name
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.specs import WITH_LABELS
from infer_app.models.sources.callables import resolve_callable
from infer_app.models.verification.function_check import CheckReport, TimedBlock, compare_answers
from infer_app.models.verification.golden import LABEL_MARGIN
from infer_app.models.verification.object_check import compare_object_answers
from infer_app.pipeline.executors import Executor, open_executor
from infer_app.pipeline.flow.chunking import FEW_IMAGES, chunks_of
from infer_app.pipeline.planning.execution_plan import ExecutionPlan, plan_run
from infer_app.plurals import counted
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.bottleneck import lost_share
from infer_app.telemetry.printable import printable
from infer_app.telemetry.stage_clock import queued_seconds
from infer_app.telemetry.summary_line import describe_others

WORST_SHOWN = 10
SUSPICIOUS = 0.95  # two decoders and two resizes of one recipe agree on more
FIRST_CHUNKS = 2  # for each worker, which both sides start with
BLOCK_CHUNKS = 8  # for each worker, in a block, if there are as many images
MIN_BLOCKS, MAX_BLOCKS = 2, 8


def check(options: CheckOptions) -> int:
    """Predict the same files with both: the user's function one by one, the model through the executor.

    Return the exit code, 2 if no image could be compared, no answer is the same, or the scores are others.
    """
    loaded = load_settings(options.config, {"run": {"workers": options.workers}})
    folder = options.images
    artifact = find_model(options.name, options.config)
    with redirect_stdout(sys.stderr):  # output of the user's module must not mix with ours
        if options.against is not None:
            theirs, described = resolve_callable(options.against), options.against
        else:
            theirs, described = own_pipeline(artifact)
    if not folder.exists():
        raise UsageError(f"no such folder: {folder}")
    paths = [path.absolute() for path in find_images(folder)][: options.limit]
    if not paths:
        raise UsageError(f"no images in {folder}")
    if artifact.manifest.output.kind not in WITH_LABELS:
        raise UsageError(
            f"{options.name} is of kind {artifact.manifest.output.kind}",
            "check compares labels and objects: classification and detection only",
        )
    print_progress(f"comparing {short_name(artifact.manifest.name, artifact.manifest.model_id)} with {described}")
    plan = plan_run(loaded, artifact)
    are_outputs = options.against is None
    report = _compare(loaded, artifact, plan, theirs, paths, folders_of(folder, paths), are_outputs=are_outputs)
    print(json.dumps(report.to_json())) if options.as_json else _print_check(report, options, described)
    # The pixels may differ too, by the decoder and the resize: as for the golden images of a run.
    tolerance = max(LABEL_MARGIN, artifact.manifest.tolerance_of(plan.variant).relative)
    failure = _failure_of(report, tolerance)
    return fail(failure, as_json=False) if failure else EXIT_OK  # the report is all that --json prints


def _failure_of(report: CheckReport, tolerance: float) -> UsageError | None:
    """Return why the check fails; scores may differ by `tolerance`, of objects on average, else in the median."""
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


def _compare(
    loaded: LoadedSettings,
    artifact: Artifact,
    plan: ExecutionPlan,
    theirs: Answer,
    paths: Sequence[Path],
    roots: tuple[Path, ...],
    *,
    are_outputs: bool,
) -> CheckReport:
    """Predict the images with both sides, block by block in turn, so that what else the machine does affects both.

    The first block is not timed: both sides start with it.
    """
    their_answers: list[tuple[str, object]] = []
    ours: list[Prediction | Broken] = []
    timed: list[TimedBlock] = []
    with open_executor(loaded, [artifact], [plan], roots) as executor:
        started, *blocks = cut_into_blocks(paths, executor.num_workers)
        ours += _items(_predict(executor, started))
        their_answers += [_their_answer(theirs, path) for path in started]
        for number, block in enumerate(blocks):
            results, seconds = [], {}
            lost_seconds = 0.0
            for side in ("theirs", "ours") if number % 2 else ("ours", "theirs"):  # neither is always the first
                began_at, queued = time.monotonic(), queued_seconds()
                if side == "ours":
                    results = _predict(executor, block)
                else:
                    their_answers += [_their_answer(theirs, path) for path in block]
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
        their_answers, ours, artifact.labels, blocks=timed, activation=output.activation, are_outputs=are_outputs
    )


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


def _their_answer(function: Answer, path: Path) -> tuple[str, object]:
    with redirect_stdout(sys.stderr):
        try:
            return str(path), function(path)
        except Exception as error:  # the user's function may raise anything; it counts as its answer for this image
            return str(path), error


def _print_check(report: CheckReport, options: CheckOptions, described: str) -> None:
    """Print the worst images first and the agreement last; `described` says what the model was compared with."""
    if worst := report.disagreements[:WORST_SHOWN]:
        cells = [(path_in(options.images, one.path), one.theirs, one.ours, f"{one.our_score:.3f}") for one in worst]
        show_table(("image", "yours", "ours", "our score"), cells, "where we disagree, the surest first")
    other = "your function" if options.against else "the model's source"
    for kind, failures in ((f"{other} failed on", report.their_failures), ("we reject", report.our_rejections)):
        for failure in failures[:WORST_SHOWN]:
            print(f"{kind} {printable(failure.path)}: {printable(failure.reason)}")
        if len(failures) > WORST_SHOWN:
            print(f"… and {len(failures) - WORST_SHOWN:,} more")
    print(_speed(report))
    if report.objects is not None:
        print_objects(report.objects, options.images)
    if report.agreement is None:
        return
    if report.objects is None:
        _print_labels(report)
    if report.objects is None and report.num_labels == 1 and report.num_compared > 1:
        print("the model gives all of these images the same label, so this says little")
    if described.endswith(RECIPE_UNCHECKED):
        print(RECIPE_UNCHECKED)


def _print_labels(report: CheckReport) -> None:
    assert report.agreement is not None
    same = report.num_compared - len(report.disagreements)
    print(f"same answer on {same:,} of {counted(report.num_compared, 'image')} ({100 * report.agreement:.1f} %)")
    if 0 < report.agreement < SUSPICIOUS:
        print(f"that is low: {WHAT_DIFFERS}")
    if report.scores is not None:
        found = report.scores
        print(f"scores differ by {found.mean_difference:.3f} on average and {found.worst_difference:.3f} at worst")


def _speed(report: CheckReport) -> str:
    if report.ratio is None or report.ratio_range is None:
        return "too few images to compare the speed"
    others = describe_others(report.taken_by_others or 0.0)
    return (
        f"yours {report.their_images_per_second:.1f} images/s, ours {report.our_images_per_second:.1f}: "
        f"{report.ratio:.1f} times the rate ({report.ratio_range[0]:.1f} to {report.ratio_range[1]:.1f}), "
        f"measured in turn on {report.num_timed:,} images, start-up left out" + (f"; {others}" if others else "")
    )
