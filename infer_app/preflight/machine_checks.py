"""Check the program, its packages, the decoder and the GPU."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.util import find_spec

from infer_app import __version__
from infer_app.errors import NO_TORCH, InferError, install
from infer_app.images.decode.decoder import decoder_name, has_turbo
from infer_app.machine import usable_cores
from infer_app.models.runtimes.gpu_probe import Host, describe_host
from infer_app.models.sources.library import require_library
from infer_app.packages import find_mismatches, missing_decoders, recorded_packages
from infer_app.pipeline.planning.execution_plan import broken_tensorrt
from infer_app.plurals import counted
from infer_app.preflight.finding import Finding
from infer_app.settings.load import LoadedSettings


def check_program(_: LoadedSettings) -> Iterator[Finding]:
    yield Finding(
        "program", f"infer_app {__version__}, Python {platform.python_version()}, {counted(usable_cores(), 'core')}"
    )


def check_versions(_: LoadedSettings) -> Iterator[Finding]:
    """Compare what is installed with what this program is made for."""
    wrong = list(find_mismatches())
    for one in wrong:
        found = f"{one.name} is not installed" if one.installed is None else f"{one.name} {one.installed} is untested"
        yield Finding("versions", f"{found}: {one.required} is required", one.fix)
    if not wrong:
        known = recorded_packages()
        named = ", ".join(f"{name} {known[name]}" for name in ("torch", "openvino", "pillow") if name in known)
        yield Finding("versions", f"{named}: as required")
    try:
        if find_spec("torch") and find_spec("torchvision"):
            require_library("torchvision")
    except InferError as error:  # a build may need it, a run does not
        yield Finding("versions", error.message, error.hint)


def check_decoder(_: LoadedSettings) -> Iterator[Finding]:
    fix = "" if has_turbo() else "install libturbojpeg (apt-get install libturbojpeg0): JPEGs decode 1.5 times faster"
    yield Finding("decoder", decoder_name(), fix)
    if missing := missing_decoders():
        names = " and ".join(sorted(reason.partition("_")[0].upper() for reason in missing))
        yield Finding("decoder", f"{names} images are rejected until their decoder is installed", install("heic"))


def check_gpu(_: LoadedSettings) -> Iterator[Finding]:
    """Check that torch can use the GPU, if the machine has one."""
    host = describe_host()
    if host.gpu is None:
        yield Finding("gpu", "none is found: models run on the CPU")
    elif host.torch is None:
        yield Finding("gpu", f"{host.gpu.name}, but {NO_TORCH}", install("torch"))
    elif host.cuda is None:
        yield Finding("gpu", f"{host.gpu.name}, but torch {host.torch} has no CUDA", "install torch's CUDA build")
    else:
        capability = host.gpu.compute_capability
        yield Finding("gpu", f"{host.gpu.name}, compute capability {capability}, torch {host.torch}, CUDA {host.cuda}")
    yield from _tensorrt(host)


def _tensorrt(host: Host) -> Iterator[Finding]:
    if host.torch_tensorrt is None:
        if host.gpu is not None:
            yield Finding("tensorrt", "torch-tensorrt is not installed", install("trt"))
        return
    versions = f"torch-tensorrt {host.torch_tensorrt}, TensorRT {host.tensorrt}"
    found, fix = broken_tensorrt() or (f"{versions}, plans embedded in format {host.abi}", "")
    yield Finding("tensorrt", found, fix)
