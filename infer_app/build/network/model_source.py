"""Find what a model is built from: a file, a Python callable that returns the module, or another library's network."""

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.size import Size
from infer_app.build.network.graph_files import graph_kind, read_graph_facts, read_graph_files, refuse_other_files
from infer_app.build.network.validate_source import check_batches
from infer_app.build.sources.callables import resolve_callable, source_code
from infer_app.build.sources.computation import add_tensor, computation_sha256
from infer_app.build.sources.export_metadata import torchscript_config, ultralytics_facts
from infer_app.build.sources.hugging_face import open_hugging_face
from infer_app.build.sources.source_facts import CONFIG, LibraryNetwork, SourceFacts, read_config
from infer_app.build.sources.timm_network import open_timm
from infer_app.build.sources.torchvision_network import open_torchvision
from infer_app.build.sources.weights import load_weights
from infer_app.predict.runtimes.torchscript import trace_module


@dataclass(frozen=True)
class SourceFiles:
    """The files of a network and their hash, which is part of the model's id."""

    kind: str  # torchscript, callable, onnx or openvino
    files: tuple[bytes, ...]  # one, and for openvino the weights too
    sha256: str

    @property
    def model(self) -> bytes:
        """Return the file of the network itself: of a callable, the TorchScript that it was traced to."""
        return self.files[0]


class ModelSource(Protocol):
    """What a model is built from. Its methods raise UsageError and ModelError."""

    @property
    def kind(self) -> str:
        """Return torchscript, callable, onnx or openvino."""

    def facts(self, output_name: str | None) -> SourceFacts:
        """Return what the source says about its own use."""

    def read(self, input_spec: InputSpec, size: Size) -> SourceFiles:
        """Return a file unchanged, or trace a module in fp32 on pictures of `size`."""

    def make_module(self) -> nn.Module:
        """Return a new module in eval mode, fp32, on the CPU, with its weights; of a callable or a library only."""


def find_source(source: str, weights: Path | None) -> ModelSource:
    """Return what `infer model build SOURCE` names. Raises UsageError or ModelError."""
    path = Path(source)
    if path.is_file() or path.is_dir():
        if weights is not None:
            raise UsageError("--weights belongs to a callable; a file brings its own", "leave --weights out")
        return _find_in_folder(path) if path.is_dir() else _FileSource(path)
    library, colon, name = source.partition(":")
    if not colon:
        raise UsageError(
            f"no file {source}",
            "give a TorchScript or ONNX file, an IR's .xml, a Hugging Face folder, timm:NAME, torchvision:NAME, or a "
            "callable as package.module:function",
        )
    if library == "timm":
        return LibrarySource(open_timm(name, weights))
    if library == "torchvision":
        return LibrarySource(open_torchvision(name, weights))
    return _FunctionSource(source, weights)


class _FileSource:
    """A file of TorchScript, ONNX or OpenVINO."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.kind = graph_kind(path.name) or "torchscript"

    def facts(self, output_name: str | None) -> SourceFacts:
        if self.kind != "torchscript":
            return read_graph_facts(self._path, output_name)
        _refuse_output_name(output_name)
        return ultralytics_facts(torchscript_config(self._path), "config.txt")

    def read(self, input_spec: InputSpec, size: Size) -> SourceFiles:
        if self.kind == "torchscript":
            files: tuple[bytes, ...] = (self._path.read_bytes(),)
            refuse_other_files(self._path, files[0])
        else:
            files = read_graph_files(self._path)
        sums = [hashlib.sha256(data).hexdigest() for data in files]
        sha256 = sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
        return SourceFiles(self.kind, files, sha256)

    def make_module(self) -> nn.Module:
        raise UsageError(f"{self._path} is a file", "a module is made by a callable or a library")


class _FunctionSource:
    """A function that returns the torch module, and a file of weights to load into it."""

    kind = "callable"

    def __init__(self, spec: str, weights: Path | None) -> None:
        self._spec, self._weights = spec, weights

    def facts(self, output_name: str | None) -> SourceFacts:
        _refuse_output_name(output_name)
        return SourceFacts()

    def read(self, input_spec: InputSpec, size: Size) -> SourceFiles:
        function = resolve_callable(self._spec)
        module = self.make_module()
        if self._weights is None and _state_sha256(module) != _state_sha256(_make(function, self._spec)):
            raise ModelError(f"{self._spec} gives other weights at each call", "name the trained ones: --weights FILE")
        return _traced(module, source_code(function), input_spec, size)

    def make_module(self) -> nn.Module:
        module = _make(resolve_callable(self._spec), self._spec)
        if self._weights is not None:
            load_weights(module, self._weights)
        return module


class LibrarySource:
    """A network of another library, whose module is traced, or an ONNX export in its folder."""

    def __init__(self, network: LibraryNetwork) -> None:
        self.network = network
        self._onnx = _FileSource(network.onnx) if network.onnx else None
        self.kind = self._onnx.kind if self._onnx else "callable"

    def facts(self, output_name: str | None) -> SourceFacts:
        if self._onnx:
            return self._onnx.facts(output_name).merged(self.network.facts)
        _refuse_output_name(output_name)
        return self.network.facts

    def read(self, input_spec: InputSpec, size: Size) -> SourceFiles:
        if self._onnx:
            return self._onnx.read(input_spec, size)
        module = self.network.make()
        with warnings.catch_warnings():  # of branches by the size of the pictures, which is always the same
            warnings.simplefilter("ignore")
            return _traced(module, source_code(type(module)) + self.network.definition.encode(), input_spec, size)

    def make_module(self) -> nn.Module:
        return self.network.make().eval().cpu().float()


def _find_in_folder(folder: Path) -> ModelSource:
    if not (folder / CONFIG).is_file():
        raise UsageError(
            f"{folder} is a folder without {CONFIG}, which Hugging Face and timm save beside the weights",
            "put it there, and Hugging Face's preprocessor_config.json; or write a function that returns the module",
        )
    is_timm = "pretrained_cfg" in read_config(folder / CONFIG)
    return LibrarySource(open_timm(str(folder), None) if is_timm else open_hugging_face(folder))


def _refuse_output_name(output_name: str | None) -> None:
    if output_name is not None:
        raise UsageError(
            "output_name belongs to an ONNX file or an IR", "leave it out: the module returns the one tensor"
        )


def _traced(module: nn.Module, code: bytes, input_spec: InputSpec, size: Size) -> SourceFiles:
    module = module.eval().cpu().float()
    stated = hashlib.sha256(code + _state_sha256(module).encode()).hexdigest()
    traced = _trace(module, input_spec, size)  # also what other files and packages define
    sha256 = hashlib.sha256((stated + computation_sha256(traced)).encode()).hexdigest()
    return SourceFiles("callable", (traced,), sha256)


def _make(function: Callable[..., object], source: str) -> nn.Module:
    try:
        module = function()
    except Exception as error:
        raise ModelError(
            f"{source} failed: {type(error).__name__}: {error}", "it must take no argument and return an nn.Module"
        ) from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"{source} returned a {type(module).__name__}", "it must return an nn.Module")
    return module.eval().cpu().float()


def _state_sha256(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}:".encode())
        add_tensor(digest, tensor)
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
    if spec.takes_pixels:
        return _pictures(2, size)
    return torch.rand(2, 3, size.height, size.width, generator=torch.Generator().manual_seed(0))


def _pictures(count: int, size: Size) -> Tensor:
    """Return random pixels, (count, H, W, 3) uint8, the same at each call."""
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, *size.shape), dtype=torch.uint8, generator=random)
