"""Small networks as ONNX files and IRs, which need the packages onnx and openvino."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from infer_app.predict.runtimes.openvino import load_openvino
from tests.support.networks import SIZE

SHAPE = ("n", 3, SIZE, SIZE)
WEIGHTS = (8.0, 4.0, 2.0)  # of red, green and blue


def save_onnx(
    path: Path,
    *,
    shape: Sequence[int | str] = SHAPE,
    dtype: str = "FLOAT",
    props: Mapping[str, str] | None = None,
    inputs: Sequence[str] = ("image",),
    features: bool = False,
    operator: str = "Mul",
    external: str | None = None,
) -> Path:
    """Save a network that gives the weighted mean of each channel, (n, 3), and with `features` those means too.

    With a fixed batch its last operator is a Reshape to that batch, so that it runs with no other.
    """
    import onnx
    import onnx.numpy_helper
    from onnx import TensorProto, helper

    batch, is_nhwc = shape[0], shape[-1] == 3
    pictures = inputs[0]
    nodes = [helper.make_node("Cast", [pictures], ["float"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Add", ["float", other], ["float"]) for other in inputs[1:]]
    nodes.append(helper.make_node("ReduceMean", ["float"], ["means"], axes=[1, 2] if is_nhwc else [2, 3], keepdims=0))
    domain = "" if operator == "Mul" else "my.operators"
    nodes.append(helper.make_node(operator, ["means", "weights"], ["weighted"], domain=domain))
    constants = [onnx.numpy_helper.from_array(np.array(WEIGHTS, np.float32), "weights")]
    constants.append(helper.make_tensor("rows", TensorProto.INT64, [2], [batch if isinstance(batch, int) else -1, 3]))
    nodes.append(helper.make_node("Reshape", ["weighted", "rows"], ["scores"]))
    outputs = ["scores", "means"] if features else ["scores"]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in outputs],
        constants,
    )
    opsets = [helper.make_opsetid("", 13), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, dict(props or {}))
    saved: dict[str, Any] = {"save_as_external_data": True, "location": external, "size_threshold": 0}
    onnx.save_model(model, str(path), **(saved if external else {}))
    return path


def save_tiles(path: Path, height: int, width: int) -> Path:
    """Save a network that gives the mean of each channel in 3 rows of 4 tiles of a picture of this size, (n, 36)."""
    import onnx
    from onnx import TensorProto, helper

    tile = [height // 3, width // 4]
    nodes = [helper.make_node("AveragePool", ["image"], ["tiles"], kernel_shape=tile, strides=tile)]
    nodes.append(helper.make_node("Flatten", ["tiles"], ["row"]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, height, width])
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, ["n", 36])
    graph = helper.make_graph(nodes, "tiles", [image], [row])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def save_ir(path: Path, onnx_file: Path, info: Mapping[str, str] | None = None) -> Path:
    """Save an ONNX file's network as an IR with these entries of Model API."""
    openvino = load_openvino()  # without its telemetry, wherever it is imported first
    graph = openvino.Core().read_model(str(onnx_file))
    for key, value in (info or {}).items():
        graph.set_rt_info(value, ["model_info", key])
    openvino.save_model(graph, str(path), compress_to_fp16=False)
    return path


def save_operator(
    path: Path,
    operator: str | Sequence[str],
    x: np.ndarray,
    constants: Sequence[np.ndarray] = (),
    *,
    opset: int = 18,
    num_outputs: int = 1,
    **attributes: Any,
) -> Path:
    """Save a network of one operator, or of several with the same constants, whose input is like `x`.

    An Abs at the end takes none.
    """
    import onnx
    from onnx import helper, numpy_helper

    names = [operator] if isinstance(operator, str) else list(operator)
    inputs = [numpy_helper.from_array(np.asarray(one), f"constant {number}") for number, one in enumerate(constants)]
    nodes, last = [], ["x"]
    for name in names:
        outputs = [f"{name} {number}" for number in range(num_outputs)]
        more = [] if name == "Abs" else [one.name for one in inputs]
        nodes.append(helper.make_node(name, [last[0], *more], outputs, **attributes))
        last = outputs
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    dtypes = [dtype, onnx.TensorProto.INT64][:num_outputs] if num_outputs < 3 else [dtype] * num_outputs
    graph = helper.make_graph(
        nodes,
        "operator",
        [helper.make_tensor_value_info("x", dtype, x.shape)],
        [helper.make_tensor_value_info(name, one, None) for name, one in zip(last, dtypes, strict=True)],
        inputs,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save_model(model, str(path))
    return path


def save_behind(path: Path, operator: str) -> Path:
    """Save a network with the outputs `means`, (n, 3), `features`, which are the same behind an operator that changes
    nothing, and `logits`, (n, 3): each mean of `features` times its weight.
    """
    import onnx
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node(operator, ["means"], ["features"]),
        helper.make_node("Mul", ["features", "weights"], ["logits"]),
    ]
    weights = onnx.numpy_helper.from_array(np.array(WEIGHTS, np.float32), "weights")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("means", "features", "logits")
    ]
    graph = helper.make_graph(nodes, "network", [image], outputs, [weights])
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def save_small(path: Path, *, antialias: bool = False, levels: int = 0) -> Path:
    """Save a network that gives 48 numbers of a picture that it halves.

    With `levels` its input and its output are quantised to 8 bits, so many levels for 1.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = {"none": np.zeros(0), "half": np.array([1, 1, 0.5, 0.5]), "scale": np.array(1 / max(levels, 1))}
    inits = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()]
    inits.append(numpy_helper.from_array(np.uint8(128), "zero"))
    last, nodes = "image", []
    for operator, more in (
        *((("QuantizeLinear", ("scale", "zero")), ("DequantizeLinear", ("scale", "zero"))) if levels else ()),
        ("Resize", ("none", "half")),
        *((("QuantizeLinear", ("scale", "zero")), ("DequantizeLinear", ("scale", "zero"))) if levels else ()),
        ("Flatten", ()),
    ):
        options = {"mode": "linear", "antialias": int(antialias)} if operator == "Resize" else {}
        output = f"{operator} {len(nodes)}"
        nodes.append(helper.make_node(operator, [last, *more], [output], **options))
        last = output
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)
    output = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", 3 * SIZE * SIZE // 4])
    graph = helper.make_graph(nodes, "network", [image], [output], inits)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), str(path))
    return path
