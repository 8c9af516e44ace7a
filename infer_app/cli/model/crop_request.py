"""The options of a second network: whose objects are its pictures, and how they are cut out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from infer_app.cli.commands.build_command import BuildOptions
from infer_app.errors import UsageError
from infer_app.model_names import plain_name
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.specs import CropSpec
from infer_app.recipe import CropRule

_OF = ("of_label", "crop", "crop_margin", "crop_min", "crop_rounding")  # options of a second network alone


def make_crop(options: BuildOptions, detector: Artifact | None) -> CropSpec | None:
    """Return what a second network takes of the detector that --of names, None without --of. Raises UsageError."""
    rule = _rule(options)
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
    detection = detector.manifest.output.detection
    stored_from = detection.min_score if detection else 0.0
    min_score = options.min_score if "min_score" in options.given else stored_from
    return CropSpec(detector.manifest.name, min_score, tuple(_labels(options.of_label or (), detector.labels)), rule)


def _rule(options: BuildOptions) -> CropRule:
    if re.fullmatch(r"[0-9.]+", options.crop):
        raise UsageError(
            f"--crop {options.crop} is a share, and --crop says how objects are cut out",
            f"of --recipe crop-resize the share is --crop-pct {options.crop}",
        )
    if options.crop_rounding == "down":
        raise UsageError(
            "--crop-rounding down is no rounding of boxes", "where a recipe's centre begins is --centre down"
        )
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
