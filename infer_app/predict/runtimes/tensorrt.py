"""Build and load TensorRT plans; no other module imports TensorRT or torch-tensorrt.

A *plan* is TensorRT's own file, bound to a kind of GPU and to TensorRT's version. The *embedded* module is TorchScript
that contains the plan; it is also bound to torch-tensorrt's serialization format (its ABI). The plan is stored beside
the module, so that another module can be made from it in a moment, without building again.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import nn

from infer_app.base.errors import ModelError, first_line
from infer_app.base.packages import install
from infer_app.base.size import Size
from infer_app.predict.runtimes.gpu_probe import describe_host
from infer_app.predict.runtimes.torchscript import Script, load_runnable

PLAN_FILE, MODULE_FILE = "engine.plan", "model.ts"  # in variants/<variant>/
MIN_BATCH, BEST_BATCH, MAX_BATCH = 1, 64, 256  # images; the plan is tuned for BEST_BATCH

REBUILD = "build it again on this machine: `infer model build SOURCE --name NAME --variant trt`"


class Bindings(NamedTuple):
    """The names of a plan's inputs and outputs, in its own order."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def build_plan(model: nn.Module, size: Size, device: torch.device) -> bytes:
    """Build the plan of a module that takes (n, H, W, 3) uint8 on `device`, for n up to MAX_BATCH.

    It takes minutes. Raises ModelError if torch can't export the module or TensorRT does not support all of it.
    """
    torch_tensorrt = load_library()
    exported = export_dynamic(model, size, device)
    spec = torch_tensorrt.Input(
        min_shape=(MIN_BATCH, *size.shape),
        opt_shape=(BEST_BATCH, *size.shape),
        max_shape=(MAX_BATCH, *size.shape),
        dtype=torch.uint8,
    )
    try:
        with redirect_stdout(io.StringIO()):  # standard output is reserved for the command's result
            plan: bytes = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine(
                exported, arg_inputs=[spec], device=_own_device(torch_tensorrt, device)
            )
    except Exception as error:  # it may raise anything for the user's graph
        raise ModelError(
            f"TensorRT can't convert this model: {first_line(error)}", "build --variant cuda instead"
        ) from error
    return bytes(plan)


def export_dynamic(model: nn.Module, size: Size, device: torch.device) -> torch.export.ExportedProgram:
    """Export the module as a graph of operators for any batch size. Raises ModelError if that fails."""
    example = torch.zeros(2, *size.shape, dtype=torch.uint8, device=device)
    batch = torch.export.Dim("batch", min=MIN_BATCH, max=MAX_BATCH)
    try:
        with torch.no_grad():
            return torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    except Exception as error:  # the user's code is traced
        raise ModelError(
            f"torch.export can't export this model: {first_line(error)}",
            "keep its batch size dynamic: use x.shape[0] or flatten(1), never a fixed number; or build --variant cuda",
        ) from error


def read_bindings(plan: bytes) -> Bindings:
    """Read the bindings from the plan itself. Raises ModelError if TensorRT here can't read it."""
    load_library()  # it finds TensorRT's libraries
    import tensorrt

    engine = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        raise ModelError(f"TensorRT {tensorrt.__version__} can't read the plan", REBUILD)
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    modes = tensorrt.TensorIOMode.INPUT, tensorrt.TensorIOMode.OUTPUT
    return Bindings(*(tuple(name for name in names if engine.get_tensor_mode(name) == mode) for mode in modes))


def embed(plan: bytes, bindings: Bindings, device: torch.device) -> Script:
    """Embed the plan in a TorchScript module that takes a batch on `device`. Raises ModelError if it can't run here."""
    torch_tensorrt = load_library()
    with _translate_errors():
        return torch_tensorrt.ts.embed_engine_in_new_module(
            plan,
            input_binding_names=list(bindings.inputs),
            output_binding_names=list(bindings.outputs),
            device=_own_device(torch_tensorrt, device),
        )


def load_embedded(module: bytes, device: torch.device) -> Script:
    """Load the bytes of model.ts, which deserialises the plan. Raises ModelError."""
    load_library()
    with _translate_errors():
        return load_runnable(module, device)


def runtime_abi() -> str:
    """Return the format of embedded plans that the installed runtime reads. Raises ModelError if there is none."""
    load_library()
    return str(torch.ops.tensorrt.ABI_VERSION())


def why_unusable() -> tuple[str, str] | None:
    """Return why torch-tensorrt can't be loaded and how to fix it; None if it can.

    A failed import leaves some modules loaded.
    """
    try:
        load_library()
    except ModelError as error:
        return error.message, error.hint
    return None


@cache
def load_library() -> ModuleType:
    """Import torch_tensorrt. Raises ModelError.

    Without TensorRT's libraries the import can raise any exception, and prints.
    """
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            import torch_tensorrt
    except Exception as error:  # also a bare Exception
        raise ModelError(
            f"torch-tensorrt can't be loaded: {_one_line(str(error)) or type(error).__name__}",
            _how_to_install(printed.getvalue()),
        ) from error
    module: ModuleType = torch_tensorrt
    return module


def _how_to_install(printed: str) -> str:
    """Name the installed versions: most often TensorRT is not the version that torch-tensorrt was built for."""
    host = describe_host()
    if host.torch_tensorrt is None:
        return f"{install('trt')} on a machine with an NVIDIA GPU"
    pair = f"torch-tensorrt {host.torch_tensorrt} with torch {host.torch} and TensorRT {host.tensorrt or 'missing'}"
    about = f"; it printed: {_one_line(printed)}" if printed.strip() else ""
    return f"found {pair}: they must be an exact set, {install('trt')}{about}"


def _own_device(torch_tensorrt: ModuleType, device: torch.device) -> object:
    """Return the device as torch-tensorrt's own type, because embed does not accept torch's."""
    return torch_tensorrt.Device(gpu_id=device.index or 0)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise the runtime's errors as ModelError, with an explanation for the user."""
    try:
        yield
    except ModelError as error:
        raise ModelError(*_explain(error.message, error.hint)) from error
    except Exception as error:  # its own exception types are not known here
        raise ModelError(*_explain(first_line(error), REBUILD)) from error


_REFUSALS = (
    ("Unknown type name", "torch-tensorrt's runtime is not loaded", "`infer doctor` says what is missing"),
    (
        "Torch-TensorRT ABI",
        "the module was embedded by another torch-tensorrt",
        "it is embedded again from engine.plan",
    ),
    ("No compatible device", "the plan was built for a GPU of another compute capability", REBUILD),
    ("Unable to deserialize", "TensorRT rejects the plan: it is damaged, or of another version or GPU", REBUILD),
    ("not built to run", "the plan was built for another platform", REBUILD),
)


def _explain(message: str, hint: str) -> tuple[str, str]:
    for sign, meaning, what_to_do in _REFUSALS:
        if sign in message:
            return f"{meaning}: {message}", what_to_do
    return message, hint


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
