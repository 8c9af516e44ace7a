"""Convert, quantise and run models with OpenVINO; no other module imports it or NNCF."""

from __future__ import annotations

import io
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.errors import ModelError, UsageError, lines_of
from infer_app.model_variants import variant_of
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.specs import InputSpec
from infer_app.models.runtimes.fixed_batch import FixedBatch
from infer_app.models.runtimes.torchscript import trace_normalised
from infer_app.recipe import Size

MODEL_XML, MODEL_BIN = "model.xml", "model.bin"  # in variants/<variant>/
BATCH_SIZE = 2  # images; tuning may find a faster one

_INSTALL = "pip install --force-reinstall openvino"
_DTYPES = {"f32": "float32", "f16": "float16", "u8": "uint8"}  # of an input


@dataclass(frozen=True, slots=True)
class GraphInput:
    """The input of a network that was read from a file; None for a length that may be any."""

    dtype: str  # float32, float16 or uint8
    layout: str  # NCHW or NHWC
    batch: int | None
    height: int | None
    width: int | None

    @property
    def kind(self) -> str:
        """Return the kind of InputSpec: uint8 is taken as decoded, floats are normalised."""
        return "uint8-nhwc" if self.dtype == "uint8" else "float-nchw"


def convert(artifact: Artifact) -> Any:
    """Convert the artifact's TorchScript module to an OpenVINO graph: any number of uint8 NHWC pictures in, fp32 out.

    Raises ModelError if OpenVINO does not support one of its operators.
    """
    manifest = artifact.manifest
    size = manifest.recipe.size
    traced = trace_normalised(artifact.read(manifest.model_file), manifest.input_spec, size)
    openvino = _openvino()
    try:
        with _restore_logging():
            graph = openvino.convert_model(traced, input=[openvino.PartialShape([-1, *size.shape])])
            return join_outputs(graph)
    except Exception as error:  # the frontend may raise anything for the user's graph
        raise ModelError(
            f"OpenVINO can't convert this model: {lines_of(error)[-1][:300]}", "it runs as TorchScript"
        ) from error


def read_graph(files: Sequence[bytes], output_name: str | None = None) -> Any:
    """Read an ONNX file, or both files of an IR, and keep the output that is stored, or several with commas between.

    Raises ModelError if OpenVINO can't read it, and UsageError for a network that does not take one picture or has
    several outputs of which none is chosen.
    """
    openvino = _openvino()
    try:
        with _restore_logging():
            if len(files) == 1:
                graph = _core().read_model(io.BytesIO(files[0]))
            else:
                graph = _core().read_model(files[0], openvino.Tensor(np.frombuffer(files[1], np.uint8)))
    except Exception as error:  # the frontend may raise anything for a file's content
        raise ModelError(
            f"OpenVINO {openvino.__version__.partition('-')[0]} can't read this network: {_reason(error)}",
            "export it again, an ONNX file with opset 17 or the like; or build from TorchScript",
        ) from error
    if len(graph.inputs) != 1:
        raise UsageError(
            f"the network has {len(graph.inputs)} inputs ({', '.join(map(_name, graph.inputs))}), not one picture",
            "export it with the other inputs as constants",
        )
    if graph.get_sinks():
        raise UsageError("the network keeps a state from call to call", "export it without its state")
    describe_input(graph)
    return openvino.Model(_choose_outputs(graph.outputs, output_name), graph.get_parameters(), graph.get_name())


def join_outputs(graph: Any) -> Any:
    """Return a graph whose outputs are joined to rows, (n, D) fp32, as by `as_rows`; itself if it has only one."""
    if len(graph.outputs) == 1:
        return graph
    openvino = _openvino()
    operators = openvino.opset13
    rows = [
        operators.reshape(operators.convert(output.get_node().input_value(0), "f32"), [0, -1], special_zero=True)
        for output in graph.outputs
    ]
    joined = operators.concat(rows, 1)
    return openvino.Model([joined], graph.get_parameters(), graph.get_name())


def describe_input(graph: Any) -> GraphInput:
    """Describe the only input of a network. Raises UsageError if it is not a batch of pictures with three channels."""
    port = graph.input(0)
    shape, dtype = port.get_partial_shape(), port.get_element_type().get_type_name()
    hint = "a network takes (n, 3, height, width) or (n, height, width, 3): export it so"
    if shape.rank.is_dynamic or len(shape) != 4:
        raise UsageError(f"the input {_name(port)} has the shape {shape}, which is not a batch of pictures", hint)
    lengths = [length.get_length() if length.is_static else None for length in shape]
    if lengths[1] in (3, None) and (lengths[1] == 3 or lengths[3] != 3):
        layout, (batch, _, height, width) = "NCHW", lengths
    elif lengths[3] == 3:
        layout, (batch, height, width, _) = "NHWC", lengths
    else:
        raise UsageError(f"the input {_name(port)} has the shape {shape}, without three channels", hint)
    if dtype not in _DTYPES:
        raise UsageError(
            f"the input {_name(port)} is of the type {dtype}", f"export it with one of {', '.join(_DTYPES.values())}"
        )
    return GraphInput(_DTYPES[dtype], layout, batch, height, width)


def normalise(graph: Any, spec: InputSpec, size: Size) -> Any:
    """Add the normalisation of uint8 NHWC pictures to a network that was read from a file.

    The graph takes any number of pictures if the network can, else the number that it was exported for, or one.
    """
    openvino = _openvino()
    own = describe_input(graph)
    pipeline = openvino.preprocess.PrePostProcessor(graph.clone())
    pictures = pipeline.input()
    pictures.tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC"))
    pictures.model().set_layout(openvino.Layout(own.layout))
    if spec.kind != "uint8-nhwc":
        steps = pictures.preprocess().convert_element_type(openvino.Type.f32)
        steps.mean([255 * value for value in spec.mean]).scale([255 * value for value in spec.std])
    for number in range(len(graph.outputs)):
        pipeline.output(number).tensor().set_element_type(openvino.Type.f32)
    graph = join_outputs(pipeline.build())
    for batch in (-1, own.batch or 1):
        fixed = graph.clone()
        try:
            fixed.reshape([batch, *size.shape])
            if batch != -1 or _gives_rows(fixed, size):
                return fixed
        except RuntimeError as error:
            failure = error
    raise ModelError(
        f"the network can't run on pictures of {size.width}x{size.height}: {_reason(failure)}",
        "check --size: it must be that of the export",
    )


def run_graph(graph: Any, batch_size: int, size: Size) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Return a function that runs a network as it was read, in fp32 and without any other hint: all its outputs."""
    graph = graph.clone()
    own = describe_input(graph)
    try:
        graph.reshape([batch_size, 3, size.height, size.width] if own.layout == "NCHW" else [batch_size, *size.shape])
        request = _core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    except RuntimeError as error:
        raise ModelError(
            f"OpenVINO can't run this network on {size.width}x{size.height}: {_reason(error)}", "check --size"
        ) from error
    return lambda pixels: list(request.infer({0: pixels}, share_outputs=False).values())


def _gives_rows(graph: Any, size: Size) -> bool:
    """Return whether a graph gives the same row for a picture in a batch as for the picture alone."""
    random = np.random.default_rng(0)
    pixels = torch.from_numpy(random.integers(0, 256, (3, *size.shape), dtype=np.uint8))
    try:
        apart = compile_graph(graph, size, 1)
        together = compile_graph(graph, size, 3)(pixels)
    except RuntimeError:
        return False
    expected = torch.cat([apart(pixels[number : number + 1]) for number in range(3)])
    scale = expected.abs().max().item()
    return expected.shape == together.shape and torch.allclose(expected, together, rtol=0, atol=1e-3 * max(scale, 1e-6))


def _choose_outputs(outputs: list[Any], wanted: str | None) -> list[Any]:
    if wanted is None:
        if len(outputs) == 1:
            return outputs
        shown = ", ".join(f"{_name(output)} {output.get_partial_shape()}" for output in outputs)
        raise UsageError(
            f"the network has {len(outputs)} outputs: {shown}",
            "choose one with --output-name NAME; of a detector several, with commas between",
        )
    found = []
    for name in output_names(wanted):
        if not (named := [output for output in outputs if name in output.get_names()]):
            names = ", ".join(map(_name, outputs))
            raise UsageError(f"the network has no output {name!r}", f"choose one with --output-name: {names}")
        found += named
    return found


def output_names(wanted: str) -> list[str]:
    """Return the names of outputs that --output-name lists with commas between."""
    return [name.strip() for name in wanted.split(",")]


def _name(port: Any) -> str:
    return min(port.get_names(), default="without a name", key=lambda name: (len(name), name))


def quantise(graph: Any, calibration: Iterable[Tensor], keep_float: int = 0) -> Any:
    """Quantise a graph to int8, except its first `keep_float` convolutions.

    `calibration` yields pixels, (1, H, W, 3) uint8.

    The overflow fix leaves a bit of each weight unused: on processors without VNNI the sum of two products of full
    range does not fit into 16 bits. Measured on such a processor with EfficientNet-Lite0: 98 % of the labels kept, 89 %
    without.
    """
    _openvino()  # NNCF would import it with its telemetry
    import nncf
    from nncf.quantization.advanced_parameters import OverflowFix

    first = [node.get_friendly_name() for node in graph.get_ordered_ops() if "Convolution" in node.get_type_name()]
    batch = _batch_of(graph) or 1
    samples = [np.repeat(pixels.numpy(), batch, 0) for pixels in calibration]
    return nncf.quantize(
        graph,
        nncf.Dataset(samples),
        preset=nncf.QuantizationPreset.PERFORMANCE,
        subset_size=len(samples),
        ignored_scope=nncf.IgnoredScope(names=first[:keep_float]) if keep_float else None,
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=OverflowFix.ENABLE),
    )


def serialise(graph: Any) -> dict[str, bytes]:
    """Return the graph's files by name, with weights in full fp32."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, MODEL_XML)
        _openvino().save_model(graph, str(path), compress_to_fp16=False)
        return {name: Path(folder, name).read_bytes() for name in (MODEL_XML, MODEL_BIN)}


def build_openvino_variant(
    artifact: Artifact, variant: str, batch_size: int = BATCH_SIZE, num_threads: int = 1
) -> FixedBatch:
    """Compile a stored variant for this processor. Raises ModelError if OpenVINO can't be loaded or can't read it."""
    xml, weights = (artifact.read(artifact.manifest.find_file(variant, name)) for name in (MODEL_XML, MODEL_BIN))
    openvino = _openvino()
    try:
        graph = _core().read_model(xml, openvino.Tensor(np.frombuffer(weights, np.uint8)))
    except RuntimeError as error:
        raise ModelError(
            f"{variant}: OpenVINO {openvino.__version__} can't read it: {lines_of(error)[-1][:300]}"
        ) from error
    return compile_graph(graph, artifact.manifest.recipe.size, batch_size, num_threads, variant_of(variant).dtype)


def compile_graph(
    graph: Any, size: Size, batch_size: int = BATCH_SIZE, num_threads: int = 1, dtype: str = "fp32"
) -> FixedBatch:
    """Compile the graph for one batch size, to run on `num_threads` threads of the CPU.

    `dtype` is that of the variant; whether sums are of f32 or bf16 is always requested, because the default depends on
    the processor. Threads are not pinned to cores, because two processes would both be pinned to the first core.
    """
    graph = graph.clone()
    own_batch = _batch_of(graph)
    if own_batch is None:
        graph.reshape([batch_size, *size.shape])
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bf16" else "f32",
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_NUM_THREADS": num_threads,
        "NUM_STREAMS": 1,
    }
    request = _core().compile_model(graph, "CPU", options).create_infer_request()
    run = _runner(request)
    model = FixedBatch(run if own_batch is None else _in_batches(run, own_batch), size, batch_size)
    model.warm_up()
    return model


def _batch_of(graph: Any) -> int | None:
    """Return the number of pictures that a graph takes, None for any number."""
    batch = graph.input(0).get_partial_shape()[0]
    return batch.get_length() if batch.is_static else None


def _in_batches(run: Callable[[Tensor], Tensor], batch: int) -> Callable[[Tensor], Tensor]:
    """Run pictures in batches of a network's own size, the last one filled up with black pictures."""

    def run_all(pixels: Tensor) -> Tensor:
        missing = -len(pixels) % batch
        filled = torch.cat([pixels, pixels.new_zeros(missing, *pixels.shape[1:])]) if missing else pixels
        return torch.cat([run(some) for some in torch.split(filled, batch)])[: len(pixels)]

    return run_all


def can_quantise() -> bool:
    """Return whether NNCF is installed, without importing it."""
    return find_spec("nncf") is not None


def _runner(request: Any) -> Callable[[Tensor], Tensor]:
    def run(pixels: Tensor) -> Tensor:
        outputs = request.infer({0: pixels.numpy()}, share_inputs=True, share_outputs=False)
        return torch.from_numpy(outputs[0])

    return run


@cache
def _core() -> Any:
    return _openvino().Core()


def _openvino() -> Any:
    """Import OpenVINO without its telemetry, which would report each conversion to its maker.

    Raises ModelError with how to repair the installation if the import fails.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except Exception as error:  # an OSError for a missing system library, anything for a damaged package
        raise ModelError(f"OpenVINO can't be loaded: {error}", _INSTALL) from error
    return openvino


@contextmanager
def _restore_logging() -> Iterator[None]:
    """Restore the logging configuration afterwards: a failed conversion leaves all of it at errors only."""
    root = logging.getLogger()
    level, filters, handlers = root.level, list(root.filters), list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters[:], root.handlers[:] = filters, handlers


def _reason(error: BaseException) -> str:
    """Return the line of OpenVINO's message that says what is wrong with a network."""
    lines = lines_of(error)
    unknown = [line.lstrip("- ") for line in lines if "No conversion rule" in line]
    said = unknown or [line for line in lines if not line.startswith(("Exception from", "Check '", "While validating"))]
    return " ".join((said or lines)[:2])[:300]
