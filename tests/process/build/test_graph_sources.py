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
from infer_app.cli.model.model import unproven_runtime
from infer_app.predict.runtimes.gpu_probe import first_variant
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.runtimes.openvino import is_quantised, load_openvino
from infer_app.predict.variant_selection import VariantRequest, choose_variant
from infer_app.predict.verification.golden import check_golden, predict_all
from tests.conftest import need
from tests.support.graphs import WEIGHTS, save_behind, save_ir, save_onnx, save_small
from tests.support.networks import MEAN, SIZE, STD, Network, loader_of, random_pixels, save, save_photos

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
    assert ("turned to NHWC" in given["input"].origin) == (network.get("shape", ())[-1:] == (3,))
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


@pytest.mark.parametrize("operator", ["Dropout", "Identity", "Sum", "Max", "Mean"])
def test_two_names_of_one_tensor_are_two_outputs(tmp_path, operator):
    source = save_behind(tmp_path / "net.onnx", operator)
    pixels = random_pixels(2)
    for name in ("means", "features"):
        artifact = build(tmp_path, source, output_name=name)
        rows = open_variant(artifact, OPENVINO_FP32)(pixels) * np.float32(WEIGHTS)
        np.testing.assert_allclose(rows, expected(pixels), rtol=1e-4, atol=1e-5)


def test_what_openvino_computes_otherwise_is_refused_with_and_without_onnxruntime(tmp_path, installed):
    need("onnxruntime")
    source = save_small(tmp_path / "net.onnx", antialias=True)
    with pytest.raises(
        ModelError, match=r"OpenVINO 2\S+ and onnxruntime \S+ compute this network differently"
    ) as caught:
        build(tmp_path, source, output="embedding")
    assert "Resize with antialias: export it otherwise" in caught.value.hint
    assert "rebuild" not in caught.value.hint
    installed.remove("onnxruntime")
    with pytest.raises(ModelError, match="has Resize with antialias: OpenVINO .* computes that otherwise") as caught:
        build(tmp_path, source, output="embedding")
    assert "pip install onnxruntime" in caught.value.hint


@pytest.mark.parametrize(("kind", "is_alone"), [("onnx", False), ("openvino", True)])
def test_a_build_says_that_nothing_but_openvino_computed_its_golden_outputs(tmp_path, kind, is_alone):
    need("onnxruntime")
    manifest = build(tmp_path, save_network(tmp_path, kind)).manifest
    assert unproven_runtime(manifest).startswith("attention: nothing but OpenVINO") == is_alone


@pytest.mark.parametrize(("kind", "is_installed"), [("onnx", True), ("onnx", False), ("openvino", True)])
def test_a_network_that_is_quantised_already_is_int8_alone(tmp_path, installed, capsys, kind, is_installed):
    need("onnxruntime")
    source = save_small(tmp_path / "net.onnx", levels=10)
    if kind == "openvino":
        source = save_ir(tmp_path / "net.xml", source)
    if not is_installed:
        installed.remove("onnxruntime")
    artifact = build(tmp_path, source, output="embedding")
    calibration = Calibration(save_photos(tmp_path / "photos"), 0.5)
    artifact = add_variants(add_variants(artifact, None, print), calibration, print)
    assert capsys.readouterr().out.count("the network is quantised already") == 2
    assert list(artifact.manifest.variants) == [first_variant(artifact.manifest)] == [OPENVINO_INT8]
    assert choose_variant(artifact.manifest, VariantRequest())[0] == OPENVINO_INT8
    with pytest.raises(ModelError, match="no fp32 variant"):
        choose_variant(artifact.manifest, VariantRequest("full"))
    model = open_variant(artifact, OPENVINO_INT8)
    check_golden(artifact, loader_of(artifact), model, OPENVINO_INT8, model.batch_size)


def test_a_quantised_network_is_the_same_model_with_and_without_onnxruntime(tmp_path, installed):
    need("onnxruntime")
    source = save_small(tmp_path / "net.onnx", levels=10)
    parity = build(tmp_path, source, output="embedding").manifest.variants[OPENVINO_INT8]["parity"]
    assert parity["relative_difference"] > 0.001  # the runtimes round the middle of two levels to either
    installed.remove("onnxruntime")
    assert build(tmp_path, source, output="embedding").reused


@pytest.mark.parametrize(("rounded", "is_found"), [("greater", False), ("multiply", True)])
def test_a_mask_of_8_bits_quantises_nothing(rounded, is_found):
    """A comparison gives truth values, which torch's exports often keep as uint8."""
    library = load_openvino()
    operators = library.opset13
    pixels = operators.parameter([-1, SIZE, SIZE, 3], np.uint8)
    values = getattr(operators, rounded)(operators.convert(pixels, "f32"), np.float32(0.5))
    graph = library.Model([operators.convert(operators.convert(values, "u8"), "f32")], [pixels])
    assert is_quantised(graph) is is_found


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
