"""Detectors from sources of each kind, by all their outputs."""

import warnings

import pytest
import torch

from infer_app.errors import UsageError
from infer_app.model_variants import OPENVINO_FP32, TORCHSCRIPT
from infer_app.models.artifact.specs import DetectionSpec, OutputSpec
from infer_app.models.building.build_arguments import BuildRequest
from infer_app.models.building.build_model import build_model
from infer_app.models.building.openvino_variants import add_variants
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.models.verification.outputs import OutputDecoder
from infer_app.recipe import Recipe, Size
from tests.conftest import need
from tests.support.detectors import Pair, Quadrants
from tests.support.graphs import save_ir
from tests.support.networks import random_pixels, save

SIZE = 64
PICTURES = [Size(200, 100), Size(30, 400), Size(64, 64)]


def build(folder, source, head="", activation="softmax", **changes):
    output = OutputSpec("detection", activation, detection=DetectionSpec(head))
    given = {"recipe": Recipe("letterbox", SIZE, pad=114), "output": output} | changes
    return build_model(BuildRequest(str(source), "net", **given), folder / "models")


def objects(artifact, variant, pixels):
    decoder = OutputDecoder(artifact)
    return [output.objects for output in decoder(open_variant(artifact, variant, len(PICTURES))(pixels), PICTURES)]


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        assert [found[:2] for found in one] == [found[:2] for found in other]
        torch.testing.assert_close(
            torch.tensor([found[2:] for found in one]), torch.tensor([found[2:] for found in other])
        )


@pytest.mark.parametrize("module", [Quadrants(), Pair()], ids=["one output", "two outputs"])
def test_all_variants_give_the_same_objects(tmp_path, module):
    artifact = add_variants(build(tmp_path, save(module, tmp_path / "net.ts")), None, print)
    pixels = random_pixels(3, SIZE)
    expected = objects(artifact, TORCHSCRIPT, pixels)
    assert sum(map(len, expected)) > 3
    assert_same(objects(artifact, OPENVINO_FP32, pixels), expected)


@pytest.mark.parametrize("kind", ["onnx", "openvino"])
def test_outputs_of_a_file_are_named_with_commas(tmp_path, kind):
    need("onnx")
    source = tmp_path / "net.onnx"
    names = {"input_names": ["image"], "output_names": ["logits", "boxes"]}
    axes = {name: {0: "n"} for name in ("image", "logits", "boxes")}
    example = torch.zeros(2, 3, SIZE, SIZE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of an exporter that needs no other package
        torch.onnx.export(Pair().eval(), (example,), str(source), dynamo=False, dynamic_axes=axes, **names)
    if kind == "openvino":
        source = save_ir(tmp_path / "net.xml", source)
    with pytest.raises(UsageError, match=r"2 outputs: logits .*,3\], boxes .*,4\]"):
        build(tmp_path, source)
    artifact = build(tmp_path, source, output_name="logits, boxes")
    assert (artifact.manifest.output.detection.head, artifact.manifest.num_outputs) == ("detr", 4 * 7)
    reference = build(tmp_path, save(Pair(), tmp_path / "net.ts"))
    pixels = random_pixels(3, SIZE)
    assert_same(objects(artifact, OPENVINO_FP32, pixels), objects(reference, TORCHSCRIPT, pixels))


def test_a_head_of_ones_own_is_kept_with_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "def head(boxes):\n    return [rows[rows[:, 4] > 0] for rows in boxes]\n"
    (tmp_path / "my_head.py").write_text(code)
    source = save(Quadrants(), tmp_path / "net.ts")
    artifact = build(tmp_path, source, "my_head:head")
    (tmp_path / "my_head.py").write_text(code.replace("> 0", "> 1"))
    pixels = random_pixels(3, SIZE)
    assert_same(objects(artifact, TORCHSCRIPT, pixels), objects(build(tmp_path, source, "boxes"), TORCHSCRIPT, pixels))
    assert artifact.read("head.py").decode() == code
