"""`infer model check`: compares a model with the user's own function on their images."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from infer_app.cli.terminal.options import CheckOptions
from infer_app.cli.terminal.output import show_table
from infer_app.database.listing.image_registry import find_images
from infer_app.domain import Broken, ImageRef, Prediction
from infer_app.errors import UsageError
from infer_app.models.artifact.artifact import Artifact, find_artifact
from infer_app.models.build.callables import resolve_callable
from infer_app.models.verification.function_check import CheckReport, compare_answers
from infer_app.pipeline.chunking import chunks_of
from infer_app.pipeline.execution_plan import plan_run
from infer_app.pipeline.executors import open_executor
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printable import printable

WORST_SHOWN = 10
SUSPICIOUS = 0.95  # two decoders and two resizes of one recipe agree on more
ENOUGH_FOR_A_RATE = 200  # images; with fewer, starting the workers takes most of the time


def check(options: CheckOptions) -> None:
    """Predict the same files with both: the user's function one by one, the model through the executor."""
    loaded = load_settings(options.config, {"run": {"workers": options.workers}})
    folder = options.images
    artifact = find_artifact(loaded.models_folder, options.name)
    with redirect_stdout(sys.stderr):  # output of the user's module must not mix with ours
        theirs = resolve_callable(options.against)
    if not folder.exists():
        raise UsageError(f"no such folder: {folder}")
    paths = [path.absolute() for path in find_images(folder)][: options.limit]
    if not paths:
        raise UsageError(f"no images in {folder}")
    if artifact.manifest.output.kind != "classification":
        raise UsageError(
            f"{options.name} is of kind {artifact.manifest.output.kind}", "check compares labels: classification only"
        )
    started = time.monotonic()
    with redirect_stdout(sys.stderr):
        their_answers = [(str(path), _their_answer(theirs, path)) for path in paths]
    halfway = time.monotonic()
    ours = _run_ours(loaded, artifact, paths, folder.resolve())
    report = compare_answers(
        their_answers,
        ours,
        artifact.labels,
        their_seconds=halfway - started,
        our_seconds=time.monotonic() - halfway,
    )
    print(json.dumps(report.to_json())) if options.as_json else _print_check(report)


def _their_answer(function: Callable[[Path], object], path: Path) -> object:
    try:
        return function(path)
    except Exception as error:  # the user's function may raise anything; it counts as its answer for this image
        return error


def _run_ours(
    loaded: LoadedSettings, artifact: Artifact, paths: Sequence[Path], root: Path
) -> list[Prediction | Broken]:
    refs = [ImageRef(str(path), str(path)) for path in paths]
    roots = (root if root.is_dir() else root.parent,)
    with open_executor(loaded, [artifact], [plan_run(loaded, artifact)], roots) as executor:
        results = list(executor.pool.run(chunks_of(refs)))
    items: list[Prediction | Broken] = []
    for result in results:
        items += [*result.predictions, *result.broken]
    return items


def _print_check(report: CheckReport) -> None:
    """Print the worst images first and the agreement last."""
    if report.disagreements:
        cells = [(Path(one.path).name, one.theirs, one.ours, f"{one.our_score:.3f}") for one in report.disagreements]
        show_table(("image", "yours", "ours", "our score"), cells[:WORST_SHOWN], "where we disagree, the surest first")
    for kind, failures in (("your function failed on", report.their_failures), ("we reject", report.our_rejections)):
        for failure in failures[:WORST_SHOWN]:
            print(f"{kind} {printable(failure.path)}: {printable(failure.reason)}")
        if len(failures) > WORST_SHOWN:
            print(f"… and {len(failures) - WORST_SHOWN:,} more")
    print(
        f"yours {_rate(report.their_images_per_second)}, ours {_rate(report.our_images_per_second)}, start-up included"
    )
    if report.agreement is None:
        print("nothing could be compared")
        return
    same = report.num_compared - len(report.disagreements)
    agreement = f"same answer on {same:,} of {report.num_compared:,} images ({100 * report.agreement:.1f} %)"
    if report.ratio and report.num_images >= ENOUGH_FOR_A_RATE:
        agreement += f", {report.ratio:.1f} times the rate"
    print(agreement)
    if report.agreement < SUSPICIOUS:
        print(
            "so low an agreement means that the recipe differs (size, crop, interpolation, mean, std) or the order of "
            "the labels"
        )


def _rate(images_per_second: float | None) -> str:
    return "unknown" if images_per_second is None else f"{images_per_second:.1f} images/s"
