"""Find which other recipe gives the answers of the user's own function, on a few of the images."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import Broken, FileFacts, ImageRef, Prediction
from infer_app.base.size import Size
from infer_app.build.check.check_report import CheckReport
from infer_app.build.check.reference_pipeline import open_upright
from infer_app.build.network.source_kinds import load_source
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.to_pixels import reference_transform
from infer_app.predict.runtimes.torchscript import rows_of, run_source
from infer_app.predict.verification.outputs import open_decoder

Compare = Callable[[Sequence[tuple[str, object]], Sequence[Prediction | Broken]], CheckReport]
TRIED, TRIED_LARGE = 12, 4  # images, of which a large network takes seconds each
MOST_CHANGES = 3
EXPLAINED = 0.25  # at least, of what is left, by each change
NO_DIFFERENCE = 0.01
PLACE = "place"  # of a letterbox, as is rounding
_CHANGES: dict[str, tuple[Any, ...]] = {
    "channels": ("rgb", "bgr"),
    "antialias": (True, False),
    "interpolation": ("bilinear", "bicubic"),
    PLACE: ("centre", "corner", "pad-first"),
    "rounding": ("nearest", "down"),
    "crop_rounding": ("nearest", "down"),
    "pad": (0, 114),
    "exif": ("apply", "ignore"),
    "kind": ("stretch", "letterbox", "resize-crop"),
}
_KEYS = {"crop_rounding": "centre", "kind": "recipe"}  # as the user gives them


def explain_differences(
    artifact: Artifact, theirs: Sequence[tuple[str, object]], report: CheckReport, compare: Compare
) -> str:
    """Return the changes of the recipe that make most of the differences go, on some images; nothing without any."""
    recipe = artifact.manifest.recipe
    if recipe.is_own:
        return ""
    differing = report.objects.differences if report.objects else report.disagreements
    answers = dict(theirs)
    paths = [*dict.fromkeys([*(one.path for one in differing), *answers])][
        : TRIED_LARGE if recipe.size.is_large else TRIED
    ]
    some, module = [(path, answers[path]) for path in paths], load_source(artifact)
    changes, best = list[str](), compare(some, _predict(artifact, module, paths))
    while len(changes) < MOST_CHANGES and _distance(best) > NO_DIFFERENCE:
        tried = [(compare(some, _predict(other, module, paths)), change, other) for change, other in _others(artifact)]
        found, change, artifact = min(tried, key=lambda one: _distance(one[0]))
        if _distance(found) > (1 - EXPLAINED) * _distance(best):
            break
        best, changes = found, [*changes, change]
    agreement = f"{100 * (best.agreement or 0):.0f} % agree of {len(paths)} images tried, those that differ most first"
    return f"with {' '.join(changes)} {agreement}" if changes else ""


def _distance(report: CheckReport) -> float:
    """Return how far the answers are apart: what differs, and how far scores do."""
    return 1 - (report.agreement or 0.0) + (report.scores.mean_difference if report.scores else 0.0)


def _others(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    """Yield the models whose recipe differs by one change, which is named as the user gives it."""
    manifest = artifact.manifest
    for name, values in _CHANGES.items():
        for value in values:
            if getattr(manifest.recipe, name, value) != value:
                other = replace(manifest, recipe=replace(manifest.recipe, **{name: value}))
                yield f"{_KEYS.get(name, name)}={value}".lower(), replace(artifact, manifest=other)


def _predict(artifact: Artifact, module: nn.Module, paths: Sequence[str]) -> list[Prediction | Broken]:
    """Predict by the source, in fp32, and the pixels that Pillow makes by the recipe; images that fail are left out."""
    manifest, decode = artifact.manifest, open_decoder(artifact)
    found: list[Prediction | Broken] = []
    for path in paths:
        with suppress(ValueError, BadImage):
            rgb = open_upright(Path(path), manifest.recipe)
            picture = Size(rgb.shape[1], rgb.shape[0])
            pixels = torch.from_numpy(reference_transform(rgb, manifest.recipe)[None])
            (output,) = decode(rows_of(run_source(module, manifest.input_spec, pixels)).numpy(), [picture])
            if output is not None:
                found.append(Prediction(ImageRef(path, path), output, FileFacts(picture=picture)))
    return found
