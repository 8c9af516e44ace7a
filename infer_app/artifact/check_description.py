"""Refuse a description whose keys do not go together."""

import operator
from collections.abc import Callable
from typing import NamedTuple

from infer_app.artifact.artifact import check_name
from infer_app.artifact.description import Description
from infer_app.artifact.model_names import plain_name
from infer_app.artifact.specs import WITH_LABELS, InputSpec
from infer_app.base.errors import UsageError


class Owner(NamedTuple):
    """A part of a description that keys belong to, and whether a description has it."""

    name: str
    is_in: Callable[[Description], bool]
    instead: str = ""  # where the part is missing


def _recipes(*kinds: str) -> Owner:
    named = " and ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    return Owner(f"the recipe{'s' * (len(kinds) > 1)} {named}", lambda one: one.recipe_kind in kinds)


_RECIPE = Owner("a recipe, whose place preprocess takes", lambda one: one.preprocess is None)
_SECOND = Owner("a second network, which the key `of` makes", lambda one: one.of is not None)
_DETECTOR = Owner("the output detection", lambda one: one.is_detector)
# Keys that only some descriptions have; all others belong to each.
OWNERS = {
    **dict.fromkeys(("recipe", "decode", "antialias"), _RECIPE),
    "channels": _RECIPE._replace(instead=": your function returns them in the network's order, as mean and std are"),
    "crop_pct": _recipes("resize-crop", "crop-resize", "stretch"),
    "resize": _recipes("resize-crop", "stretch"),
    **dict.fromkeys(("pad", "place", "rounding"), _recipes("letterbox")),
    "labels": Owner("the outputs classification and detection", lambda one: one.output in WITH_LABELS),
    **dict.fromkeys(("head", "nms", "max_objects"), _DETECTOR),
    "min_score": Owner("the output detection, or a second network", lambda one: one.is_detector or one.of is not None),
    **dict.fromkeys(("of_labels", "crop", "crop_margin", "crop_margin_px", "crop_min_px", "crop_rounding"), _SECOND),
}


def check_description(described: Description) -> None:
    """Raise UsageError for keys that do not go together."""
    if not described.name:
        raise UsageError("the model has no name", "give --name NAME, or the key name")
    check_name(described.name)
    for key in sorted(described.model_fields_set & OWNERS.keys()):
        if described.stated[key] is not None and not OWNERS[key].is_in(described):
            raise UsageError(f"{key} belongs to {OWNERS[key].name}", f"leave {key} out{OWNERS[key].instead}")
    _check_geometry(described)
    if described.is_detector:
        _check_detector(described)
    if described.of is not None:
        _check_second(described, described.of)
    if described.input == "uint8-nhwc" and described.make_input() != InputSpec("uint8-nhwc"):
        raise UsageError("a uint8-nhwc module normalises by itself", "leave mean and std out")


def _check_geometry(described: Description) -> None:
    kind, size, resize = described.recipe_kind, described.size, described.resize
    if resize is not None and described.crop_pct is not None:
        raise UsageError("resize and crop_pct mean the same", "give one of them")
    if kind == "crop-resize" and not size.is_square:
        raise UsageError(
            f"crop-resize takes a square out of the picture, and the model's input is {size}",
            "for a rectangle there are the recipes resize-crop, stretch and letterbox",
        )
    if kind == "stretch" and resize and any(map(operator.lt, resize, size)):
        raise UsageError(
            f"the recipe stretch crops {size} out of {resize}, which is smaller",
            "give resize WIDTHxHEIGHT with both at least those of size, or crop_pct",
        )
    if described.centre != "nearest" and described.make_recipe().resize is None:
        raise UsageError(
            f"centre {described.centre}, but nothing is resized and then cropped",
            "it is for the recipe resize-crop, and for stretch with resize or crop_pct",
        )
    if described.decode == "scaled" and not described.make_recipe().antialias:
        raise UsageError(
            "decode scaled averages pixels as antialiasing does, and not as antialias false or interpolation area do",
            "leave decode out, or the other one",
        )


def _check_detector(described: Description) -> None:
    if described.preprocess is not None:
        raise UsageError(
            "a detector can't use preprocess: boxes can't be mapped back through a function of your own",
            "use the recipe letterbox or stretch, by which boxes are placed on the picture",
        )
    if described.exif == "ignore":
        raise UsageError("a detector can't use exif ignore: its boxes refer to the upright picture", "leave exif out")
    detection = described.make_output().detection
    if "activation" in described.model_fields_set and described.head and detection and not detection.takes_activation:
        raise UsageError(
            f"activation does not go with the head {described.head}, whose scores are between 0 and 1 already",
            "leave activation out",
        )


def _check_second(described: Description, detector: str) -> None:
    if described.is_detector:
        raise UsageError(
            "a second network classifies, measures or embeds objects and finds none itself",
            "leave the key `of` out, or give another output",
        )
    if described.name == detector:
        raise UsageError(f"{detector}, which the key `of` names, is this model", "give the model another name")
    if plain_name(detector) != detector:
        raise UsageError(
            f"the key `of` names the version {detector}: runs take the detector's version in use",
            f"of = {plain_name(detector)}",
        )
