"""TorchScript: the only module that touches torch.jit, which is deprecated; its own warnings end here."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from infer_app.errors import ModelError
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.specs import InputSpec
from infer_app.models.runtimes.fixed_batch import FixedBatch, as_rows
from infer_app.models.runtimes.padding import fold_padding

BATCH_SIZE = 4  # images; fixed, because the fusion is made for one shape. Tuning may find another one faster
WARM_UP_RUNS = 3  # the first is profiled, the second compiles, the third runs what was compiled

_jit: Any = torch.jit  # has hardly a type

_CALLABLE = "give a callable that makes the module: infer model build package.module:function --weights FILE"
_TRACE = "save the whole model: torch.jit.save(torch.jit.trace(model.eval(), example), FILE)"


def load_torchscript(source: bytes) -> torch.jit.ScriptModule:
    """The module in a TorchScript file, in eval mode on the CPU; ModelError that says what the bytes are instead."""
    _refuse_other_formats(source)
    try:
        with _no_deprecations():
            module: torch.jit.ScriptModule = _jit.load(io.BytesIO(source), map_location="cpu")
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"torch {torch.__version__} can't load this TorchScript file: {first_line(error)}",
            "an unknown operator belongs to a package that infer_app doesn't load; otherwise " + _TRACE,
        ) from error
    module.eval()
    return module


def trace_module(module: nn.Module, example: Tensor) -> bytes:
    """A module as the bytes of a TorchScript file; ModelError where it can't be traced."""
    try:
        with _no_deprecations(), torch.no_grad():
            return save_module(_jit.trace(module, example, check_trace=False))
    except Exception as error:  # a trace runs the user's code
        raise ModelError(
            f"can't trace the module on an input of {tuple(example.shape)} {example.dtype}: {first_line(error)}",
            "script it and build from that file: torch.jit.script(module.eval()).save(FILE)",
        ) from error


def save_module(module: Any) -> bytes:
    """A TorchScript module as the bytes of a file."""
    buffer = io.BytesIO()
    with _no_deprecations():
        _jit.save(module, buffer)
    return buffer.getvalue()


def load_runnable(module: bytes, device: torch.device) -> Any:
    """A module of our own making, in eval mode on `device`; ModelError with torch's own words where it can't be."""
    try:
        with _no_deprecations():
            loaded = _jit.load(io.BytesIO(module), map_location=device)
    except Exception as error:  # what a runtime's classes raise while they are unpickled is anybody's guess
        raise ModelError(first_line(error), "build the variant again on this machine") from error
    return loaded.eval()


def load_frozen(module: bytes, device: torch.device) -> Any:
    """The same with its weights folded in: what never changes needn't be computed for each batch. Raises ModelError."""
    with _no_deprecations(), torch.inference_mode():
        return _freeze(load_runnable(module, device))


def run_source(module: nn.Module, spec: InputSpec, pixels: Tensor) -> Any:
    """The plain fp32 forward, nothing frozen and nothing fused, on (n, H, W, 3) uint8: what golden outputs are."""
    with _no_deprecations(), torch.inference_mode(), _jit.optimized_execution(False):
        return _Normalised(module, spec, channels_last=False)(pixels)


def run_artifact(artifact: Artifact, pixels: Tensor) -> Tensor:
    """`run_source` of a stored model: (n, D) float32."""
    module = load_torchscript(artifact.read(artifact.manifest.model_file))
    return as_rows(run_source(module, artifact.manifest.input_spec, pixels))


def build_cpu_variant(artifact: Artifact, batch_size: int = BATCH_SIZE) -> FixedBatch:
    """The variant cpu-torchscript, warmed up and fast from the first call; made at every load, nothing is stored."""
    manifest = artifact.manifest
    return make_cpu_variant(
        artifact.read(manifest.model_file), manifest.input_spec, manifest.recipe.size, batch_size=batch_size
    )


def make_cpu_variant(source: bytes, spec: InputSpec, size: int, batch_size: int = BATCH_SIZE) -> FixedBatch:
    """The same for a source of which there is no artifact yet.

    Channels last is what oneDNN's kernels are quickest in, and the decoded pixels have it already. A module that
    calls `view` on a picture can't run so; it gets the usual layout.
    """
    try:
        return _warm(_frozen(source, spec, size, batch_size, channels_last=True), size, batch_size)
    except Exception:  # torch.jit.Error is no RuntimeError
        return _warm(_frozen(source, spec, size, batch_size, channels_last=False), size, batch_size)


def trace_normalised(source: bytes, spec: InputSpec, size: int) -> Any:
    """The source behind uint8 NHWC pixels, traced and not frozen: what other runtimes are converted from."""
    wrapped = _Normalised(load_torchscript(source), spec, channels_last=False).eval()
    example = torch.zeros(BATCH_SIZE, size, size, 3, dtype=torch.uint8)
    with _no_deprecations(), torch.no_grad():
        return _jit.trace(wrapped, example, check_trace=False)


class _Normalised(nn.Module):
    """The source behind uint8 NHWC pixels: the 0-1 scale's mean and std, on the 0-255 scale."""

    mean: Tensor
    std: Tensor

    def __init__(self, source: nn.Module, spec: InputSpec, *, channels_last: bool) -> None:
        super().__init__()
        self.source = source
        self.takes_pixels = spec.kind == "uint8-nhwc"
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self.register_buffer("mean", torch.tensor(spec.mean, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(spec.std, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Any:
        if self.takes_pixels:
            return self.source(pixels)
        pictures = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=self.memory_format)
        return self.source((pictures - self.mean) / self.std)


def _frozen(source: bytes, spec: InputSpec, size: int, batch_size: int, *, channels_last: bool) -> Any:
    wrapped = _Normalised(load_torchscript(source), spec, channels_last=channels_last).eval()
    example = torch.zeros(batch_size, size, size, 3, dtype=torch.uint8)
    with _no_deprecations(), torch.no_grad():
        frozen = _freeze(_jit.trace(wrapped, example, check_trace=False))
    fold_padding(frozen.graph)
    return frozen


def _freeze(module: Any) -> Any:
    """Fold the weights into the code.

    The result keeps the module alive: for the message of an error in it torch 2.13 reads the functions that it was
    inlined from, and crashes where they are gone. That takes no memory, since the two share their weights.
    """
    frozen = _jit.freeze(module)
    object.__setattr__(frozen, "inlined_from", module)
    return frozen


def _warm(module: Callable[[Tensor], Tensor], size: int, batch_size: int) -> FixedBatch:
    def run(pixels: Tensor) -> Tensor:
        with torch.inference_mode():
            return module(pixels)

    model = FixedBatch(run, size, batch_size)
    with _no_deprecations(), _onednn_fusion():
        model.warm_up(WARM_UP_RUNS)
    return model


def _refuse_other_formats(source: bytes) -> None:
    if source.startswith(b"version https://git-lfs"):
        raise ModelError("the source is a Git LFS pointer, not the model itself", "fetch it: git lfs pull")
    if source.startswith(b"\x80"):
        raise ModelError("the source is a pickle, so a state dict or a checkpoint and not TorchScript", _CALLABLE)
    if not zipfile.is_zipfile(io.BytesIO(source)):
        raise ModelError("the source is not a TorchScript file", f"{_TRACE}; or {_CALLABLE}")
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        names = ["/" + name.partition("/")[2] for name in archive.namelist()]  # below the archive's own folder
    if any(name.startswith("/code/") for name in names):
        return
    if any(name in ("/archive_format", "/models/model.json", "/serialized_exported_program.json") for name in names):
        raise ModelError("the source is a .pt2 archive of torch.export, not TorchScript", f"{_TRACE}; or {_CALLABLE}")
    if "/data.pkl" in names:
        raise ModelError("the source is what torch.save makes, a state dict or checkpoint, not TorchScript", _CALLABLE)
    raise ModelError("the source is a zip file, but not TorchScript", f"{_TRACE}; or {_CALLABLE}")


def first_line(error: BaseException) -> str:
    """What torch says, without the pages of traceback that it puts into the message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line]  # of a failure inside TorchScript code: the last such line
    return (told[-1] if told else lines[0] if lines else type(error).__name__)[:300]


@contextmanager
def _no_deprecations() -> Iterator[None]:
    """torch.jit warns at each call that it may go; the source is kept so that a successor can be added."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        yield


@contextmanager
def _onednn_fusion() -> Iterator[None]:
    """oneDNN's fusion for what is compiled meanwhile; a switch of the whole process, so it is put back."""
    before = _jit.onednn_fusion_enabled()
    _jit.enable_onednn_fusion(True)
    try:
        yield
    finally:
        _jit.enable_onednn_fusion(before)
