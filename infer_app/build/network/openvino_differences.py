"""Find in an ONNX file what OpenVINO computes otherwise than ONNX says; docs/how-to/model-sources.md has the table.

Seen in OpenVINO 2026.4.1 beside onnxruntime 1.32.0, on networks of one operator; a test of each line tells when a
release computes it right.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from infer_app.build.sources.onnx_nodes import OnnxNode, read_nodes
from infer_app.predict.runtimes.openvino import Graph

Port: TypeAlias = Any  # the output of the operator that OpenVINO makes of a node; None if it has none of the name
AXIS_ALONE = 13  # opset from which on Softmax is over one axis


def find_differences(data: bytes, graph: Graph) -> list[str]:
    """Return what OpenVINO may compute otherwise than the file says; `graph` is the same network as OpenVINO reads it.

    Whether it makes a difference may depend on sizes and numbers, which a second runtime tells. Raises DamagedOnnx.
    """
    ports = {name: port for operator in graph.get_ops() for port in operator.outputs() for name in port.get_names()}
    nodes = [(f"{node.operator} ", node, ports.get(node.output)) for node in read_nodes(data)]
    asked = DIFFERENCES.items()
    return [
        what for what, is_in in asked if any(what.startswith(name) and is_in(one, port) for name, one, port in nodes)
    ]


def _is_over_several(node: OnnxNode, port: Port) -> bool:
    """Return whether a Softmax is over several dimensions: in former opsets over all from its axis on."""
    (axis,) = node.numbers.get("axis") or (1,)
    is_known = port is not None and port.get_partial_shape().rank.is_static
    others = list(port.get_partial_shape())[axis:][1:] if is_known else [None]
    return node.opset < AXIS_ALONE and any(length != 1 for length in others)


def _may_begin_in_padding(node: OnnxNode, _: Port) -> bool:
    """Return whether a window that is added by rounding up can lie in the padding alone, where ONNX adds none."""
    kernel = node.numbers.get("kernel_shape", ())
    ones, ends = (1,) * len(kernel), node.numbers.get("pads", (0,) * 2 * len(kernel))[len(kernel) :]
    steps, dilations = (node.numbers.get(name, ones) for name in ("strides", "dilations"))
    sides = zip(kernel, steps, dilations, ends, strict=False)
    return node.is_on("ceil_mode") and any(step + end > (side - 1) * by + 1 for side, step, by, end in sides)


def _is_of(*dtypes: str) -> Callable[[OnnxNode, Port], bool]:
    return lambda _, port: port is not None and port.get_element_type().get_type_name() in dtypes


def _counts_pads(node: OnnxNode, _: Port) -> bool:
    return node.is_on("ceil_mode", "count_include_pad") and any(node.numbers.get("pads", ()))


DIFFERENCES: Mapping[str, Callable[[OnnxNode, Port], bool]] = {
    "Resize with antialias": lambda node, _: node.is_on("antialias"),
    "Resize with keep_aspect_ratio_policy": lambda node, _: (
        node.texts.get("keep_aspect_ratio_policy", "")[:4] == "not_"
    ),
    "Resize with exclude_outside": lambda node, _: node.is_on("exclude_outside"),
    "Softmax of opset 12 or less over several dimensions": _is_over_several,
    "AveragePool with ceil_mode, count_include_pad and pads": _counts_pads,
    "MaxPool with ceil_mode whose last window may lie in the padding": _may_begin_in_padding,
    "LpPool with ceil_mode": lambda node, _: node.is_on("ceil_mode"),
    "ConvTranspose with auto_pad SAME_UPPER": lambda node, _: node.texts.get("auto_pad") == "SAME_UPPER",
    "QuantizeLinear to 16 bits": _is_of("u16", "i16"),
    **{f"{one} of 8-bit numbers": _is_of("u8", "i8") for one in ("Add", "Sub", "Mul", "BitShift")},
}
