"""Judge what a variant keeps of the source's outputs on the user's images, and whether it is enough."""

from collections.abc import Callable
from typing import Any

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.specs import OutputSpec
from infer_app.base.printing import counted
from infer_app.predict.verification.parity import Parity

MIN_LABELS_KEPT = 0.99
MIN_AGREEMENT = 0.97  # of anything but labels

Report = Callable[[str], None]


def find_min_agreement(output: OutputSpec, given: float | None) -> float:
    """Return the share that must be kept, 0-1, for a model with these outputs: the given one, or the default."""
    return given if given is not None else MIN_LABELS_KEPT if output.kind == "classification" else MIN_AGREEMENT


def agreement_score(artifact: Artifact, parity: Parity) -> float:
    """Return what must reach the minimum: the share of kept labels or objects, or the worst cosine without classes.

    Images without any object tell nothing, and give 0. A single number has no direction: of it, the worst difference
    relative to the largest output is taken from 1.
    """
    if artifact.manifest.output.kind == "classification":
        return parity.label_agreement or 0.0
    if artifact.manifest.output.kind == "detection":
        return parity.object_agreement or 0.0
    return parity.cosine if artifact.manifest.num_outputs > 1 else 1 - parity.relative_difference


def judgement(artifact: Artifact, variant: str, judged: Parity, min_agreement: float, report: Report) -> dict[str, Any]:
    """Return the part of a variant's entry that tells how much it keeps on the user's images, and whether enough."""
    kept = agreement_score(artifact, judged)
    if judged.num_objects == 0 and judged.object_agreement is None:
        report(
            f"{variant}: no object was found on {counted(judged.num_images, 'image')}, so nothing tells what it keeps: "
            f"no run takes it; judge it on images that show objects"
        )
    elif not kept >= min_agreement:  # written so that NaN fails
        report(f"{variant}: {kept:.2%} kept, {min_agreement:.1%} are needed (--min-agreement): no run takes it")
    return {"calibration": judged.to_json(), "min_agreement": min_agreement, "meets_bar": kept >= min_agreement}


def describe_kept(manifest: Manifest, parity: Parity) -> str:
    """Describe how much of the outputs another variant keeps."""
    if manifest.output.kind == "classification":
        return f"keeps {parity.label_agreement:.1%} of the labels"
    if manifest.output.kind == "detection":
        if parity.object_agreement is None:
            return "no objects were found"
        return f"keeps {parity.object_agreement:.1%} of {counted(parity.num_objects or 0, 'object')}"
    if manifest.num_outputs == 1:
        return f"differs by {parity.worst_difference:.2g} at worst"
    return f"cosine {parity.cosine:.4f} at worst"
