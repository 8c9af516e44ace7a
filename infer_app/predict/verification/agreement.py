"""Measure what a variant keeps of the expected outputs, and judge on the user's images whether it is enough."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.specs import OutputSpec
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import counted
from infer_app.predict.verification.object_parity import SAME_OBJECT
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity, cosines
from infer_app.predict.verification.vectors import ComparedRows

Report = Callable[[str], None]

MIN_JUDGED = 300  # images
MARGIN = 0.005  # by which what is kept of all images may fall short of the promise


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are not finite
def measure_parity(
    expected: np.ndarray, actual: np.ndarray, artifact: Artifact, min_iou: float = SAME_OBJECT
) -> Parity:
    """Compare (n, D) outputs of a model, and their scores and objects.

    NaN in either gives NaN figures, which pass no tolerance. Objects are the same if they overlap by `min_iou`.
    """
    kind, rows = KINDS[artifact.manifest.output.kind], ComparedRows(artifact, expected, actual)
    theirs, ours, scale = kind.comparable(rows)
    worst = float(np.abs(ours - theirs).max())
    figures, differences = kind.compare(rows, min_iou)
    if len(differences):
        sizes = np.abs(differences.astype(np.float64))
        figures["worst_score_difference"] = float(sizes.max())
        figures["p99_score_difference"] = float(np.quantile(sizes, 0.99))
    return Parity(
        num_images=expected.shape[0],
        cosine=float(cosines(theirs, ours).min()),
        worst_difference=worst,
        relative_difference=worst / max(scale, 1e-12),
        **figures,
    )


def find_min_agreement(output: OutputSpec, given: float | None) -> float:
    """Return the share that must be kept, 0-1, for a model with these outputs: the given one, or the default."""
    return KINDS[output.kind].min_agreement if given is None else given


def judgement(artifact: Artifact, variant: str, judged: Parity, min_agreement: float, report: Report) -> dict[str, Any]:
    """Return the part of a variant's entry that tells how much it keeps on the user's images; report if not enough."""
    details = {"calibration": judged.to_json(), "min_agreement": min_agreement}
    if why := why_unfit(artifact.manifest, variant, details):
        report(f"{variant}: {why}: no run takes it")
    return details


def why_unfit(manifest: Manifest, variant: str, details: Mapping[str, Any]) -> str | None:
    """Return why no run takes a variant with this entry in the manifest; None if one may.

    Half precision of a GPU, and int8 that is the source itself, are taken before they are judged on enough images.
    """
    if variant_of(variant).is_exact:
        return None
    num_images = details.get("calibration", {}).get("num_images", 0)
    if num_images < MIN_JUDGED and not (variant_of(variant).device == "cuda" or manifest.is_quantised):
        return f"it was judged on {counted(num_images, 'image')} of yours, {MIN_JUDGED} are needed"
    return _why_too_little(manifest, Parity(**details["calibration"]), details["min_agreement"]) if num_images else None


def _why_too_little(manifest: Manifest, judged: Parity, needed: float) -> str | None:
    """Return why an agreement is no proof that enough is kept.

    The interval of a share must lie above `needed` less MARGIN: of the variants that keep no more than that of all
    images, fewer than one in 40 pass.
    """
    kind = KINDS[manifest.output.kind]
    share, kept = kind.share(judged), kind.describe_kept(manifest, judged)
    if judged.num_objects == 0 and share is None:
        return f"no object was found on {counted(judged.num_images, 'image')}, so nothing tells what it keeps"
    if not kind.agreement(manifest, judged) >= needed:  # written so that NaN fails
        return f"{kept}; {needed:.1%} are needed (--min-agreement)"
    if share and judged.num_images >= MIN_JUDGED and share.interval[0] < needed - MARGIN:
        return f"{kept}; the lower end must reach {needed - MARGIN:.1%}"
    return None
