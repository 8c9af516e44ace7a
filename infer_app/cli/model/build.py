"""`infer model build`: check the options, build the model and its variants, print the result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from typing import Any

from infer_app.cli.commands.model_commands import BuildOptions
from infer_app.cli.model.model import detection_as_text, models_folder, print_progress, recipe_as_text
from infer_app.cli.model.variant_files import check_replaceable
from infer_app.cli.model.variant_tables import (
    show_decoding,
    show_requirements,
    show_tuning,
    show_variants,
    unproven_activation,
    unproven_boxes,
)
from infer_app.cli.model.version_commands import RunAfterBuild, put_in_use
from infer_app.errors import ModelError, UsageError
from infer_app.images.decode.depth import parse_depth
from infer_app.machine import usable_cores
from infer_app.model_variants import OPENVINO_INT8
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.specs import WITH_LABELS, DetectionSpec, OutputSpec
from infer_app.models.build.add_gpu_variants import BuildTarget, add_gpu_variants, check_gpu_variants
from infer_app.models.build.build_model import BuildRequest, build_model
from infer_app.models.build.calibration import Calibration
from infer_app.models.build.model_source import find_source
from infer_app.models.build.openvino_variants import add_variants
from infer_app.models.runtimes import openvino
from infer_app.models.runtimes.gpu_probe import Host, describe_host
from infer_app.models.selection.tuning import load_tuning
from infer_app.models.sources.source_facts import Fact, describe
from infer_app.pipeline.planning.execution_plan import measure_speeds
from infer_app.pipeline.planning.measurement import measure_layouts
from infer_app.plurals import counted
from infer_app.recipe import Recipe, Size
from infer_app.settings.load import load_settings
from infer_app.settings.removed import DECODE_GPU, REMOVED

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
PAD = 114  # what YOLO's networks were trained with
# Of --output detection; networks of the detr family usually take ImageNet's mean and std, and stretched pictures.
DETECTION_DEFAULTS = {"recipe": "letterbox", "interpolation": "bilinear", "mean": "0", "std": "1"}
DETECTION_OPTIONS = ("head", "min_score", "nms", "max_objects")


def build(options: BuildOptions) -> None:
    """Build a model artifact with the variants asked for; an unchanged artifact is kept as it is."""
    if options.use:
        load_settings(options.config)  # without a project there is no database that could record it
    calibration = _calibration(options)
    with redirect_stdout(sys.stderr):  # output of the user's module or of a library must not mix with ours
        source = find_source(options.source, options.weights)
        facts = source.facts(options.output_name).taken(options.given_values())
    gpu = _gpu_variants(options, source.kind, describe_host())
    if facts:
        print_progress(f"taken from {options.source}: {describe(facts)}")
    request = _build_request(options, facts)
    started = time.monotonic()
    with redirect_stdout(sys.stderr):
        artifact = build_model(request, models_folder(options.config))
        if by_default := _taken_by_default(request, facts.keys() | options.given):
            print_progress(_compare_hint(by_default, request.name))
        is_reused, num_variants = artifact.reused, len(artifact.manifest.variants)
        replaced = [*([OPENVINO_INT8] if calibration else []), *gpu]
        check = partial(check_replaceable, artifact, replaced, options.config)
        check()
        artifact = add_variants(artifact, calibration, print_progress, check)
        if gpu:
            artifact = add_gpu_variants(
                artifact, gpu, source.make_module, BuildTarget.local(), print_progress, calibration, check
            )
        is_same = is_reused and calibration is None and not gpu and len(artifact.manifest.variants) == num_variants
        if options.tune and not (is_same and load_tuning(artifact.folder, usable_cores())):
            measure_layouts(artifact, measure_speeds(artifact), print_progress)
    manifest = artifact.manifest
    for warning in filter(None, (unproven_activation(artifact), unproven_boxes(manifest))):
        print_progress(warning)
    if not options.as_json:
        if is_same:
            print(f"{manifest.name} {manifest.model_id} is there already, its files are unchanged: {artifact.folder}")
        else:
            print(f"built {manifest.name} {manifest.model_id} in {time.monotonic() - started:.1f} s: {artifact.folder}")
            _print_built(artifact)
    switch = put_in_use(artifact, options.config) if options.use else None
    next_run = RunAfterBuild.of(artifact, options.config)
    if options.as_json:
        built = {"model": manifest.name, "model_id": manifest.model_id, "folder": str(artifact.folder)}
        runs_next = {"in_use": next_run.takes_it, "next_run": next_run.model_id}
        print(json.dumps(built | {"reused": is_reused, "variants": list(manifest.variants)} | runs_next))
        return
    for line in [*(switch.lines() if switch else ()), *next_run.lines()]:
        print(line)


def make_recipe(options: BuildOptions) -> Recipe:
    """Return the recipe with its defaults filled in. Raises UsageError for options that don't belong to it."""
    if options.decode == "gpu":
        raise UsageError(f"{DECODE_GPU} was removed", REMOVED[DECODE_GPU])
    if options.decode not in ("exact", "scaled"):
        raise UsageError(f"--decode {options.decode!r} is not known", "it is exact or scaled")
    if options.channels not in ("rgb", "bgr"):
        raise UsageError(f"--channels {options.channels!r} is not known", "it is rgb or bgr")
    depth = _depth(options)
    if options.preprocess is not None:
        if options.decode != "exact":
            raise UsageError(
                f"--decode {options.decode} does not go with --preprocess: your function gets the whole picture",
                "leave --decode out",
            )
        if options.channels != "rgb":
            raise UsageError(
                f"--channels {options.channels} does not go with --preprocess: your function gets RGB",
                "leave --channels out, and return the channels in the order in which the network takes them",
            )
        return Recipe("custom", options.size, interpolation=options.interpolation, exif=options.exif, depth=depth)
    kind = options.recipe
    if kind not in ("resize-crop", "crop-resize", "stretch", "letterbox"):
        raise UsageError(f"no recipe {kind!r}", "there are resize-crop, crop-resize, stretch and letterbox")
    if options.interpolation not in ("bicubic", "bilinear"):
        raise UsageError(f"no interpolation {options.interpolation!r}", "there are bicubic and bilinear")
    if options.exif not in ("apply", "ignore"):
        raise UsageError(f"--exif {options.exif!r} is not known", "it is apply or ignore")
    _check_crop(options)
    if kind == "crop-resize" and not options.size.is_square:
        raise UsageError(
            f"crop-resize takes a square out of the picture, and the model's input is {options.size}",
            "for a rectangle there are --recipe resize-crop, stretch and letterbox",
        )
    resize = _resize(options) if kind in ("resize-crop", "stretch") else None
    if options.crop_rounding != "nearest" and resize is None:
        raise UsageError(
            f"--crop-rounding {options.crop_rounding}, but nothing is resized and then cropped",
            "it is for --recipe resize-crop, and for stretch with --resize or --crop-pct",
        )
    crop = (options.crop if options.crop is not None else 0.875) if kind == "crop-resize" else None
    return Recipe(
        kind,
        options.size,
        resize,
        crop,
        interpolation=options.interpolation,
        exif=options.exif,
        decode=options.decode,
        depth=depth,
        channels=options.channels,
        crop_rounding=options.crop_rounding,
        pad=PAD if options.pad is None and kind == "letterbox" else options.pad or 0,
    )


def _depth(options: BuildOptions) -> str:
    try:
        return parse_depth(options.depth)
    except ValueError:
        known = (
            "it is full, window:LOW,HIGH with whole numbers up to 65535, or percentile:LOW,HIGH with numbers up to 100"
        )
        raise UsageError(f"--depth {options.depth!r} is not known", f"{known}; LOW is less than HIGH") from None


def _check_crop(options: BuildOptions) -> None:
    if options.recipe != "crop-resize" and options.crop is not None:
        raise UsageError("--crop belongs to --recipe crop-resize", "for other recipes give --resize or --crop-pct")
    if options.recipe == "crop-resize" and (options.resize is not None or options.crop_pct is not None):
        raise UsageError("--resize and --crop-pct do not belong to --recipe crop-resize", "give --crop")
    if options.crop_rounding not in ("nearest", "down"):
        raise UsageError(f"--crop-rounding {options.crop_rounding!r} is not known", "it is nearest or down")
    if options.recipe == "letterbox" and (options.resize is not None or options.crop_pct is not None):
        raise UsageError("--recipe letterbox crops nothing", "leave --resize and --crop-pct out")
    if options.recipe != "letterbox" and options.pad is not None:
        raise UsageError("--pad belongs to --recipe letterbox", "leave --pad out")
    for share in (options.crop, options.crop_pct):
        if share is not None and not 0 < share <= 1:
            raise UsageError(f"a crop of {share} is not a share between 0 and 1")


def _resize(options: BuildOptions) -> Size | None:
    """Return the size before the crop, None if nothing is cropped."""
    size, resize, crop_pct = options.size, options.resize, options.crop_pct
    if resize is not None and crop_pct is not None:
        raise UsageError("--resize and --crop-pct mean the same", "give one of them")
    if options.recipe == "stretch" and resize is None and crop_pct is None:
        return None
    if resize is None:
        share = 0.875 if crop_pct is None else crop_pct
        resize = Size(int(size.width / share), int(size.height / share))  # timm rounds them down
    if options.recipe == "resize-crop":
        return resize
    if resize.width < size.width or resize.height < size.height:
        raise UsageError(
            f"--recipe stretch crops {size} out of {resize}, which is smaller",
            "give --resize WIDTHxHEIGHT with both at least those of --size, or --crop-pct",
        )
    return None if resize == size else resize


def _taken_by_default(request: BuildRequest, stated: Collection[str]) -> list[str]:
    """Return what neither the user nor the source says, where a wrong guess gives no error."""
    recipe = request.recipe
    needed = {"recipe": recipe.kind, "size": str(recipe.size)} if request.preprocess is None else {}
    if request.input != "uint8-nhwc":
        needed |= {"mean": _as_text(request.mean), "std": _as_text(request.std)}
    missing = [f"{name} {value}" for name, value in needed.items() if name not in stated]
    is_numbered = request.output.kind in WITH_LABELS and "labels" not in stated
    return [*missing, "labels (numbers)"] if is_numbered else missing


def _as_text(values: tuple[float, float, float]) -> str:
    return f"{values[0]:g}" if len(set(values)) == 1 else ",".join(f"{value:g}" for value in values)


def _compare_hint(by_default: Sequence[str], name: str) -> str:
    command = f"`infer model check {name} --against package.module:function --images FOLDER`"
    return f"taken by default: {', '.join(by_default)}; {command} compares with your own code"


def _build_request(options: BuildOptions, facts: Mapping[str, Fact]) -> BuildRequest:
    """Return the request, in which the file's facts take the place of defaults."""
    options = replace(options, **{option: fact.value for option, fact in facts.items() if option != "labels"})
    stated = facts.keys() | options.given
    if options.output == "detection":
        defaults: dict[str, Any] = {name: DETECTION_DEFAULTS[name] for name in DETECTION_DEFAULTS.keys() - stated}
        options = replace(options, **defaults)
    return BuildRequest(
        source=options.source,
        name=options.name,
        weights=options.weights,
        labels=options.labels,
        recipe=make_recipe(options),
        preprocess=options.preprocess,
        input=options.input,
        **_normalisation(options),
        output=_output_spec(options),
        golden=options.golden,
        label_names=facts["labels"].value if "labels" in facts else (),
        output_name=options.output_name,
    )


def _output_spec(options: BuildOptions) -> OutputSpec:
    if options.output != "detection":
        if given := [name for name in DETECTION_OPTIONS if name in options.given]:
            flag = f"--{given[0].replace('_', '-')}"
            raise UsageError(f"{flag} belongs to --output detection", f"leave {flag} out, or give --output detection")
        return OutputSpec(options.output, options.activation, options.threshold, options.top_k, options.vector_dtype)
    if "activation" in options.given and options.head not in (None, "detr"):
        raise UsageError(
            f"--activation does not go with --head {options.head}, whose scores are between 0 and 1 already",
            "leave --activation out",
        )
    detection = DetectionSpec(options.head or "", options.min_score, options.nms, options.max_objects)
    return OutputSpec(options.output, options.activation, detection=detection)


def _normalisation(options: BuildOptions) -> dict[str, tuple[float, float, float]]:
    mean, std = options.mean, options.std
    if options.input == "uint8-nhwc":
        if mean is not None or std is not None:
            raise UsageError("a uint8-nhwc module normalises by itself", "leave --mean and --std out")
        return {}
    return {
        "mean": _in_order(IMAGENET_MEAN, options.channels) if mean is None else _parse_three("--mean", mean),
        "std": _in_order(IMAGENET_STD, options.channels) if std is None else _parse_three("--std", std),
    }


def _in_order(values: tuple[float, float, float], channels: str) -> tuple[float, float, float]:
    red, green, blue = values
    return values if channels == "rgb" else (blue, green, red)


def _parse_three(flag: str, text: str) -> tuple[float, float, float]:
    try:
        numbers = [float(part) for part in text.split(",")]
        first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    except ValueError:
        raise UsageError(f"{flag} {text!r} is not one number or three", "for example 0.485,0.456,0.406") from None
    return first, second, third


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
        raise ModelError("int8 needs NNCF", "pip install 'infer_app[int8]'")
    return Calibration(options.calibrate, share)


def parse_share(text: str) -> float:
    """Return the share of --min-agreement, 0-1. Raises UsageError."""
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise UsageError(f"--min-agreement {text!r} is no share", "for example 97%") from None
    if not 0 < share <= 1:
        raise UsageError(f"--min-agreement {text!r} is no share", "for example 0.97, or 97%")
    return share


def _print_built(artifact: Artifact) -> None:
    manifest = artifact.manifest
    print(f"recipe: {recipe_as_text(manifest)}")
    if manifest.output.detection:
        print(detection_as_text(manifest.output.detection))
    golden = counted(len(manifest.golden), "golden image")
    print(f"{counted(manifest.num_outputs, 'output')} per image; verified on {golden} before every run")
    if reference := manifest.built_with.get("reference"):
        print(f"the golden outputs were computed by {reference}")
    show_variants(manifest)
    show_requirements(manifest)
    show_decoding(manifest)
    if tuning := load_tuning(artifact.folder, usable_cores()):
        show_tuning(tuning)
