"""`infer model build` and `judge`: build a model and its variants, and say what these keep of its outputs."""

import heapq
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from infer_app.artifact.artifact import Artifact, open_artifact
from infer_app.artifact.description import Description
from infer_app.artifact.model_file import describe_values, read_assignments, read_model_file
from infer_app.artifact.model_names import short_name
from infer_app.base.day import between
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.machine import has_vnni
from infer_app.base.model_variants import OPENVINO_INT8
from infer_app.base.packages import install
from infer_app.base.printing import counted
from infer_app.base.settings.load import load_settings
from infer_app.build.build_model import build_model
from infer_app.build.network.model_source import find_source
from infer_app.build.network.validate_detector import doubt_boxes
from infer_app.build.sources.source_facts import describe_facts
from infer_app.build.variants.add_gpu_variants import BuildTarget, add_gpu_variants, check_gpu_variants
from infer_app.build.variants.calibration import Calibration
from infer_app.build.variants.judge_variants import judge_variants
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.commands.model_commands import JudgeOptions
from infer_app.cli.model.model import (
    find_model,
    models_folder,
    print_progress,
    print_specs,
    recipe_as_text,
    show_tables,
    show_variants,
    unproven_activation,
    unproven_boxes,
    unproven_runtime,
)
from infer_app.cli.model.run_after_build import RunAfterBuild
from infer_app.cli.model.variant_files import check_replaceable
from infer_app.cli.model.version_commands import put_in_use
from infer_app.predict.runtimes import openvino
from infer_app.predict.runtimes.gpu_probe import Host, describe_host
from infer_app.predict.verification.agreement import MIN_JUDGED, find_min_agreement
from infer_app.predict.workers.isolated_call import run_in_process
from infer_app.tables.project_database import open_project_database, read_limits

# EfficientNet-Lite0, in our measurements.
WITHOUT_VNNI = "this CPU has no VNNI: int8 kept 98.1 % of the labels on such a one, at 1.4 times the rate"
UNPROVEN = {"recipe", "mean", "std", "channels", "antialias", "head"}  # what a source says of them may not be so
FLAGS = ("name", "labels", "output", "recipe", "size", "weights")  # keys of a model file that are options too


def build(options: BuildOptions) -> None:
    """Build a model artifact with the variants asked for; an unchanged artifact is kept as it is."""
    if options.use:
        load_settings(options.config)  # without a project there is no database that could record it
    calibration = _calibration(options)
    if calibration is not None and not has_vnni():
        print_progress(WITHOUT_VNNI)
    stated = _read_description(options)
    with redirect_stdout(sys.stderr):  # output of the user's module or of a library must not mix with ours
        source = find_source(stated.source, stated.weights)
        said = source.facts(stated.output_name)
        facts = said.taken(stated.stated)
    gpu = _gpu_variants(options, source.kind, describe_host())
    if facts:
        print_progress(f"taken from {stated.source}: {describe_facts(facts)}")
    if said.unused and "labels" not in facts.keys() | stated.stated.keys():
        print_progress(f"not used, though it may name the labels: the file's metadata {', '.join(said.unused)}")
    described = describe_values({key: fact.value for key, fact in facts.items()} | stated.stated)
    detector = find_model(described.of, options.config) if described.of else None
    started = time.monotonic()
    with redirect_stdout(sys.stderr):
        artifact = build_model(described, models_folder(options.config), detector)
        by_default, by_source = described.silent_defaults(), sorted(facts.keys() & UNPROVEN)
        if by_default or by_source:
            print_progress(_compare_hint(by_default, by_source, short_name(described.name, artifact.manifest.model_id)))
        is_reused, num_variants = artifact.reused, len(artifact.manifest.variants)
        target = BuildTarget.local(source.make_module)
        artifact = _with_variants(artifact, calibration, gpu, target, options.config)
        is_same = is_reused and calibration is None and not gpu and len(artifact.manifest.variants) == num_variants
    manifest = artifact.manifest
    told = unproven_activation(artifact), unproven_boxes(manifest), doubt_boxes(artifact), unproven_runtime(manifest)
    for warning in filter(None, told):
        print_progress(warning)
    if not options.as_json:
        _print_built(artifact, None if is_same else time.monotonic() - started)
    _print_next_run(options, artifact, is_reused)


def _read_description(options: BuildOptions) -> Description:
    """Return what the model file and the options state, the options first."""
    path = Path(options.source)
    values = read_model_file(path) if path.suffix == ".toml" else {"source": options.source}
    flags = {key: value for key in FLAGS if (value := getattr(options, key)) is not None}
    flags |= read_assignments(options.set or ())
    return describe_values(values | flags, dict.fromkeys(values.keys() - flags.keys(), options.source))


def _with_variants(
    artifact: Artifact, calibration: Calibration | None, gpu: Sequence[str], target: BuildTarget, config: Path | None
) -> Artifact:
    """Add the variants for this machine's processor, and the GPU variants that were asked for."""
    replaced = [*([OPENVINO_INT8] if calibration else []), *gpu]
    check = partial(check_replaceable, artifact, replaced, config)
    check()
    artifact = add_variants(artifact, calibration, print_progress, check)
    return add_gpu_variants(artifact, gpu, target, print_progress, calibration, check) if gpu else artifact


def _print_next_run(options: BuildOptions, artifact: Artifact, is_reused: bool) -> None:
    """Put the version in use if that was asked for, and say what the next run takes."""
    manifest = artifact.manifest
    switch = put_in_use(artifact, options.config) if options.use else None
    next_run = RunAfterBuild.of(artifact, options.config)
    if options.as_json:
        built = {"model": manifest.name, "model_id": manifest.model_id, "folder": str(artifact.folder)}
        built |= {"of": manifest.crop.of} if manifest.crop else {}
        runs_next = {"in_use": next_run.takes_it, "next_run": next_run.model_id}
        print(json.dumps(built | {"reused": is_reused, "variants": list(manifest.variants)} | runs_next))
        return
    for line in [*(switch.lines() if switch else ()), *next_run.lines()]:
        print(line)


def _compare_hint(by_default: Mapping[str, str], by_source: Sequence[str], name: str) -> str:
    taken = [f"taken by default: {', '.join(f'{key} {value}' for key, value in by_default.items())}"] * bool(by_default)
    taken += [f"only the source states {', '.join(by_source)}"] * bool(by_source)
    command = f"`infer model check {name} --against package.module:function --images FOLDER`"
    return f"{'; '.join(taken)}; {command} compares with your own code"


def _gpu_variants(options: BuildOptions, source_kind: str, host: Host) -> list[str]:
    """Return the full names of the GPU variants to build; an option may hold several names with commas between.

    Raises UsageError for an unknown variant and ModelError for one that can't be built on this machine.
    """
    names = [name.strip() for given in options.variant or () for name in given.split(",") if name.strip()]
    return check_gpu_variants(names, source_kind, host)


def _calibration(options: BuildOptions) -> Calibration | None:
    """Return how int8 is calibrated, None without --calibrate. Raises UsageError for a share that is none, and
    ModelError without NNCF.
    """
    share = parse_share(options.min_agreement)
    if options.calibrate is None:
        return None
    if not openvino.can_quantise():
        raise ModelError("int8 needs NNCF", install("int8"))
    return Calibration(options.calibrate, share)


def parse_share(text: str | None) -> float | None:
    """Return the share of --min-agreement, 0-1, None if it is not given. Raises UsageError."""
    if text is None:
        return None
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise UsageError(f"--min-agreement {text!r} is no share", "for example 99%") from None
    if not 0 < share <= 1:
        raise UsageError(f"--min-agreement {text!r} is no share", "for example 0.99, or 99%")
    return share


def _print_built(artifact: Artifact, seconds: float | None) -> None:
    """Print what was built in so many seconds; None: it was there already, with the same files."""
    manifest = artifact.manifest
    if seconds is None:
        print(f"{manifest.name} {manifest.model_id} is there already, its files are unchanged: {artifact.folder}")
        return
    print(f"built {manifest.name} {manifest.model_id} in {seconds:.1f} s: {artifact.folder}")
    print(f"recipe: {recipe_as_text(manifest)}")
    print_specs(manifest)
    golden = counted(len(manifest.golden), "golden image")
    print(f"{counted(manifest.num_outputs, 'output')} per image; verified on {golden} before every run")
    if reference := manifest.built_with.get("reference"):
        print(f"the golden outputs were computed by {reference}")
    show_tables(manifest)


def judge(options: JudgeOptions) -> None:
    """Judge every variant that can run here, record the result with the model, and print it."""
    loaded = load_settings(options.config)
    artifact = find_model(options.name, options.config)
    if artifact.manifest.crop:
        raise UsageError(
            f"{artifact.manifest.name} is a second network: its pictures are objects, not the images of a day",
            "build it with --calibrate FOLDER of crops, which builds int8 and judges half precision on them",
        )
    min_agreement = find_min_agreement(artifact.manifest.output, parse_share(options.min_agreement))
    day = between(loaded.days(options.date, options.until or options.date))
    with open_project_database(loaded, read_only=True) as project:
        draw = random.Random(0).random  # the same images at each call
        locations = [
            one.location for one in heapq.nsmallest(options.count, project.source.read_refs(day), key=lambda _: draw())
        ]
    if not locations:
        raise UsageError(f"there are no images on {day}", "name other days with --date and --until")
    if len(locations) < MIN_JUDGED:
        needed = f"{MIN_JUDGED} are needed for half precision and int8 on a CPU"
        more = "name more days with --date and --until, or a larger --count"
        print_progress(f"{counted(len(locations), 'image')} can judge, {needed}: {more}")
    keep_better = "count" not in options.given
    judged = run_in_process(judge_variants, artifact.folder, read_limits(loaded), locations, min_agreement, keep_better)
    for variant, one in judged.items():
        if one.parity.num_images > one.num_images:
            kept, count = counted(one.parity.num_images, "image"), one.num_images
            print_progress(f"{variant}: its judgement on {kept} is kept; --count {count} replaces it by this one")
    if options.as_json:
        found = {name: one.parity.to_json() | {"meets_bar": one.meets_bar} for name, one in judged.items()}
        print(json.dumps({"min_agreement": min_agreement, "variants": found}))
        return
    show_variants(open_artifact(artifact.folder).manifest)
