"""Describe what this machine has for a model on a GPU, and what it lacks for a variant; load no large library."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app.base.errors import NO_TORCH
from infer_app.base.machine import computes_bf16, has_vnni
from infer_app.base.model_variants import OPENVINO_FP32, OPENVINO_INT8, TORCHSCRIPT, variant_of
from infer_app.base.packages import TENSORRT, install, install_packages, installed_version

if TYPE_CHECKING:
    from infer_app.artifact.manifest import Manifest

VNNI = "vnni"  # of `requires`
UNKNOWN = "this version of infer_app does not know it"

_REBUILD = "build it here: `infer model build SOURCE --name NAME --variant trt`"
# Serialization format of torch-tensorrt's embedded plans, compared with == when one is loaded (core/runtime/runtime.h).
_ABI = {"2.9": "7", "2.10": "7", "2.11": "8", "2.12": "9", "2.13": "9", "2.14": "10"}
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_… (cuda.h)
_NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as the driver reports it."""

    name: str
    compute_capability: str  # 9.0


@dataclass(frozen=True, slots=True)
class Host:
    """All properties that decide which GPU variants can run on a machine; None for what it does not have."""

    platform: str  # linux_x86_64, as torch-tensorrt writes it
    gpu: Gpu | None = None  # the first usable one
    torch: str | None = None
    cuda: str | None = None  # the version that torch was built for
    torch_tensorrt: str | None = None
    tensorrt: str | None = None

    @property
    def abi(self) -> str | None:
        """Return the format of embedded plans that torch-tensorrt reads; None if its version is not in the table."""
        return _ABI.get(".".join((self.torch_tensorrt or "").split(".")[:2]))

    def requirements(self) -> dict[str, str]:
        """Return what a plan that is built here requires of the machine that runs it, as the manifest stores it."""
        found = asdict(self) | {"abi": self.abi}
        del found["gpu"]
        if self.gpu is not None:
            found |= {"compute_capability": self.gpu.compute_capability, "gpu": self.gpu.name}
        return {key: value for key, value in sorted(found.items()) if value is not None}


@cache
def describe_host() -> Host:
    """Describe this machine; the result is cached."""
    return Host(
        platform=f"{platform.system()}_{platform.machine()}".lower(),
        gpu=_first_gpu(),
        torch=installed_version("torch"),
        cuda=_cuda_of_torch(),
        torch_tensorrt=installed_version("torch-tensorrt"),
        tensorrt=next((found for name in TENSORRT if (found := installed_version(name))), None),
    )


def _first_gpu() -> Gpu | None:
    """Return the first GPU that the driver lists; it respects CUDA_VISIBLE_DEVICES, and no context is made."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, count = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    name = ctypes.create_string_buffer(_NAME_BYTES)
    if driver.cuDeviceGet(ctypes.byref(device), 0) or driver.cuDeviceGetName(name, _NAME_BYTES, device):
        return None
    return Gpu(
        name.value.decode(errors="replace"), ".".join(str(_attribute(driver, a, device)) for a in (_MAJOR, _MINOR))
    )


def _attribute(driver: ctypes.CDLL, attribute: int, device: ctypes.c_int) -> int:
    found = ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(found), attribute, device)
    return found.value


def _cuda_of_torch() -> str | None:
    """Read the CUDA version from the text of torch/version.py: importing torch would take seconds."""
    spec = find_spec("torch")
    with suppress(OSError):
        text = Path(spec.origin).with_name("version.py").read_text() if spec and spec.origin else ""
        found = re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
        return found[1] if found else None
    return None


def missing_for(variant: str, requires: Mapping[str, object] | None = None, host: Host | None = None) -> str | None:
    """Return what this machine lacks to run a variant, as text; None if it lacks nothing. It loads no large library.

    `requires` is the manifest's entry about the machine: that a plan was built on, or that int8 was built for.
    """
    wanted = variant_of(variant)
    if not wanted.is_known:
        return UNKNOWN
    if wanted.device == "cuda":
        host = host or describe_host()
        other = _other_machine(requires or {}, host) if wanted.runtime == "tensorrt" else None
        return missing_here(variant, host) or other
    if variant == TORCHSCRIPT and find_spec("torch") is None:
        return f"{NO_TORCH}: {install('torch')}"
    if wanted.runtime == "openvino" and find_spec("openvino") is None:
        return f"OpenVINO is not installed: {install_packages('openvino')}"
    if wanted.dtype == "bf16" and not computes_bf16():
        return "this CPU does not compute bf16: that takes AMX, AVX512-BF16 or ARM's bf16"
    if (requires or {}).get("instructions") == VNNI and not has_vnni():
        return "this CPU has no VNNI, and without it its sums overflow: build it here with --calibrate"
    return None


def missing_here(variant: str, host: Host) -> str | None:
    """Return what a machine lacks for any GPU variant of this kind, wherever it was built; None if it lacks nothing."""
    if host.gpu is None:
        return "no NVIDIA GPU is found: nvidia-smi must show one, and a container be started with it"
    if host.torch is None:
        return f"{NO_TORCH}: {install('torch')}"
    if host.cuda is None:
        return f"torch {host.torch} is built without CUDA: install torch's CUDA build"
    if variant_of(variant).runtime == "tensorrt" and host.torch_tensorrt is None:
        return f"torch-tensorrt is not installed: {install('trt')}"
    return None


def first_variant(manifest: Manifest) -> str:
    """Return the variant that every model of its kind of source has, and that is as exact as the source."""
    if manifest.is_quantised:
        return OPENVINO_INT8
    return TORCHSCRIPT if manifest.has_torchscript else OPENVINO_FP32


def runnable(manifest: Manifest, device: str = "cpu") -> list[str]:
    """List the variants for a device that this machine can run."""
    return [
        variant
        for variant in manifest.variants
        if variant_of(variant).device == device and missing_for(variant, manifest.requires(variant)) is None
    ]


def _other_machine(requires: Mapping[str, object], host: Host) -> str | None:
    """Return how this machine differs from the one that a plan was built on; None if it does not.

    The ABI may differ: the plan is embedded again.
    """
    here = host.requirements()
    for key, what in (("platform", "platform"), ("compute_capability", "compute capability"), ("tensorrt", "TensorRT")):
        if key in requires and requires[key] != here.get(key):
            return f"built for {what} {requires[key]}, this machine has {here.get(key, 'none')}: {_REBUILD}"
    return None
