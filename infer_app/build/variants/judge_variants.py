"""Judge the variants that round by what they keep of the outputs on the user's images, and record it with the model."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from infer_app.artifact.artifact import Artifact, open_artifact, record_variant
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.model_variants import OPENVINO_INT8, variant_of
from infer_app.base.printing import counted
from infer_app.base.read_limits import ReadLimits
from infer_app.build.variants.calibration import FITTED_FILE, MIN_IMAGES, ComparedImages, decode_images, judge_on
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.runtimes.gpu_probe import runnable
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.agreement import judgement, why_unfit
from infer_app.predict.verification.parity import Parity


class Judged(NamedTuple):
    """What another variant keeps of the outputs on the user's images."""

    parity: Parity
    meets_bar: bool
    num_images: int  # that were compared this time; `parity` is of more if an earlier judgement was kept


def judge_variants(
    folder: Path, limits: ReadLimits, locations: Sequence[str], min_agreement: float, keep_better: bool = False
) -> dict[str, Judged]:
    """Return the agreement of each variant that rounds, and whether it reaches the minimum; both are recorded.

    With `keep_better` an agreement that is recorded already, on more images than these, is kept and returned. It loads
    torch, so call it in another process. On a CPU that computes bf16, a model that was built without it gains that
    variant. Raises UsageError if fewer than MIN_IMAGES images can be decoded.
    """
    artifact = add_variants(open_artifact(folder), None, print)
    images = _load(artifact, limits, locations)
    judged = {}
    for variant in [*runnable(artifact.manifest), *runnable(artifact.manifest, "cuda")]:
        if variant_of(variant).is_exact:
            continue
        parity = judge_on(artifact, open_variant(artifact, variant), images)
        num_images, before = parity.num_images, artifact.manifest.variants[variant].get("calibration")
        if keep_better and before and before["num_images"] > num_images and before.get("num_objects") != 0:
            parity = Parity(**before)
        details = artifact.manifest.variants[variant] | judgement(artifact, variant, parity, min_agreement, print)
        artifact = record_variant(artifact, variant, details)
        judged[variant] = Judged(parity, why_unfit(artifact.manifest, variant, details) is None, num_images)
    if not judged:
        raise ModelError(
            f"{artifact.manifest.name} has no half precision or int8 that can run here",
            "half takes a CPU that computes bf16, or a GPU and --variant at the build; for int8 build it again with "
            "--calibrate",
        )
    return judged


def _load(artifact: Artifact, limits: ReadLimits, locations: Sequence[str]) -> ComparedImages:
    """Load the images that int8 was not fitted to."""
    files = [path for path in artifact.manifest.files_of(OPENVINO_INT8) if path.endswith(f"/{FITTED_FILE}")]
    fitted = {checksum for path in files for checksum in artifact.read(path).decode().split()}
    decoded = decode_images(artifact, locations, lambda location: read_image(location, limits).data)
    images = [one for one in decoded if one.sha256 not in fitted]
    if len(images) < len(decoded):
        print(f"{counted(len(decoded) - len(images), 'image')} left out: int8 was fitted to them")
    if len(images) < MIN_IMAGES:
        raise UsageError(
            f"{len(images)} of the images can judge, {MIN_IMAGES} are needed", "name more days with --date and --until"
        )
    return ComparedImages.of(artifact, images)
