"""Compare half precision and int8 with the source on the user's own images, and record how many labels stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from infer_app.errors import ModelError, UsageError
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.read_image import ReadLimits, read_image
from infer_app.models.artifact.artifact import Artifact, open_artifact, record_variant
from infer_app.models.build.calibration import MIN_IMAGES, CalibrationImages, expected_outputs
from infer_app.models.build.golden_set import load_pixels
from infer_app.models.build.openvino_variants import add_variants, agreement_score, judge_on
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.models.runtimes.variants import precision_of, runnable
from infer_app.models.verification.golden import Parity


def judge_variants(
    folder: Path, limits: ReadLimits, locations: Sequence[str], min_agreement: float
) -> dict[str, tuple[Parity, bool]]:
    """Return the agreement of each other precision by variant, and whether it reaches the minimum; both are recorded.

    It loads torch, so call it in another process. On a CPU that computes bf16, a model that was built without it gains
    that variant. Raises UsageError if fewer than MIN_IMAGES images can be decoded.
    """
    artifact = add_variants(open_artifact(folder), None, print)
    images = _load(artifact, limits, locations)
    judged = {}
    for variant in runnable(artifact.manifest):
        if precision_of(variant) == "fp32":
            continue
        parity = judge_on(artifact, open_variant(artifact, variant), images)
        meets_bar = agreement_score(artifact, parity) >= min_agreement
        own = {"calibration": parity.to_json(), "min_agreement": min_agreement, "meets_bar": meets_bar}
        details = artifact.manifest.variants[variant] | own
        artifact = record_variant(artifact, variant, details, _files_of(artifact, variant))
        judged[variant] = parity, meets_bar
    if not judged:
        raise ModelError(
            f"{artifact.manifest.name} has no half precision or int8 that can run here",
            "half takes a CPU that computes bf16; for int8 build it again with --calibrate",
        )
    return judged


def _load(artifact: Artifact, limits: ReadLimits, locations: Sequence[str]) -> CalibrationImages:
    recipe, preprocess = artifact.manifest.recipe, artifact.preprocess()
    pixels = []
    for location in locations:
        try:
            pixels.append(load_pixels(read_image(location, limits).data, recipe, preprocess))
        except BadImage:
            continue
    if len(pixels) < MIN_IMAGES:
        raise UsageError(
            f"{len(pixels)} of the day's images can be decoded, {MIN_IMAGES} are needed", "name a day with more images"
        )
    evaluation = torch.stack(pixels)
    return CalibrationImages(evaluation[:0], evaluation, expected_outputs(artifact, evaluation))


def _files_of(artifact: Artifact, variant: str) -> dict[str, bytes]:
    prefix = f"variants/{variant}/"
    paths = [path for path in artifact.manifest.files if path.startswith(prefix)]
    return {path.removeprefix(prefix): artifact.read(path) for path in paths}
