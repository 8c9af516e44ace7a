"""One operator at a time, by onnxruntime and by OpenVINO: where OpenVINO computes one of these rightly, take it out of
DIFFERENCES and of the table in docs/how-to/model-sources.md."""

import re
from pathlib import Path

import numpy as np
import pytest

from infer_app.base.errors import ModelError
from infer_app.build.network.openvino_differences import DIFFERENCES, find_differences
from infer_app.predict.runtimes.graph_input import read_graph, read_onnx
from infer_app.predict.runtimes.openvino import openvino_core
from tests.conftest import need
from tests.support.graphs import save_operator

need("onnx", "onnxruntime")
X = np.random.default_rng(0).normal(size=(2, 3, 9, 11)).astype(np.float32)
BYTES = np.arange(2 * 3 * 9 * 11).reshape(X.shape).astype(np.uint8)
WITH_NAN = np.where(X > 1, np.float32("nan"), X)
NONE = np.zeros(0, np.float32)
SMALLER = (NONE, np.float32([1, 1, 0.5, 0.6]))
SIDES = (NONE, NONE, np.int64([4, 8]))
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
PADS = {"pads": [1, 0, 0, 1]}
TRANSPOSED = (np.random.default_rng(0).normal(size=(3, 4, 3, 3)).astype(np.float32),)

# What a line of the table is about, what is looked for in the file (None: nothing is), and the operator.
OTHERWISE = {
    "Resize with antialias": ("Resize", X, SMALLER, {"mode": "linear", "antialias": 1}),
    "Resize with keep_aspect_ratio_policy": (
        "Resize",
        X,
        SIDES,
        {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
    ),
    "Resize with exclude_outside": ("Resize", X, SMALLER, {"mode": "cubic", "exclude_outside": 1}),
    "Softmax of opset 12 or less over several dimensions": ("Softmax", X, (), {"opset": 12}),
    "AveragePool with ceil_mode, count_include_pad and pads": (
        "AveragePool",
        X,
        (),
        {**POOL, **PADS, "count_include_pad": 1},
    ),
    "MaxPool with ceil_mode whose last window may lie in the padding": (
        "MaxPool",
        X,
        (),
        {**POOL, "strides": [3, 3], "pads": [1, 1, 1, 1]},
    ),
    "LpPool with ceil_mode": ("LpPool", X, (), {**POOL, "strides": [3, 3]}),
    "ConvTranspose with auto_pad SAME_UPPER": (
        "ConvTranspose",
        X,
        TRANSPOSED,
        {"strides": [2, 2], "output_shape": [17, 22], "auto_pad": "SAME_UPPER"},
    ),
    "QuantizeLinear to 16 bits": (
        ("QuantizeLinear", "DequantizeLinear", "Abs"),
        X,
        (np.float32(0.001), np.uint16(0)),
        {"opset": 21},
    ),
    "Add of 8-bit numbers": ("Add", BYTES, (np.uint8(200),), {}),
    "Sub of 8-bit numbers": ("Sub", BYTES, (np.uint8(200),), {}),
    "Mul of 8-bit numbers": ("Mul", BYTES, (np.uint8(3),), {}),
    "BitShift of 8-bit numbers": ("BitShift", BYTES, (np.uint8(3),), {"direction": "LEFT"}),
}
NOT_LOOKED_FOR = {
    "the order of equal numbers in TopK": ("TopK", np.round(X), (np.int64([9]),), {"num_outputs": 2}),
    "Upsample by a factor that is not whole": ("Upsample", X, (np.float32([1, 1, 2, 1.7]),), {"opset": 9}),
    **{
        f"NaN in {operator}": (operator, WITH_NAN, constants, options)
        for operator, constants, options in (
            ("Relu", (), {}),
            ("Clip", (np.float32(0), np.float32(6)), {}),
            ("Max", (np.float32(0),), {}),
            ("Min", (np.float32(0),), {}),
            ("MaxPool", (), {"kernel_shape": [2, 2]}),
            ("HardSigmoid", (), {}),
        )
    },
}
# The same operators as most networks have them: they are computed alike, and the file is not suspected.
ALIKE = [
    ("Resize", X, SMALLER, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    ("Resize", X, (NONE, NONE, np.int64([2, 3, 5, 7])), {"mode": "cubic", "cubic_coeff_a": -0.5}),
    ("Softmax", X, (), {"opset": 12, "axis": 3}),
    ("Softmax", X, (), {"opset": 12, "axis": -1}),
    ("Softmax", X[:, :, :1, :1], (), {"opset": 11, "axis": 1}),
    ("Softmax", X[:, :, 0, 0], (), {"opset": 11}),
    ("Softmax", X, (), {"axis": 1}),
    ("LogSoftmax", X, (), {"opset": 12}),
    ("Hardmax", X, (), {"opset": 12}),
    ("AveragePool", X, (), {**POOL, **PADS}),
    ("AveragePool", X, (), {**POOL, **PADS, "ceil_mode": 0, "count_include_pad": 1}),
    ("MaxPool", X, (), POOL),
    ("MaxPool", X, (), {**POOL, "pads": [1, 1, 1, 1]}),
    ("LpPool", X, (), {**POOL, "ceil_mode": 0}),
    ("ConvTranspose", X, TRANSPOSED, {"strides": [2, 2], "auto_pad": "SAME_LOWER", "output_shape": [17, 22]}),
    ("Add", X, (np.float32(200),), {}),
    ("Upsample", X, (np.float32([1, 1, 2, 2]),), {"opset": 9}),
    ("LSTM", X[0], (np.ones((1, 8, 11), np.float32), np.ones((1, 8, 2), np.float32)), {"hidden_size": 2}),
    ("GridSample", X, (X[:, 0, :, :2, None].repeat(2, 3),), {"padding_mode": "reflection"}),
    ("InstanceNormalization", X, (np.ones(3, np.float32), np.ones(3, np.float32)), {}),
]


def run_both(path, x):
    """The outputs of onnxruntime and of OpenVINO, and what is found in the file; OpenVINO may refuse to run it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    graph = read_onnx(path.read_bytes())
    found = find_differences(path.read_bytes(), graph)
    request = openvino_core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return session.run(None, {"x": x}), [*request.infer({0: x}).values()], found


def are_alike(theirs, ours):
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-4 * max(1, np.nanmax(np.abs(a))), equal_nan=True)
        for a, b in zip(theirs, ours, strict=True)
    )


@pytest.mark.parametrize("what", DIFFERENCES)
def test_what_is_looked_for_is_found_and_still_computed_otherwise(tmp_path, what):
    operator, x, constants, options = OTHERWISE[what]
    theirs, ours, found = run_both(save_operator(tmp_path / "net.onnx", operator, x, constants, **options), x)
    assert found == [what]
    assert not are_alike(theirs, ours), "OpenVINO computes it rightly now"


@pytest.mark.parametrize("what", NOT_LOOKED_FOR)
def test_what_only_its_numbers_tell_is_still_computed_otherwise(tmp_path, what):
    operator, x, constants, options = NOT_LOOKED_FOR[what]
    theirs, ours, found = run_both(save_operator(tmp_path / "net.onnx", operator, x, constants, **options), x)
    assert found == []
    assert not are_alike(theirs, ours), "OpenVINO computes it rightly now"


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: f"{case[0]}-{case[3]}")
def test_usual_operators_are_computed_alike_and_not_suspected(tmp_path, case):
    operator, x, constants, options = case
    theirs, ours, found = run_both(save_operator(tmp_path / "net.onnx", operator, x, constants, **options), x)
    assert found == []
    assert are_alike(theirs, ours)


def test_what_ends_in_maps_of_texts_is_refused_with_what_to_leave_out():
    """As scikit-learn's converter and Azure's Custom Vision write classifiers."""
    import onnx
    from onnx import helper

    label, number = onnx.TensorProto.STRING, onnx.TensorProto.FLOAT
    maps = helper.make_map_type_proto(label, helper.make_tensor_type_proto(number, []))
    outputs = [helper.make_value_info("maps", helper.make_sequence_type_proto(maps))]
    zipped = helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["a", "b"])
    graph = helper.make_graph([zipped], "g", [helper.make_tensor_value_info("x", number, [1, 2])], outputs)
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("ai.onnx.ml", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=6).SerializeToString()
    with pytest.raises(ModelError) as caught:
        read_graph([data], None)
    assert "ZipMap" in caught.value.hint


def test_the_table_of_the_docs_has_a_line_for_each():
    page = Path(__file__).parents[4].joinpath("docs/how-to/model-sources.md").read_text()
    lines = [set(re.findall(r"\w+", line)) for line in re.findall(r"^\| (.*?) \|", page, re.MULTILINE)]
    assert [
        what for what in (*DIFFERENCES, *NOT_LOOKED_FOR) if not any({*re.findall(r"\w+", what)} <= one for one in lines)
    ] == []
