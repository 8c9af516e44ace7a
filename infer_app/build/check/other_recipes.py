"""Find which other recipe gives the answers of the user's own function, on a few of the images."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import Broken, FileFacts, ImageRef, Prediction
from infer_app.base.size import Size
from infer_app.build.check.check_report import CheckReport
from infer_app.build.check.reference_pipeline import open_upright
from infer_app.predict.images.transform.to_pixels import reference_transform
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.gpu_probe import first_variant
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.outputs import open_decoder

Compare = Callable[[Sequence[tuple[str, object]], Sequence[Prediction | Broken]], CheckReport]
TRIED, TRIED_LARGE = 12, 4  # images, of which a large network takes seconds each
MOST_CHANGES = 3
EXPLAINED = 0.25  # at least, of what is left, by each change
NO_DIFFERENCE = 0.01
MOST = 0.5  # of the images tried; a change that explains fewer would mislead
_LETTERBOX: dict[str, tuple[Any, ...]] = {
    "place": ("centre", "corner", "pad-first"),
    "rounding": ("nearest", "down"),
    "pad": (0, 114),
}
_CHANGES: dict[str, tuple[Any, ...]] = {
    "channels": ("rgb", "bgr"),
    "antialias": (True, False),
    "interpolation": ("bilinear", "bicubic", "area"),
    **_LETTERBOX,
    "crop_rounding": ("nearest", "down"),
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
    most = TRIED_LARGE if recipe.size.is_large else TRIED
    paths = [*dict.fromkeys([*(one.path for one in differing), *answers])][:most]
    some, model = [(path, answers[path]) for path in paths], open_variant(artifact, first_variant(artifact.manifest))
    changes, best = list[str](), compare(some, _predict(artifact, model, paths))
    while len(changes) < MOST_CHANGES and _distance(best) > NO_DIFFERENCE:
        tried = [(compare(some, _predict(other, model, paths)), change, other) for change, other in _others(artifact)]
        found, change, artifact = min(tried, key=lambda one: _distance(one[0]))
        if _distance(found) > (1 - EXPLAINED) * _distance(best):
            break
        best, changes = found, [*changes, change]
    share = best.agreement or 0.0
    agreement = f"{100 * share:.0f} % agree of {len(paths)} images tried, those that differ most first"
    return f"with {' '.join(changes)} {agreement}" if changes and share > MOST else ""


def _distance(report: CheckReport) -> float:
    """Return how far the answers are apart: what differs, and how far scores do."""
    return 1 - (report.agreement or 0.0) + (report.scores.mean_difference if report.scores else 0.0)


def _others(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    """Yield the models whose recipe differs by one change, which is named as the user gives it."""
    manifest, recipe = artifact.manifest, artifact.manifest.recipe
    antialias = recipe.antialias or recipe.interpolation == "area"  # by which another interpolation would be built
    refused = {*(() if recipe.kind == "letterbox" else _LETTERBOX), *(["exif"] if manifest.output.detection else ())}
    for name, value in ((name, value) for name, values in _CHANGES.items() for value in values):
        margin = None if name == "kind" else recipe.resize  # which only the recipe that is built has
        other = replace(recipe, **{"antialias": antialias, "resize": margin, name: value})
        if other != recipe and name not in refused:
            changed = replace(artifact, manifest=replace(manifest, recipe=other))
            yield f"{_KEYS.get(name, name)}={value}".lower(), changed


def _predict(artifact: Artifact, model: FixedBatch, paths: Sequence[str]) -> list[Prediction | Broken]:
    """Predict the pixels that Pillow makes by the recipe; images that fail are left out."""
    recipe, decode, pixels, pictures = artifact.manifest.recipe, open_decoder(artifact), [], dict[str, Size]()
    for path in paths:
        with suppress(Exception):  # a file that the user's function reads may be broken in any way
            rgb = open_upright(Path(path), recipe)
            pixels.append(reference_transform(rgb, recipe))
            pictures[path] = Size(rgb.shape[1], rgb.shape[0])
    outputs = decode(predict_all(model, np.stack(pixels), model.batch_size), [*pictures.values()]) if pixels else []
    return [
        Prediction(ImageRef(path, path), output, FileFacts(picture=picture))
        for (path, picture), output in zip(pictures.items(), outputs, strict=True)
        if output is not None
    ]
