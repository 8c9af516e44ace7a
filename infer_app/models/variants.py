"""The forms a model can run in on a CPU: their names, what they need, and how each is opened."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from infer_app.errors import ModelError

if TYPE_CHECKING:
    from infer_app.models.artifact import Artifact
    from infer_app.models.fixed_batch import FixedBatch
    from infer_app.models.manifest import Manifest

TORCHSCRIPT = "cpu-torchscript"
OPENVINO_FP32 = "cpu-openvino-fp32"
OPENVINO_INT8 = "cpu-openvino-int8"

PRECISIONS = {TORCHSCRIPT: "fp32", OPENVINO_FP32: "fp32", OPENVINO_INT8: "int8"}


def precision_of(variant: str) -> str:
    """fp32 or int8. Raises ModelError for a variant that this program doesn't know."""
    try:
        return PRECISIONS[variant]
    except KeyError:
        raise ModelError(f"variant {variant!r} is not known here", "update infer_app") from None


def missing_for(variant: str) -> str | None:
    """What this machine lacks to run a variant, in words; None where it lacks nothing. Imports nothing."""
    if variant not in PRECISIONS:
        return "this infer_app does not know it"
    if variant != TORCHSCRIPT and find_spec("openvino") is None:
        return "OpenVINO is not installed: pip install 'infer_app[cpu]'"
    return None


def runnable(manifest: Manifest) -> list[str]:
    """The variants that this machine has all it needs for."""
    return [variant for variant in manifest.variants if missing_for(variant) is None]


def open_variant(artifact: Artifact, variant: str, batch_size: int | None = None, num_threads: int = 1) -> FixedBatch:
    """A variant, ready to run (n, H, W, 3) uint8 with n up to its batch size. Raises ModelError."""
    given = {} if batch_size is None else {"batch_size": batch_size}
    if precision_of(variant) and variant == TORCHSCRIPT:
        from infer_app.models.torchscript import build_cpu_variant

        return build_cpu_variant(artifact, **given)
    from infer_app.models.openvino import build_openvino_variant

    return build_openvino_variant(artifact, variant, num_threads=num_threads, **given)
