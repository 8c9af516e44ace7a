"""The request of a build: the options, in place of their defaults what the source says, and the recipe of both."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import plain_name
from infer_app.artifact.recipe import NAMED, CropRule, Recipe, one_of
from infer_app.artifact.specs import WITH_LABELS, CropSpec, DetectionSpec, OutputSpec
from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.build.build_arguments import BuildRequest
from infer_app.build.sources.source_facts import DETECTION, Fact
from infer_app.cli.commands.build_command import BuildOptions
from infer_app.predict.images.decode.depth import parse_depth

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
# Options that a request has by the same names.
_AS_GIVEN = ("source", "name", "weights", "labels", "preprocess", "input", "golden", "output_name")
CROP_PCT = 0.875
PAD = 114  # what YOLO's networks were trained with
# Of --output detection; networks of the detr family usually take ImageNet's mean and std, and stretched pictures.
DETECTION_DEFAULTS = {"recipe": "letterbox", "interpolation": "bilinear", "mean": "0", "std": "1"}
_OF = ("of_label", "crop", "crop_margin", "crop_min", "crop_rounding")  # options of a second network alone


def make_request(options: BuildOptions, facts: Mapping[str, Fact], detector: Artifact | None = None) -> BuildRequest:
    """Return the request, in which the file's facts take the place of defaults; `detector` is that of --of."""
    crop = make_crop(options, detector)
    options = replace(options, **{option: fact.value for option, fact in facts.items() if option != "labels"})
    stated = facts.keys() | options.given
    if options.output == "detection":
        defaults: dict[str, Any] = {name: DETECTION_DEFAULTS[name] for name in DETECTION_DEFAULTS.keys() - stated}
        options = replace(options, **defaults)
    return BuildRequest(
        **{name: getattr(options, name) for name in _AS_GIVEN},
        **_normalisation(options),
        recipe=make_recipe(options),
        output=_output_spec(options),
        label_names=facts["labels"].value if "labels" in facts else (),
        crop=crop,
    )


def make_recipe(options: BuildOptions) -> Recipe:
    """Return the recipe with its defaults filled in. Raises UsageError for options that don't belong to it."""
    kind, is_own = options.recipe, options.preprocess is not None
    common = {name: getattr(options, name) for name in ("size", "interpolation", "exif", "decode", "channels")}
    one_of("antialias", options.antialias, ("yes", "no"))
    common |= {"depth": parse_depth(options.depth), "antialias": options.antialias == "yes"}
    if is_own:
        recipe = Recipe("custom", **common)
    else:
        one_of("recipe", kind, NAMED)
        if options.pad is not None and kind != "letterbox":
            raise UsageError(f"--pad {options.pad} does not belong to the recipe {kind}", "leave --pad out")
        crop = (options.crop_pct or CROP_PCT) if kind == "crop-resize" else None
        pad = PAD if options.pad is None and kind == "letterbox" else options.pad or 0
        centre = options.centre
        recipe = Recipe(kind, resize=_resize(options), crop=crop, pad=pad, crop_rounding=centre, **common)
    recipe.check()
    return recipe


def _resize(options: BuildOptions) -> Size | None:
    """Return the size before the crop, None if nothing is cropped."""
    size, resize, crop_pct = options.size, options.resize, options.crop_pct
    if resize is not None and crop_pct is not None:
        raise UsageError("--resize and --crop-pct mean the same", "give one of them")
    if crop_pct is not None and not 0 < crop_pct <= 1:
        raise UsageError(f"a crop of {crop_pct} is not a share between 0 and 1")
    if options.recipe == "crop-resize":
        return resize
    if resize is None and (options.recipe == "resize-crop" or crop_pct is not None):
        share = CROP_PCT if crop_pct is None else crop_pct
        resize = Size(int(size.width / share), int(size.height / share))  # timm rounds them down
    return None if options.recipe == "stretch" and resize == size else resize


def taken_by_default(request: BuildRequest, stated: Collection[str]) -> list[str]:
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


def _output_spec(options: BuildOptions) -> OutputSpec:
    if options.output != "detection":
        if given := sorted((DETECTION & options.given) - ({"min_score"} if options.of else set())):
            flag = f"--{given[0].replace('_', '-')}"
            raise UsageError(f"{flag} belongs to --output detection", f"leave {flag} out, or give --output detection")
        return OutputSpec(options.output, options.activation, options.threshold, options.top_k, options.vector_dtype)
    detection = DetectionSpec(options.head or "", options.min_score, options.nms, options.max_objects)
    if "activation" in options.given and options.head and not detection.takes_activation:
        raise UsageError(
            f"--activation does not go with --head {options.head}, whose scores are between 0 and 1 already",
            "leave --activation out",
        )
    return OutputSpec(options.output, options.activation, detection=detection)


def _normalisation(options: BuildOptions) -> dict[str, Any]:
    """Return mean and std; a module that normalises by itself has none."""
    given = {"mean": options.mean, "std": options.std}
    numbers = {name: _parse_three(f"--{name}", text) for name, text in given.items() if text is not None}
    if options.input == "uint8-nhwc":
        return numbers
    return {"mean": _in_order(IMAGENET_MEAN, options), "std": _in_order(IMAGENET_STD, options)} | numbers


def _in_order(values: tuple[float, float, float], options: BuildOptions) -> tuple[float, float, float]:
    red, green, blue = values
    return values if options.channels == "rgb" else (blue, green, red)


def _parse_three(flag: str, text: str) -> tuple[float, float, float]:
    try:
        numbers = [float(part) for part in text.split(",")]
        first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    except ValueError:
        raise UsageError(f"{flag} {text!r} is not one number or three", "for example 0.485,0.456,0.406") from None
    return first, second, third


def make_crop(options: BuildOptions, detector: Artifact | None) -> CropSpec | None:
    """Return what a second network takes of the detector that --of names, None without --of. Raises UsageError."""
    _check_names(options)
    if detector is None:
        if given := [name for name in _OF if name in options.given]:
            flag = f"--{given[0].replace('_', '-')}"
            raise UsageError(f"{flag} belongs to a second network, which --of NAME makes", f"leave {flag} out")
        return None
    if plain_name(options.of or "") != options.of:
        raise UsageError(
            f"--of {options.of} names a version: runs take the detector's version in use",
            f"--of {detector.manifest.name}",
        )
    rule, detection = _rule(options), detector.manifest.output.detection
    stored_from = detection.min_score if detection else 0.0
    min_score = options.min_score if "min_score" in options.given else stored_from
    return CropSpec(detector.manifest.name, min_score, tuple(_labels(options.of_label or (), detector.labels)), rule)


def _check_names(options: BuildOptions) -> None:
    """Raise UsageError for what is said by options of a recipe's crop."""
    if re.fullmatch(r"[0-9.]+", options.crop):
        raise UsageError(
            f"--crop {options.crop} is a share, and --crop says how objects are cut out",
            f"of --recipe crop-resize the share is --crop-pct {options.crop}",
        )
    if options.crop_rounding == "down":
        raise UsageError(
            "--crop-rounding down is no rounding of boxes", "where a recipe's centre begins is --centre down"
        )


def _rule(options: BuildOptions) -> CropRule:
    margin, margin_px = 0.0, 0
    if options.crop_margin.endswith("px"):
        margin_px = _pixels("--crop-margin", options.crop_margin)
    else:
        margin = _share(options.crop_margin)
    return CropRule(options.crop, margin, margin_px, _pixels("--crop-min", options.crop_min), options.crop_rounding)


def _pixels(flag: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]+)px", text)
    if found is None:
        raise UsageError(f"{flag} {text!r} is not a number of pixels", "for example 224px")
    return int(found[1])


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--crop-margin {text!r} is neither a share of the box's sides nor pixels", "for example 0.1, or 30px"
        ) from None


def _labels(given: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Yield the labels, of which one option may hold several with commas between, unless the whole is one."""
    for text in given:
        yield from [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
