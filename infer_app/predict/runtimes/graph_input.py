"""Read a network's own graph from an ONNX file or an IR, describe its input, and normalise it to take pixels."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError, UsageError, lines_of
from infer_app.base.size import Size
from infer_app.predict.runtimes.openvino import (
    Graph,
    compile_graph,
    join_outputs,
    load_openvino,
    openvino_core,
    restore_logging,
)

Port: TypeAlias = Any  # an openvino.Output
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


def read_graph(files: Sequence[bytes], output_name: str | None = None) -> Graph:
    """Read an ONNX file, or both files of an IR, and keep the output that is stored, or several with commas between.

    Raises ModelError if OpenVINO can't read it, and UsageError for a network that does not take one picture or has
    several outputs of which none is chosen.
    """
    openvino = load_openvino()
    try:
        with restore_logging():
            if len(files) == 1:
                graph = read_onnx(files[0])
            else:
                graph = openvino_core().read_model(files[0], openvino.Tensor(np.frombuffer(files[1], np.uint8)))
    except Exception as error:  # the frontend may raise anything for a file's content
        raise ModelError(
            f"OpenVINO {openvino.__version__.partition('-')[0]} can't read this network: {_reason(error)}",
            "export it as ONNX of opset 17 or the like, without texts and ZipMap as outputs; or build from TorchScript",
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


def read_onnx(data: bytes) -> Graph:
    """Read an ONNX file by a path: of one in memory, OpenVINO 2026.4 gives two outputs of one tensor the same name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")
        path.write_bytes(data)
        return openvino_core().read_model(path)


def describe_input(graph: Graph) -> GraphInput:
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


def normalise(graph: Graph, spec: InputSpec, size: Size) -> Graph:
    """Add the normalisation of uint8 NHWC pictures to a network that was read from a file.

    The graph takes any number of pictures if the network can, else the number that it was exported for, or one.
    """
    openvino = load_openvino()
    own = describe_input(graph)
    pipeline = openvino.preprocess.PrePostProcessor(graph.clone())
    pictures = pipeline.input()
    pictures.tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC"))
    pictures.model().set_layout(openvino.Layout(own.layout))
    if not spec.takes_pixels:
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


def run_graph(graph: Graph, batch_size: int, size: Size) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Return a function that runs a network as it was read, in fp32 and without any other hint: all its outputs."""
    graph = graph.clone()
    own = describe_input(graph)
    try:
        graph.reshape([batch_size, 3, size.height, size.width] if own.layout == "NCHW" else [batch_size, *size.shape])
        request = (
            openvino_core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
        )
    except RuntimeError as error:
        raise ModelError(
            f"OpenVINO can't run this network on {size.width}x{size.height}: {_reason(error)}", "check --size"
        ) from error
    return lambda pixels: list(request.infer({0: pixels}, share_outputs=False).values())


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are not finite
def _gives_rows(graph: Graph, size: Size) -> bool:
    """Return whether a graph gives the same row for a picture in a batch as for the picture alone."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (3, *size.shape), dtype=np.uint8)
    try:
        apart = compile_graph(graph, size, 1)
        together = compile_graph(graph, size, 3)(pixels)
    except RuntimeError:
        return False
    expected = np.concatenate([apart(pixels[number : number + 1]) for number in range(3)])
    atol = 1e-3 * max(float(np.abs(expected).max()), 1e-6)
    return expected.shape == together.shape and bool((np.abs(expected - together) <= atol).all())


def _choose_outputs(outputs: list[Port], wanted: str | None) -> list[Port]:
    if wanted is None:
        if len(outputs) == 1:
            return outputs
        shown = ", ".join(f"{_name(output)} {output.get_partial_shape()}" for output in outputs)
        raise UsageError(
            f"the network has {len(outputs)} outputs: {shown}",
            "choose one with --set output_name=NAME; of a detector several, with commas between",
        )
    found = []
    for name in output_names(wanted):
        if not (named := [output for output in outputs if name in output.get_names()]):
            names = ", ".join(map(_name, outputs))
            raise UsageError(f"the network has no output {name!r}", f"choose one with output_name: {names}")
        found += named
    return found


def output_names(wanted: str) -> list[str]:
    """Return the names of outputs that output_name lists with commas between."""
    return [name.strip() for name in wanted.split(",")]


def _name(port: Port) -> str:
    return min(port.get_names(), default="without a name", key=lambda name: (len(name), name))


def _reason(error: BaseException) -> str:
    """Return the line of OpenVINO's message that says what is wrong with a network."""
    lines = lines_of(error)
    unknown = [line.lstrip("- ") for line in lines if "No conversion rule" in line]
    said = unknown or [line for line in lines if not line.startswith(("Exception from", "Check '", "While validating"))]
    return " ".join((said or lines)[:2])[:300]
