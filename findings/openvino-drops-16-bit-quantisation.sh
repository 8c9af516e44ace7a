#!/bin/sh
# OpenVINO 2026.4.1 on a CPU leaves out a pair of QuantizeLinear and DequantizeLinear of 16 bits without a word. Where
# onnxruntime.quantization has merged a ReLU into the pair (zero point 0), the ReLU is gone too: negative numbers pass.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2
"$folder/venv/bin/python" - <<'P'
import io, sys
import numpy as np, onnx, onnxruntime, openvino
from onnx import TensorProto, helper, numpy_helper

nodes = [
    helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
    helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
    helper.make_node("GlobalAveragePool", ["d"], ["y"]),
]
constants = [numpy_helper.from_array(np.float32(0.001), "scale"), numpy_helper.from_array(np.uint16(0), "zero")]
value = helper.make_tensor_value_info
graph = helper.make_graph(
    nodes, "g", [value("x", TensorProto.FLOAT, [1, 1, 2, 2])], [value("y", TensorProto.FLOAT, [1, 1, 1, 1])], constants
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
onnx.checker.check_model(model)
data, x = model.SerializeToString(), np.float32([[[[-4, -2], [1, 3]]]])
theirs = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].item()
core = openvino.Core()
options = {"INFERENCE_PRECISION_HINT": "f32"}
ours = next(iter(core.compile_model(core.read_model(io.BytesIO(data)), "CPU", options)({0: x}).values())).item()
print(f"openvino {openvino.__version__}, onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
print(f"the mean of max(x, 0) of -4, -2, 1, 3: onnxruntime {theirs:.3f}, OpenVINO {ours:.3f}; right: 1.000")
sys.exit(0 if abs(theirs - 1) < 0.001 and abs(ours + 0.5) < 0.001 else 1)
P
