"""Read the source of a model: a file of TorchScript, ONNX or OpenVINO, or a Python callable that returns the module."""

from __future__ import annotations

import ast
import hashlib
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from infer_app.domain import Size
from infer_app.errors import ModelError, UsageError
from infer_app.models.artifact.specs import InputSpec
from infer_app.models.build.callables import resolve_callable
from infer_app.models.build.graph_files import graph_kind, read_graph_facts, read_graph_files
from infer_app.models.build.validate_source import check_batches
from infer_app.models.runtimes.torchscript import first_line, has_code, trace_module
from infer_app.models.sources.onnx_file import DamagedOnnx, metadata_props
from infer_app.models.sources.source_facts import SourceFacts
from infer_app.models.sources.state_dict import WRAPPERS, describe_weights
from infer_app.models.sources.ultralytics import torchscript_config, ultralytics_facts

_INSTALLED = ("site-packages", "dist-packages")
_NUM_NAMED = 3  # missing or unexpected keys that an error names
_WRITE_FUNCTION = "write a function that returns the torch module: docs/how-to/coming-from.md"


@dataclass(frozen=True)
class ModelSource:
    """The files of a network and their hash, which is part of the model's id."""

    kind: str  # torchscript, callable, onnx or openvino
    files: tuple[bytes, ...]  # one, and for openvino the weights too
    sha256: str

    @property
    def model(self) -> bytes:
        """Return the file of the network itself: of a callable, the TorchScript that it was traced to."""
        return self.files[0]


def read_source(source: str, weights: Path | None, input_spec: InputSpec, size: Size) -> ModelSource:
    """Read a file unchanged, or trace a callable's module in fp32 on pictures of `size`."""
    path = Path(source)
    if path.is_file():
        return _read_file(path, weights)
    if path.is_dir():
        raise UsageError(f"{source} is a folder and not a file", _WRITE_FUNCTION)
    if ":" not in source:
        raise UsageError(
            f"no file {source}",
            "give a TorchScript or ONNX file, an IR's .xml, or a callable as package.module:function",
        )
    function = resolve_callable(source)
    module = make_module(source, weights)
    if weights is None and _state_sha256(module) != _state_sha256(_make(function, source)):
        raise ModelError(f"{source} gives other weights at each call", "name the trained ones: --weights FILE")
    sha256 = hashlib.sha256(source_code(function) + _state_sha256(module).encode()).hexdigest()
    return ModelSource("callable", (_trace(module, input_spec, size),), sha256)


def make_module(source: str, weights: Path | None) -> nn.Module:
    """Call the callable and load the weights: return the module in eval mode, fp32, on the CPU.

    Raises UsageError or ModelError.
    """
    module = _make(resolve_callable(source), source)
    if weights is not None:
        _load_weights(module, weights)
    return module


def source_code(function: Callable[..., Any]) -> bytes:
    """Return the bytes of the file that defines a function. Raises UsageError if there is none."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
        return Path(path or "").read_bytes()
    except (TypeError, OSError) as error:
        raise UsageError(
            f"{function!r} has no source file", "write it in a Python file, so that a change to it can be noticed"
        ) from error


def standalone_code(function: Callable[..., Any]) -> bytes:
    """Return `source_code` of a function. Raises ModelError if its file imports modules beside it."""
    code = source_code(function)
    folders = {Path(inspect.getsourcefile(inspect.unwrap(function)) or "").parent, Path.cwd()}
    own = [folder for folder in folders if folder.name not in _INSTALLED]
    for name in _imported(code):
        if any(_is_module(folder / name) for folder in own):
            raise ModelError(
                f"{function.__name__} imports the local module {name or '.'}, which the artifact will not contain",
                "keep the function in one file that imports installed packages only",
            )
    return code


def _imported(code: bytes) -> list[str]:
    """Return the packages that a file imports anywhere in it; an empty name for a relative import."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names.append("" if node.level else (node.module or "").partition(".")[0])
    return names


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or any(path.glob("*.py"))


def read_facts(source: str, output_name: str | None) -> SourceFacts:
    """Return what a source says about its own use; a callable says nothing."""
    path = Path(source)
    if path.is_file() and graph_kind(source):
        return read_graph_facts(path, output_name)
    if output_name is not None:
        raise UsageError(
            "--output-name belongs to an ONNX file or an IR", "leave it out: the module returns the one tensor"
        )
    return ultralytics_facts(torchscript_config(path), "config.txt") if path.is_file() else SourceFacts()


def kind_of(source: str) -> str:
    """Return the kind of a source by its name: torchscript, callable, onnx or openvino."""
    return (graph_kind(source) or "torchscript") if Path(source).is_file() else "callable"


def _read_file(path: Path, weights: Path | None) -> ModelSource:
    if weights is not None:
        raise UsageError("--weights belongs to a callable; a file brings its own", "leave --weights out")
    kind = kind_of(str(path))
    if kind != "torchscript":
        files = read_graph_files(path)
        sums = [hashlib.sha256(data).hexdigest() for data in files]
        return ModelSource(
            kind, files, sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
        )
    data = path.read_bytes()
    _refuse_other_files(path, data)
    return ModelSource("torchscript", (data,), hashlib.sha256(data).hexdigest())


def _refuse_other_files(path: Path, data: bytes) -> None:
    """Raise UsageError or ModelError for a file that is not TorchScript, if it can be told what it is."""
    if path.suffix.lower() == ".bin" and path.with_suffix(".xml").is_file():
        raise UsageError(f"{path} has the weights of an IR", f"give the network: {path.with_suffix('.xml')}")
    if data.lstrip()[:4] in (b"<?xm", b"<net"):
        raise UsageError(f"{path} is an XML file", f"if it is OpenVINO's IR, name it {path.stem}.xml")
    if data[:1] == b"\x08" and _is_onnx(data):
        raise UsageError(f"{path} is an ONNX file by its content", f"name it {path.stem}.onnx")
    is_safetensors = path.suffix == ".safetensors"
    if is_safetensors or data[:1] == b"\x80" or (data[:2] == b"PK" and not has_code(data)):
        try:
            state = _read_weights(path)
        except ModelError:
            return  # the loader of TorchScript says more
        key = next((key for key in WRAPPERS if isinstance(state.get(key), dict)), None)
        tensors = state if key is None else state[key]
        if tensors and all(isinstance(value, Tensor) for value in tensors.values()):
            entry = f"a checkpoint whose entry {key!r} is " if key else ""
            raise ModelError(
                f"{path} is {entry}{describe_weights(list(map(str, tensors)))}: weights without a network",
                "write a function that returns the network, then `infer model build package.module:function --weights "
                f"{path} --name NAME`",
            )


def _is_onnx(data: bytes) -> bool:
    try:
        metadata_props(data)
    except DamagedOnnx:
        return False
    return True


def _make(function: Callable[..., Any], source: str) -> nn.Module:
    try:
        module = function()
    except Exception as error:
        raise ModelError(
            f"{source} failed: {type(error).__name__}: {error}", "it must take no argument and return an nn.Module"
        ) from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"{source} returned a {type(module).__name__}", "it must return an nn.Module")
    return module.eval().cpu().float()


def _load_weights(module: nn.Module, path: Path) -> None:
    state = _read_weights(path)
    expected = module.state_dict().keys()
    missing, unexpected = sorted(expected - state.keys()), sorted(state.keys() - expected)
    if missing or unexpected:
        raise ModelError(
            f"{path} is of another module: {_named('missing', missing)}{_named('unexpected', unexpected)}",
            _hint_for(state),
        )
    try:
        module.load_state_dict(state, strict=True)
    except RuntimeError as error:
        shapes = str(error).splitlines()[-1].strip()
        raise ModelError(f"{path} is of another module: {shapes}", "check the callable's number of classes") from error


def _read_weights(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}", "--weights takes a state dict or .safetensors"
        ) from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, SafetensorError, ValueError) as error:
        raise ModelError(
            f"{path}: no weights can be read: {first_line(error)}",
            "save them on their own: torch.save(model.state_dict(), FILE), or as safetensors",
        ) from error
    if not isinstance(state, dict):
        raise ModelError(f"{path} holds a {type(state).__name__}", "save torch.save(model.state_dict(), FILE)")
    return state


def _named(what: str, keys: list[str]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _NUM_NAMED} more" if len(keys) > _NUM_NAMED else ""
    return f"{what} {', '.join(keys[:_NUM_NAMED])}{more}; "


def _hint_for(state: Mapping[str, Any]) -> str:
    for key in WRAPPERS:
        if isinstance(state.get(key), dict):
            return f"it is a checkpoint: save its {key!r} entry on its own"
    if state and all(str(key).startswith("module.") for key in state):
        return "the keys start with 'module.' (DataParallel): save model.module.state_dict()"
    return "give the callable that the weights were trained with"


def _state_sha256(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        # Not contiguous(): for a tensor with one element it keeps any stride, and view needs stride 1.
        values = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
        digest.update(values.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _trace(module: nn.Module, spec: InputSpec, size: Size) -> bytes:
    """Trace a module.

    Raises ModelError; if the module can't run even without tracing, the error says why.
    """
    try:
        return trace_module(module, _example(spec, size))
    except ModelError:
        check_batches(module, spec, _pictures(3, size))
        raise


def _example(spec: InputSpec, size: Size) -> Tensor:
    """Return two pictures to trace on: with a single one a squeeze would remove the batch dimension."""
    if spec.kind == "uint8-nhwc":
        return _pictures(2, size)
    return torch.rand(2, 3, size.height, size.width, generator=torch.Generator().manual_seed(0))


def _pictures(count: int, size: Size) -> Tensor:
    """Return random pixels, (count, H, W, 3) uint8, the same at each call."""
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, *size.shape), dtype=torch.uint8, generator=random)
