"""List the variants in which a model can run: their names, their requirements, and how each is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from infer_app.errors import ModelError
from infer_app.machine import computes_bf16
from infer_app.models.runtimes.gpu_probe import Host, describe_host

if TYPE_CHECKING:
    from infer_app.models.artifact.manifest import Manifest

TORCHSCRIPT = "cpu-torchscript"
OPENVINO_FP32 = "cpu-openvino-fp32"
OPENVINO_BF16 = "cpu-openvino-bf16"
OPENVINO_INT8 = "cpu-openvino-int8"
TRT_FP16, TRT_BF16 = "trt-fp16", "trt-bf16"
CUDA_FP16, CUDA_BF16 = "cuda-fp16", "cuda-bf16"

GPU_VARIANTS = (TRT_FP16, TRT_BF16, CUDA_FP16, CUDA_BF16)  # in auto's order of preference
PRECISIONS = {
    TORCHSCRIPT: "fp32",
    OPENVINO_FP32: "fp32",
    OPENVINO_BF16: "bf16",
    OPENVINO_INT8: "int8",
    **{variant: variant.rpartition("-")[2] for variant in GPU_VARIANTS},
}
UNKNOWN = "this version of infer_app does not know it"

_SHORT = {"trt": TRT_FP16, "cuda": CUDA_FP16}
_REBUILD = "build it here: `infer model build SOURCE --name NAME --variant trt`"


def full_name(variant: str) -> str:
    """Return the full name of a variant; `trt` and `cuda` are short for their fp16 variants."""
    return _SHORT.get(variant, variant)


def precision_of(variant: str) -> str:
    """Return fp32, int8, fp16 or bf16. Raises ModelError for a variant that this program does not know."""
    try:
        return PRECISIONS[variant]
    except KeyError:
        raise ModelError(f"variant {variant!r} is not known here", "update infer_app") from None


def device_of(variant: str) -> str:
    """Return cpu or cuda."""
    return "cpu" if variant.startswith("cpu-") else "cuda"


def is_tensorrt(variant: str) -> bool:
    return variant.startswith("trt-")


def is_fitted(variant: str) -> bool:
    """Return whether another build has other numbers: by another calibration, or by kernels that were faster then.

    Files of other variants differ by the version of the library that wrote them.
    """
    return variant == OPENVINO_INT8 or is_tensorrt(variant)


def missing_for(variant: str, requires: Mapping[str, Any] | None = None, host: Host | None = None) -> str | None:
    """Return what this machine lacks to run a variant, as text; None if it lacks nothing. It loads no large library.

    `requires` is the manifest's entry about the machine that a plan was built on.
    """
    if variant not in PRECISIONS:
        return UNKNOWN
    if variant == OPENVINO_BF16 and not computes_bf16():
        return "this CPU does not compute bf16: that takes AMX, AVX512-BF16 or ARM's bf16"
    if device_of(variant) == "cuda":
        host = host or describe_host()
        return missing_here(variant, host) or (_other_machine(requires or {}, host) if is_tensorrt(variant) else None)
    return None


def missing_here(variant: str, host: Host) -> str | None:
    """Return what a machine lacks for any GPU variant of this kind, wherever it was built; None if it lacks nothing."""
    if host.gpu is None:
        return "no NVIDIA GPU is found: nvidia-smi must show one, and a container be started with it"
    if host.cuda is None:
        return f"torch {host.torch} is built without CUDA: install torch's CUDA build"
    if is_tensorrt(variant) and host.torch_tensorrt is None:
        return "torch-tensorrt is not installed: pip install 'infer_app[trt]'"
    return None


def first_variant(manifest: Manifest) -> str:
    """Return the variant that every model of its kind of source has, and that is as exact as the source."""
    return TORCHSCRIPT if manifest.has_torchscript else OPENVINO_FP32


def runnable(manifest: Manifest, device: str = "cpu") -> list[str]:
    """List the variants for a device that this machine can run."""
    return [
        variant
        for variant, details in manifest.variants.items()
        if device_of(variant) == device and missing_for(variant, details.get("requires")) is None
    ]


def _other_machine(requires: Mapping[str, Any], host: Host) -> str | None:
    """Return how this machine differs from the one that a plan was built on; None if it does not.

    The ABI may differ: the plan is embedded again.
    """
    here = host.requirements()
    for key, what in (("platform", "platform"), ("compute_capability", "compute capability"), ("tensorrt", "TensorRT")):
        if key in requires and requires[key] != here.get(key):
            return f"built for {what} {requires[key]}, this machine has {here.get(key, 'none')}: {_REBUILD}"
    return None
