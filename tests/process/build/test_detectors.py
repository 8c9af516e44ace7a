import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from infer_app.artifact.artifact import record_variant
from infer_app.base.errors import UsageError
from infer_app.base.model_variants import OPENVINO_FP32, OPENVINO_INT8, TORCHSCRIPT
from infer_app.base.size import Size
from infer_app.build.network.validate_detector import doubt_boxes
from infer_app.build.variants.calibration import ComparedImages, judge_on
from infer_app.build.variants.decoding_agreement import decoding_agreement, describe_agreement
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.cli.model.model import show_decoding, show_variants
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.agreement import judgement
from infer_app.predict.verification.outputs import KINDS, open_decoder
from infer_app.predict.verification.parity import Parity
from tests.conftest import need
from tests.support.detectors import SIZE, Pair, Quadrants, built_detector
from tests.support.graphs import save_ir
from tests.support.networks import predict_rows, random_pixels
from tests.support.photos import jpeg

PICTURES = [Size(200, 100), Size(30, 400), Size(64, 64)]


def objects(artifact, variant, pixels):
    decode = open_decoder(artifact)
    return [output.objects for output in decode(open_variant(artifact, variant, len(PICTURES))(pixels), PICTURES)]


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        assert [found[:2] for found in one] == [found[:2] for found in other]
        np.testing.assert_allclose([found[2:] for found in one], [found[2:] for found in other], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("module", [Quadrants(), Pair()], ids=["one output", "two outputs"])
def test_all_variants_give_the_same_objects(tmp_path, module):
    artifact = add_variants(built_detector(tmp_path, module, recipe="letterbox"), None, print)
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
    given = {"source": str(source), "recipe": "letterbox", "head": "detr"}
    with pytest.raises(UsageError, match=r"2 outputs: logits .*,3\], boxes .*,4\]"):
        built_detector(tmp_path, **given)
    artifact = built_detector(tmp_path, output_name="logits, boxes", **given)
    assert (artifact.manifest.output.detection.head, artifact.manifest.num_outputs) == ("detr", 4 * 7)
    reference = built_detector(tmp_path, Pair(), recipe="letterbox")
    pixels = random_pixels(3, SIZE)
    assert_same(objects(artifact, OPENVINO_FP32, pixels), objects(reference, TORCHSCRIPT, pixels))


# Half precision and int8 of a detector are judged by the objects that they keep.

COLORED, BLACK = (np.full((3, SIZE, SIZE, 3), level, np.uint8) for level in (150, 0))


@pytest.fixture
def artifact(tmp_path):
    return add_variants(built_detector(tmp_path, Quadrants(), decode="scaled"), None, print)


def judged(artifact, pixels, spoil=lambda rows: None):
    model = open_variant(artifact, TORCHSCRIPT)
    rows = predict_rows(model, pixels).reshape(len(pixels), 8, 6)
    spoil(rows)
    images = ComparedImages(artifact, pixels)
    vars(images)["expected"] = rows.reshape(len(pixels), -1)  # as the cached property keeps it
    return judge_on(artifact, model, images)


def halve_half(rows):
    rows[:, 4:, 4] /= 4


def test_a_variant_is_judged_by_the_objects_that_it_keeps(artifact):
    said = []
    parity = judged(artifact, COLORED)
    assert (parity.num_objects, KINDS["detection"].agreement(artifact.manifest, parity)) == (24, 1.0)
    told = "keeps 24 of 24 objects: between 29.2 and 100 %"  # of three images
    assert KINDS["detection"].describe_kept(artifact.manifest, parity) == told
    worse = judged(artifact, COLORED, halve_half)
    assert (worse.num_objects, worse.object_agreement) == (12, 1.0)  # the others were there with less
    judgement(artifact, OPENVINO_INT8, replace(parity, num_images=300, num_objects=2400), 0.97, said.append)
    assert said == []


def test_images_without_an_object_tell_nothing_so_no_run_takes_the_variant(artifact, capsys):
    said = []
    parity = judged(artifact, BLACK)
    assert KINDS["detection"].describe_kept(artifact.manifest, parity) == "no objects were found"
    details = judgement(artifact, OPENVINO_INT8, parity, 0.97, said.append)
    assert said == [f"{OPENVINO_INT8}: it was judged on 3 images of yours, 300 are needed: no run takes it"]
    details["calibration"]["num_images"] = 300
    show_variants(record_variant(artifact, OPENVINO_INT8, details | {"parity": parity.to_json()}, {}).manifest)
    shown = " ".join(capsys.readouterr().out.split())
    assert "no object was found on 300 images, so nothing tells what it keeps: no run takes it" in shown


def test_what_decoding_changes_is_told_in_objects(artifact, capsys):
    predict = open_variant(artifact, TORCHSCRIPT)
    parity = decoding_agreement(artifact, predict, [jpeg(400, 300)], 4)
    assert (parity.num_objects > 0, parity.object_agreement) == (True, 1.0)
    told = describe_agreement(parity, artifact.manifest)
    assert f"keeps {parity.num_objects} of {parity.num_objects} objects: between" in told
    show_decoding(record_variant(artifact, TORCHSCRIPT, {"scaled": parity.to_json()}, {}).manifest)
    assert capsys.readouterr().out.strip() == told
    none = Parity(1, 1.0, 0.0, 0.0, num_objects=0)
    assert "no objects were found" in describe_agreement(none, artifact.manifest)


class Fixed(torch.nn.Module):
    """The same rows for each picture."""

    rows: torch.Tensor

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.rows + 0 * pixels.mean((1, 2, 3))[:, None, None]


OFFSETS = torch.tensor([[0.5, 0.5, 1.4, 1.4, 0.9, 0.9, 0.1]]).expand(84, 7)  # YOLOX's rows for 64 x 64
SHARES = torch.tensor([[0.25, 0.25, 0.75, 0.75, 0.9, 0.0]]).expand(4, 6)
GRID = torch.cartesian_prod(torch.arange(0.0, 60, 3), torch.arange(17.0, 46, 1.5))  # a box at each place
EVERYWHERE = torch.cat([GRID, GRID + 2, torch.full((400, 1), 0.9), torch.zeros(400, 1)], 1)
IN_PADDING = torch.tensor([[0.0, 0, 60, 8, 0.9, 0.0]])  # of a picture twice as wide as high


@pytest.mark.parametrize(
    ("rows", "head", "doubt"),
    [
        (OFFSETS, "yolo5", "within 3.2 pixels of the corner: try --set head=yolox"),
        (OFFSETS, "yolox", ""),
        (SHARES, "boxes", "within 3.2 pixels of the corner: try a head of your own"),
        (SHARES[:, [2, 3, 0, 1, 4, 5]], "boxes", "have no area: try"),
        (SHARES * torch.tensor([64, 64, 64, 64, 1, 1]), "boxes", ""),
        (SHARES * torch.tensor([1, 1, 1, 1, 0, 1]), "boxes", ""),  # no boxes at all, which is told elsewhere
        (EVERYWHERE, "boxes", "are 300 of each image, as many as are kept: try a head of your own"),
        (EVERYWHERE[:290], "boxes", ""),
        (IN_PADDING, "boxes", "outside of the picture: try"),
        (IN_PADDING + torch.tensor([[0, 20, 0, 20, 0, 0]]), "boxes", ""),
    ],
)
def test_boxes_that_can_not_be_those_of_objects_are_doubted(tmp_path, rows, head, doubt):
    (tmp_path / "wide").mkdir()
    (tmp_path / "wide" / "1.jpg").write_bytes(jpeg(200, 100))
    artifact = built_detector(tmp_path, Fixed(rows), head, recipe="letterbox", golden=tmp_path / "wide")
    told = doubt_boxes(artifact)
    assert (doubt in told, bool(told)) == (True, bool(doubt))
