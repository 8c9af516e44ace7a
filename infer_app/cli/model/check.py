"""`infer model check`: compares a model with the user's own function on their images."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import short_name
from infer_app.artifact.second_network import check_against_detector
from infer_app.artifact.specs import WITH_LABELS
from infer_app.base.errors import EXIT_OK, UsageError
from infer_app.base.printing import counted, printable
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.base.telemetry.summary_line import describe_others
from infer_app.build.check.check_report import CheckReport, DifferentObject, ObjectComparison
from infer_app.build.check.reference_pipeline import (
    RECIPE_UNCHECKED,
    Input,
    ReferencePipeline,
    crop_reference,
    reference_pipeline,
)
from infer_app.build.check.side_by_side import compare_crops, compare_with, failure_of
from infer_app.build.sources.callables import resolve_callable
from infer_app.cli.commands.model_commands import CheckOptions
from infer_app.cli.model.model import find_model, print_progress
from infer_app.cli.terminal.failures import fail
from infer_app.cli.terminal.output import show_table
from infer_app.predict.execution_plan import plan_run, plan_together
from infer_app.predict.images.read.folder_scan import find_images
from infer_app.predict.verification.golden import LABEL_MARGIN
from infer_app.predict.verification.object_parity import EXACT_OBJECT, SAME_OBJECT
from infer_app.predict.verification.share import Share

WORST_SHOWN = 10


def check(options: CheckOptions) -> int:
    """Predict the same files with both: the user's function one by one, the model through the executor.

    Return the exit code: 2 if no image could be compared, or answers or scores are others; 4 if that proves little.
    """
    loaded = load_settings(options.config, {"run": {"workers": options.workers}})
    artifact = find_model(options.name, options.config)
    if artifact.manifest.output.kind not in WITH_LABELS:
        raise UsageError(
            f"{options.name} is of kind {artifact.manifest.output.kind}",
            "check compares labels and objects: classification and detection only",
        )
    report, variant, described = (_compare_crops if artifact.manifest.crop else _compare_images)(
        options, loaded, artifact
    )
    print(json.dumps(report.to_json())) if options.as_json else print_check(report, options, described)
    # The pixels may differ too, by the decoder and the resize: as for the golden images of a run.
    tolerance = max(LABEL_MARGIN, artifact.manifest.tolerance_of(variant).relative)
    failure = failure_of(report, tolerance)
    return fail(failure, as_json=False) if failure else EXIT_OK  # the report is all that --json prints


def _compare_images(options: CheckOptions, loaded: LoadedSettings, artifact: Artifact) -> tuple[CheckReport, str, str]:
    """Return the report of the user's images, the variant that predicted them, and what it was compared with."""
    reference = _reference(options, artifact, reference_pipeline)
    paths = _images_in(options.images, options.limit)
    print_progress(f"comparing {_version(artifact)} with {reference.described}")
    plan = plan_run(loaded, artifact)
    report = compare_with(reference, loaded, artifact, plan, paths, options.images)
    return report, plan.variant, reference.described


def _compare_crops(options: CheckOptions, loaded: LoadedSettings, artifact: Artifact) -> tuple[CheckReport, str, str]:
    """Return the same of the objects that the detector in use, or the newest one, finds in the user's images."""
    crop = artifact.manifest.crop
    assert crop is not None
    detector = find_model(crop.of, options.config)
    check_against_detector(crop, artifact.manifest.recipe, detector.manifest, detector.labels)
    reference = _reference(options, artifact, crop_reference)
    paths = _images_in(options.images, options.limit)
    objects = f"the objects of {_version(detector)}"
    print_progress(f"comparing {_version(artifact)}, on {objects}, with {reference.described}")
    plans = plan_together(loaded, (detector, artifact), (None, None))
    report = compare_crops(reference, loaded, (detector, artifact), plans, paths, options.images)
    return report, plans[1].variant, reference.described


def _reference(
    options: CheckOptions, artifact: Artifact, of_source: Callable[[Artifact], ReferencePipeline[Input]]
) -> ReferencePipeline[Input]:
    """Return the user's function, or else what the model's source gives."""
    with redirect_stdout(sys.stderr):  # output of the user's module must not mix with ours
        if options.against is not None:
            return ReferencePipeline(resolve_callable(options.against), options.against)
        return of_source(artifact)


def _version(artifact: Artifact) -> str:
    return short_name(artifact.manifest.name, artifact.manifest.model_id)


def _images_in(folder: Path, limit: int | None) -> list[Path]:
    if not folder.exists():
        raise UsageError(f"no such folder: {folder}")
    paths = [path.absolute() for path in find_images(folder)][:limit]
    if not paths:
        raise UsageError(f"no images in {folder}")
    return paths


def print_check(report: CheckReport, options: CheckOptions, described: str) -> None:
    """Print the worst images first and the agreement last; `described` says what the model was compared with."""
    if worst := report.disagreements[:WORST_SHOWN]:
        cells = [(path_in(options.images, one.path), one.theirs, one.ours, f"{one.our_score:.3f}") for one in worst]
        show_table((report.unit, "yours", "ours", "our score"), cells, "where we disagree, the surest first")
    other = "your function" if options.against else "the model's source"
    for kind, failures in ((f"{other} failed on", report.their_failures), ("we reject", report.our_rejections)):
        for failure in failures[:WORST_SHOWN]:
            print(f"{kind} {printable(failure.path)}: {printable(failure.reason)}")
        if len(failures) > WORST_SHOWN:
            print(f"… and {len(failures) - WORST_SHOWN:,} more")
    if report.unit == "image":
        print(_speed(report))
    if report.objects is not None:
        print_objects(report.objects, options.images, report.num_compared)
    if report.agreement is None:
        return
    if report.objects is None:
        _print_labels(report)
    if described.endswith(RECIPE_UNCHECKED):
        print(RECIPE_UNCHECKED)


def _print_labels(report: CheckReport) -> None:
    assert report.agreement is not None
    for one in report.classes[:WORST_SHOWN]:
        if one.num_same < max(one.num_theirs, one.num_ours):
            label = printable(one.label)
            print(f"of your {one.num_theirs:,} {label}, {one.num_same:,} are the same; we have {one.num_ours:,} in all")
    print(f"same answer on {Share(report.agreement, report.num_compared, report.unit)}")
    if report.scores is not None:
        found = report.scores
        print(f"scores differ by {found.mean_difference:.3f} on average and {found.worst_difference:.3f} at worst")


def _speed(report: CheckReport) -> str:
    if not report.num_timed:
        return "too few images to measure the speed"
    others = describe_others(report.taken_by_others or 0.0)
    compared = "too few to compare them"
    if report.ratio is not None and report.ratio_range is not None:
        compared = f"{report.ratio:.1f} times the rate ({report.ratio_range[0]:.1f} to {report.ratio_range[1]:.1f})"
    return (
        f"yours {report.their_images_per_second:.1f} images/s, ours {report.our_images_per_second:.1f}: {compared}, "
        f"measured in turn on {report.num_timed:,} images, start-up left out" + (f"; {others}" if others else "")
    )


def path_in(folder: Path, path: str) -> str:
    """Return the path of an image from the folder on, which tells it from others of its name."""
    return os.path.relpath(path, folder if folder.is_dir() else folder.parent)


def print_objects(objects: ObjectComparison, folder: Path, num_images: int) -> None:
    """Print the images and the objects that differ most first, and the share that is found last."""
    if objects.differences:
        _show_images(objects.differences, folder)
        _show_objects(objects.differences, folder)
    for note in objects.notes:
        print(f"warning: {note}")
    if not objects.num_theirs and not objects.num_ours:
        return
    whole = " of boxes that you cut to whole pixels" if objects.min_overlap < EXACT_OBJECT else ""
    num_theirs = objects.num_theirs
    found = Share(objects.num_found / max(1, num_theirs), num_theirs, "object", min(num_theirs, num_images))
    print(
        f"found {objects.num_found:,} of your {counted(num_theirs, 'object')} ({found.between}), with the same label "
        f"and an overlap (IoU) of {objects.min_overlap}{whole}, from a score of {objects.min_score:.2f} on; "
        f"{objects.num_extra:,} of our {objects.num_ours:,} you do not have"
    )
    if objects.mean_overlap is not None:
        print(
            f"those that overlap by {SAME_OBJECT} do so by {objects.mean_overlap:.3f} on average, and scores differ by "
            f"{objects.mean_score_difference:.3f} on average and {objects.worst_score_difference:.3f} at worst"
        )


def _show_images(differences: Sequence[DifferentObject], folder: Path) -> None:
    by_side = {side: Counter(one.path for one in differences if one.found_by == side) for side in ("theirs", "ours")}
    most = (by_side["theirs"] + by_side["ours"]).most_common(WORST_SHOWN)
    rows = [(path_in(folder, path), str(by_side["theirs"][path]), str(by_side["ours"][path])) for path, _ in most]
    show_table(("image", "yours not found", "ours that you lack"), rows, "images that differ most")


def _show_objects(differences: Sequence[DifferentObject], folder: Path) -> None:
    rows = [
        (
            path_in(folder, one.path),
            "you" if one.found_by == "theirs" else "we",
            one.label,
            f"{one.score:.3f}",
            " ".join(f"{value:.0f}" for value in one.box),
            f"{one.overlap:.2f}",
        )
        for one in differences[:WORST_SHOWN]
    ]
    columns = ("image", "found by", "label", "score", "x1 y1 x2 y2", "best overlap of the other")
    show_table(columns, rows, "objects that only one side has, the surest first")
