"""Check the program, its packages, decoder and GPU, the settings, and the places that images are read from."""

import platform
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from infer_app import __version__
from infer_app.base.errors import NO_TORCH, InferError, StorageUnavailable, install
from infer_app.base.machine import usable_cores
from infer_app.base.packages import find_mismatches, missing_decoders, recorded_packages, require_library
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.execution_plan import broken_tensorrt
from infer_app.predict.images.decode.decoder import decoder_name, has_turbo
from infer_app.predict.runtimes.gpu_probe import Host, describe_host
from infer_app.run.preflight.finding import Finding


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


def check_settings(loaded: LoadedSettings) -> Iterator[Finding]:
    changed = sum(1 for _, _, origin in loaded.flattened() if origin != "default")
    yield Finding("settings", f"{loaded.path}, {changed} set")
    _ = loaded.watched  # raises UsageError if it contradicts [source]


def check_roots(loaded: LoadedSettings) -> Iterator[Finding]:
    if not loaded.roots and not loaded.remote_access.places and loaded.lists_own_images:
        yield Finding("roots", "none: no image may be read", "`infer images add FOLDER`, or set [images] watch", 2)
    for root in loaded.roots:
        try:
            empty = next(root.iterdir(), None) is None and root not in loaded.watched  # which check_database looks into
        except OSError as error:
            hint = "is the image storage mounted and readable? infer.toml names it in [images], or in [source] base"
            raise StorageUnavailable(f"{root}: {error.strerror}", hint) from None
        if empty:
            hint = "put your images there; if they should be there, is the image storage mounted?"
            raise StorageUnavailable(f"{root} is empty", hint)
        is_watched = root in loaded.watched
        yield Finding("roots", f"{root} is there" + (", and a run registers what is new in it" if is_watched else ""))


def check_map(loaded: LoadedSettings) -> Iterator[Finding]:
    for recorded, here in loaded.path_map.folders:
        folder = Path(here or "/")
        if not folder.is_dir():
            raise StorageUnavailable(f"{folder} is no folder here", "is the image storage mounted?")
        allowed = any(folder.is_relative_to(root) or root.is_relative_to(folder) for root in loaded.roots)
        fix = "" if allowed else f"nothing in it may be read: add {folder} to [images] roots"
        yield Finding("map", f"what is recorded in {recorded or '/'} is read in {folder}", fix)


def check_remote(loaded: LoadedSettings) -> Iterator[Finding]:
    access = loaded.remote_access
    if not access.places:
        return
    from infer_app.predict.images.read.remote import probe  # most projects have nothing remote

    for place in access.places:
        try:
            yield Finding("remote", f"{place} {probe(place, access)}")
        except InferError as error:  # the other places are checked too
            yield Finding("remote", error.message, error.hint, error.exit_code)
