import numpy as np
import pytest

from infer_app.artifact.artifact import open_artifact
from infer_app.artifact.description import Description
from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.model_variants import OPENVINO_FP32, OPENVINO_INT8
from infer_app.base.size import Size
from infer_app.build.build_model import build_model
from infer_app.build.network.model_source import find_source
from infer_app.build.variants.calibration import Calibration
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.golden import predict_all
from tests.conftest import need
from tests.support.graphs import WEIGHTS, save_ir, save_onnx
from tests.support.networks import MEAN, SIZE, STD, Network, random_pixels, save, save_photos

need("onnx")
PLAIN = {"mean": MEAN, "std": STD}
OWN_PIXELS = {"input": "uint8-nhwc", "mean": (0, 0, 0), "std": (1, 1, 1)}


def save_network(folder, kind, **network):
    source = save_onnx(folder / "net.onnx", **network)
    return source if kind == "onnx" else save_ir(folder / "net.xml", source)


def build(folder, source, **changes):
    given = PLAIN | {"source": str(source), "name": "net", "recipe": "stretch", "size": SIZE, "output": "regression"}
    return build_model(Description(**given | changes), folder / "models")


def expected(pixels, mean=MEAN, std=STD):
    means = pixels.mean((1, 2)) / 255
    return (means - np.array(mean)) / np.array(std) * np.array(WEIGHTS)


@pytest.mark.parametrize(
    ("network", "options"),
    [
        *(
            ({"shape": shape}, PLAIN)
            for shape in [("n", 3, SIZE, SIZE), (1, 3, "h", "w"), (4, 3, SIZE, SIZE), ("n", SIZE, SIZE, 3)]
        ),
        ({"dtype": "UINT8"}, OWN_PIXELS),
    ],
)
@pytest.mark.parametrize("kind", ["onnx", "openvino"])
def test_a_network_of_any_batch_and_layout_gives_what_it_computes(tmp_path, network, options, kind):
    source = save_network(tmp_path, kind, **network)
    given = find_source(str(source), None).facts(None).taken({})
    assert (given["input"].value == "uint8-nhwc") == (options is OWN_PIXELS)
    artifact = build(tmp_path, source, **options)
    assert (artifact.manifest.source_kind, list(artifact.manifest.variants)) == (kind, [OPENVINO_FP32])
    scale = 255 if options is OWN_PIXELS else 1
    pixels = random_pixels(5)
    for batch_size in (1, 2, 8):
        model = open_variant(artifact, OPENVINO_FP32, batch_size)
        actual = predict_all(model, pixels, batch_size)
        wanted = scale * expected(pixels, options["mean"], options["std"])
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4 * scale)


def test_the_files_are_kept_and_opened_again(tmp_path):
    source = save_onnx(tmp_path / "net.onnx")
    artifact = build(tmp_path, source)
    assert artifact.read("source.onnx") == source.read_bytes()
    assert open_artifact(artifact.folder) == artifact
    assert build(tmp_path, source).reused
    ir = save_ir(tmp_path / "net.xml", source)
    kept = build(tmp_path, ir)
    assert (kept.read("source.xml"), kept.read("source.bin")) == (ir.read_bytes(), (tmp_path / "net.bin").read_bytes())


@pytest.mark.parametrize(("kind", "is_installed"), [("onnx", True), ("onnx", False), ("openvino", True)])
def test_the_reference_of_an_onnx_file_is_onnxruntime_where_it_is_installed(tmp_path, installed, kind, is_installed):
    need("onnxruntime")
    source = save_network(tmp_path, kind)
    if not is_installed:
        installed.remove("onnxruntime")
    reference = build(tmp_path, source).manifest.built_with["reference"]
    assert ("onnxruntime " if kind == "onnx" and is_installed else "plain fp32") in reference


def test_external_data_gives_the_same_model(tmp_path):
    (tmp_path / "apart").mkdir()
    whole = build(tmp_path, save_onnx(tmp_path / "net.onnx"))
    apart = build(tmp_path, save_onnx(tmp_path / "apart" / "net.onnx", external="weights.bin"))
    pixels = random_pixels(2)
    np.testing.assert_array_equal(
        open_variant(whole, OPENVINO_FP32)(pixels), open_variant(apart, OPENVINO_FP32)(pixels)
    )


def test_of_several_outputs_one_is_chosen_by_its_name(tmp_path):
    source = save_onnx(tmp_path / "net.onnx", features=True)
    with pytest.raises(UsageError, match=r"2 outputs: scores \[.*\], means") as caught:
        find_source(str(source), None).facts(None)
    assert "output_name" in caught.value.hint
    with pytest.raises(UsageError, match="no output 'logits'"):
        find_source(str(source), None).facts("logits")
    artifact = build(tmp_path, source, output_name="means")
    pixels = random_pixels(2)
    weights = np.float32(WEIGHTS)
    np.testing.assert_allclose(open_variant(artifact, OPENVINO_FP32)(pixels) * weights, expected(pixels), rtol=1e-4)
    assert artifact.manifest.model_id != build(tmp_path, source, output_name="scores").manifest.model_id


def test_int8_is_added(tmp_path):
    need("nncf")
    artifact = build(tmp_path, save_onnx(tmp_path / "net.onnx", shape=(1, 3, SIZE, SIZE)))
    artifact = add_variants(artifact, Calibration(save_photos(tmp_path / "photos"), 0.5), print)
    assert OPENVINO_INT8 in artifact.manifest.variants


def with_mean(source):
    return save_ir(source.with_suffix(".xml"), source, {"mean_values": "1 2 3"})


def without(name, source):
    source.with_name(name).unlink()
    return source


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: folder.joinpath("net.onnx").touch() or folder / "net.onnx", ModelError, "is empty"),
        (lambda folder: without("w.bin", save_onnx(folder / "net.onnx", external="w.bin")), UsageError, "w.bin, which"),
        (lambda folder: without("net.bin", save_network(folder, "openvino")), UsageError, "no file .*net.bin"),
        (lambda folder: save(Network(), folder / "net.ts").rename(folder / "net.onnx"), UsageError, "zip file"),
        (lambda folder: save_onnx(folder / "net.onnx", operator="Strange"), ModelError, "Strange"),
        (lambda folder: save_onnx(folder / "net.onnx", inputs=("image", "mask")), UsageError, "2 inputs"),
        (lambda folder: save_onnx(folder / "net.onnx", shape=("n", 1, 16, 16)), UsageError, "without three channels"),
        (lambda folder: save_onnx(folder / "net.onnx", dtype="INT64"), UsageError, "of the type i64"),
        (lambda folder: with_mean(save_onnx(folder / "net.onnx", dtype="UINT8")), UsageError, "takes uint8"),
    ],
)
def test_what_is_no_network_for_pictures_is_refused(tmp_path, make, error, message):
    with pytest.raises(error, match=message) as caught:
        find_source(str(make(tmp_path)), None).facts(None).taken({})
    assert caught.value.hint


def test_an_onnx_file_of_another_name_is_recognised(tmp_path):
    source = save_onnx(tmp_path / "net.onnx").rename(tmp_path / "net.pt")
    with pytest.raises(UsageError, match="ONNX file by its content"):
        find_source(str(source), None).read(InputSpec(), Size.square(SIZE))
