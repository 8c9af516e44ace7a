"""Measure what a variant keeps of the expected outputs, and judge on the user's images whether it is enough."""

from collections.abc import Callable
from typing import Any

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.specs import OutputSpec
from infer_app.base.printing import counted
from infer_app.predict.verification.object_parity import SAME_OBJECT
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity, cosines
from infer_app.predict.verification.vectors import ComparedRows

Report = Callable[[str], None]


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
    """Return the part of a variant's entry that tells how much it keeps on the user's images, and whether enough."""
    kept = KINDS[artifact.manifest.output.kind].agreement(artifact.manifest, judged)
    if judged.num_objects == 0 and judged.object_agreement is None:
        report(
            f"{variant}: no object was found on {counted(judged.num_images, 'image')}, so nothing tells what it keeps: "
            f"no run takes it; judge it on images that show objects"
        )
    elif not kept >= min_agreement:  # written so that NaN fails
        report(f"{variant}: {kept:.2%} kept, {min_agreement:.1%} are needed (--min-agreement): no run takes it")
    return {"calibration": judged.to_json(), "min_agreement": min_agreement, "meets_bar": kept >= min_agreement}
