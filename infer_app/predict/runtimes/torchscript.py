"""Load, trace and run TorchScript; no other module uses torch.jit, which is deprecated, and its warnings end here."""

import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError, first_line
from infer_app.base.size import Size
from infer_app.predict.runtimes.fixed_batch import FixedBatch

BATCH_SIZE = 4  # images; constant, because the fusion is compiled for one shape
WARM_UP_RUNS = 3  # the first is profiled, the second compiles, the third runs what was compiled

Script: TypeAlias = Any  # a module of TorchScript, frozen or not
_jit: Any = torch.jit  # Any, because hardly any of it has types

_CALLABLE = (
    "give a callable that makes the module: `infer model build package.module:function --weights FILE --name NAME`"
)
_TRACE = "save the whole model: torch.jit.save(torch.jit.trace(model.eval(), example), FILE)"


def load_torchscript(source: bytes) -> torch.jit.ScriptModule:
    """Load a TorchScript file's module, in eval mode on the CPU.

    Raises ModelError that names the format if it is another one.
    """
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
    """Trace a module and return the bytes of a TorchScript file. Raises ModelError if that fails."""
    try:
        with _no_deprecations(), torch.no_grad():
            return save_module(_jit.trace(module, example, check_trace=False))
    except Exception as error:  # a trace runs the user's code
        raise ModelError(
            f"can't trace the module on an input of {tuple(example.shape)} {example.dtype}: {first_line(error)}",
            "script it and build from that file: torch.jit.script(module.eval()).save(FILE)",
        ) from error


def save_module(module: Script) -> bytes:
    """Return a TorchScript module as the bytes of a file."""
    buffer = io.BytesIO()
    with _no_deprecations():
        _jit.save(module, buffer)
    return buffer.getvalue()


def load_runnable(module: bytes, device: torch.device) -> Script:
    """Load a module that this program saved, in eval mode on `device`.

    Raises ModelError with torch's message if that fails.
    """
    try:
        with _no_deprecations():
            loaded = _jit.load(io.BytesIO(module), map_location=device)
    except Exception as error:  # a runtime's classes may raise anything while they are unpickled
        raise ModelError(first_line(error), "build the variant again on this machine") from error
    return loaded.eval()


def load_frozen(module: bytes, device: torch.device) -> Script:
    """Load a module that this program saved and fold its weights into the code, which saves work in each batch.

    Raises ModelError.
    """
    with _no_deprecations(), torch.inference_mode():
        return _freeze(load_runnable(module, device))


def run_source(module: nn.Module, spec: InputSpec, pixels: Tensor) -> Any:
    """Run the plain fp32 forward on (n, H, W, 3) uint8, neither frozen nor fused.

    It gives the golden outputs.
    """
    with _no_deprecations(), torch.inference_mode(), _jit.optimized_execution(False):
        return _Normalised(module, spec, channels_last=False)(pixels)


def source_rows(module: nn.Module, spec: InputSpec, pixels: np.ndarray) -> np.ndarray:
    """Return the outputs of a source for (n, H, W, 3) uint8 pixels: (n, D) float32."""
    return rows_of(run_source(module, spec, torch.from_numpy(pixels))).numpy()


def rows_of(output: Tensor | Sequence[Tensor]) -> Tensor:
    """Convert an output whose first dimension is the batch, or several, one after the other, to (n, D) float32."""
    if isinstance(output, Tensor):
        return output.float().reshape(output.shape[0], -1)
    return torch.cat([rows_of(one) for one in output], 1)


def build_cpu_variant(artifact: Artifact, batch_size: int = BATCH_SIZE, num_threads: int | None = None) -> FixedBatch:
    """Make the variant cpu-torchscript, warmed up, so that the first call is fast already.

    It is made at every load; none of it is stored. `num_threads`, if given, is from then on that of the whole process.
    """
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    manifest = artifact.manifest
    return make_cpu_variant(
        artifact.read(manifest.model_file), manifest.input_spec, manifest.recipe.size, batch_size=batch_size
    )


def make_cpu_variant(source: bytes, spec: InputSpec, size: Size, batch_size: int = BATCH_SIZE) -> FixedBatch:
    """Make the variant cpu-torchscript from a source that need not belong to an artifact.

    oneDNN's kernels are fastest with channels last, which decoded pixels have already. A module that calls `view` on a
    picture can't run with it and gets the default layout. One that oneDNN's fusion fails on, such as a linear layer
    that is followed by a factor of one element, runs without it.
    """
    for channels_last in (True, False):
        with suppress(Exception):  # torch.jit.Error is not a RuntimeError
            return _compile(
                trace_normalised(source, spec, size, batch_size, channels_last), size, batch_size, is_fused=True
            )
    return _compile(trace_normalised(source, spec, size, batch_size), size, batch_size, is_fused=False)


def trace_normalised(
    source: bytes, spec: InputSpec, size: Size, batch_size: int = BATCH_SIZE, channels_last: bool = False
) -> Script:
    """Trace the source with normalisation of uint8 NHWC pixels, not frozen."""
    wrapped = _Normalised(load_torchscript(source), spec, channels_last=channels_last).eval()
    example = torch.zeros(batch_size, *size.shape, dtype=torch.uint8)
    with _no_deprecations(), torch.no_grad():
        return _jit.trace(wrapped, example, check_trace=False)


class _Normalised(nn.Module):
    """The source with normalisation of uint8 NHWC pixels, by mean and std of the 0-1 scale on the 0-255 scale."""

    mean: Tensor
    std: Tensor

    def __init__(self, source: nn.Module, spec: InputSpec, *, channels_last: bool) -> None:
        super().__init__()
        self.source = source
        self.takes_pixels = spec.takes_pixels
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self.register_buffer("mean", torch.tensor(spec.mean, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(spec.std, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Any:
        if self.takes_pixels:
            return self.source(pixels)
        pictures = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=self.memory_format)
        return self.source((pictures - self.mean) / self.std)


def _freeze(module: Script) -> Script:
    """Fold the weights into the code.

    The result keeps a reference to the module: for the message of an error in it, torch 2.13 reads the functions that
    were inlined and crashes if they were freed. That costs no memory, because the two share their weights.
    """
    frozen = _jit.freeze(module)
    object.__setattr__(frozen, "inlined_from", module)
    return frozen


def _compile(traced: Script, size: Size, batch_size: int, is_fused: bool) -> FixedBatch:
    with _no_deprecations(), torch.no_grad():
        module = _freeze(traced)

    def run(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return rows_of(module(torch.from_numpy(pixels))).numpy()

    model = FixedBatch(run, size, batch_size)
    with _no_deprecations(), _onednn_fusion() if is_fused else nullcontext():
        model.warm_up(WARM_UP_RUNS)
    return model


def _refuse_other_formats(source: bytes) -> None:
    if source.startswith(b"version https://git-lfs"):
        raise ModelError("the source is a Git LFS pointer, not the model itself", "fetch it: git lfs pull")
    if source.startswith(b"\x80"):
        raise ModelError("the source is a pickle, so a state dict or a checkpoint and not TorchScript", _CALLABLE)
    names = _archived(source)
    if not names:
        what = "a zip file that is cut off" if source[:2] == b"PK" else "not a TorchScript file"
        raise ModelError(f"the source is {what}", f"{_TRACE}; or {_CALLABLE}")
    if has_code(source):
        return
    if any(name in ("/archive_format", "/models/model.json", "/serialized_exported_program.json") for name in names):
        raise ModelError("the source is a .pt2 archive of torch.export, not TorchScript", f"{_TRACE}; or {_CALLABLE}")
    if "/data.pkl" in names:
        raise ModelError("the source is what torch.save makes, a state dict or checkpoint, not TorchScript", _CALLABLE)
    raise ModelError("the source is a zip file, but not TorchScript", f"{_TRACE}; or {_CALLABLE}")


def has_code(source: bytes) -> bool:
    """Return whether a file has TorchScript code, without loading it."""
    return any(name.startswith("/code/") for name in _archived(source))


def _archived(source: bytes) -> list[str]:
    """List the files of a zip archive, below its own folder; none if it is not one."""
    if not zipfile.is_zipfile(io.BytesIO(source)):
        return []
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        return ["/" + name.partition("/")[2] for name in archive.namelist()]


@contextmanager
def _no_deprecations() -> Iterator[None]:
    """Ignore the warnings of torch.jit that it may be removed; the stored source allows another runtime later."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        yield


@contextmanager
def _onednn_fusion() -> Iterator[None]:
    """Turn on oneDNN's fusion for what is compiled meanwhile; it is a switch of the whole process, so restore it."""
    before = _jit.onednn_fusion_enabled()
    _jit.enable_onednn_fusion(True)
    try:
        yield
    finally:
        _jit.enable_onednn_fusion(before)
