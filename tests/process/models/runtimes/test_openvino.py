import logging
import sys
from contextlib import suppress

import pytest
import torch

from infer_app.errors import ModelError
from infer_app.models.artifact.artifact import record_variant
from infer_app.models.artifact.specs import OutputSpec
from infer_app.models.runtimes import openvino
from infer_app.recipe import Size
from tests.support.networks import (
    MEAN,
    SIZE,
    STD,
    Means,
    Network,
    NoSuchOperator,
    PixelMeans,
    built,
    random_pixels,
    run_artifact,
)

VARIANT = "cpu-openvino-fp32"


def with_variant(artifact):
    return record_variant(artifact, VARIANT, {}, openvino.serialise(openvino.convert(artifact)))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """An artifact with the stored graph of a small network."""
    return with_variant(built(tmp_path_factory.mktemp("network"), Network(), labels=None))


def run(model, pixels):
    return torch.cat([model(batch) for batch in torch.split(pixels, model.batch_size)])


@pytest.mark.parametrize("batch_size", range(1, 9))
def test_outputs_are_the_source_s_at_every_batch_size_and_length(network, batch_size):
    model = openvino.build_openvino_variant(network, VARIANT, batch_size)
    assert model.batch_size == batch_size
    for num_images in (1, batch_size, 2 * batch_size + 1):
        pixels = random_pixels(num_images, seed=num_images)
        torch.testing.assert_close(run(model, pixels), run_artifact(network, pixels), rtol=0, atol=1e-5)


def test_an_image_s_output_is_the_same_bits_at_each_place_and_in_each_company(network):
    model = openvino.build_openvino_variant(network, VARIANT, 4)
    pixels = random_pixels(8)
    alone = torch.cat([model(pixels[i : i + 1]) for i in range(8)])
    assert torch.equal(run(model, pixels), alone)
    assert torch.equal(run(model, pixels.flip(0)), alone.flip(0))


def test_an_output_stays_what_it_was_when_the_next_batch_runs(network):
    model = openvino.build_openvino_variant(network, VARIANT, 2)
    first = model(random_pixels(2, seed=1))
    kept = first.clone()
    model(random_pixels(2, seed=2))
    assert torch.equal(first, kept)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_threads_do_not_change_the_outputs(network, num_threads):
    model = openvino.build_openvino_variant(network, VARIANT, 4, num_threads)
    pixels = random_pixels(7)
    torch.testing.assert_close(run(model, pixels), run_artifact(network, pixels), rtol=0, atol=1e-5)


def test_a_module_that_normalises_by_itself_is_given_its_pixels_as_they_are(tmp_path):
    script = torch.jit.trace(PixelMeans(), torch.zeros(2, SIZE, SIZE, 3, dtype=torch.uint8))
    zero, one = (0.0,) * 3, (1.0,) * 3
    artifact = with_variant(built(tmp_path, script, input="uint8-nhwc", mean=zero, std=one))
    pixels = random_pixels(5)
    model = openvino.build_openvino_variant(artifact, VARIANT)
    torch.testing.assert_close(run(model, pixels), PixelMeans()(pixels), rtol=0, atol=1e-5)


def test_mean_and_std_are_part_of_the_graph(tmp_path):
    artifact = with_variant(built(tmp_path))
    pixels = random_pixels(3)
    pictures = pixels.permute(0, 3, 1, 2) / 255
    normalised = (pictures - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)
    with torch.no_grad():
        expected = Means()(normalised)
    actual = run(openvino.build_openvino_variant(artifact, VARIANT), pixels)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)


def test_maps_of_numbers_become_rows(tmp_path):
    """(n, 3, 1, 1) from the module, (n, 3) of every variant."""
    pool = torch.nn.AdaptiveAvgPool2d(1)
    artifact = with_variant(built(tmp_path, pool, labels=None, output=OutputSpec("embedding")))
    pixels = random_pixels(3)
    actual = run(openvino.build_openvino_variant(artifact, VARIANT), pixels)
    assert actual.shape == (3, 3)
    torch.testing.assert_close(actual, run_artifact(artifact, pixels), rtol=0, atol=1e-5)


def test_an_openvino_that_can_not_be_imported_is_told_with_how_to_install_it(network, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    for needs_it in (openvino.convert, lambda artifact: openvino.build_openvino_variant(artifact, VARIANT)):
        with pytest.raises(ModelError, match="OpenVINO can't be loaded: ") as caught:
            needs_it(network)
        assert (caught.value.hint, caught.value.exit_code) == ("pip install --force-reinstall openvino", 12)


def test_an_operator_that_openvino_lacks_is_named(tmp_path):
    artifact = built(tmp_path, NoSuchOperator())
    with pytest.raises(ModelError, match="OpenVINO can't convert this model: .*aten::special_i1") as caught:
        openvino.convert(artifact)
    assert caught.value.hint == "it runs as TorchScript"


@pytest.mark.parametrize("module", [Means(), NoSuchOperator()], ids=["converted", "refused"])
def test_a_conversion_leaves_the_program_s_logging_alone(tmp_path, module):
    """OpenVINO silences all of it but errors, and forgets to undo that when it fails."""
    root = logging.getLogger()
    before = root.level, list(root.filters), list(root.handlers)
    with suppress(ModelError):
        openvino.convert(built(tmp_path, module))
    assert (root.level, root.filters, root.handlers) == before


def test_a_graph_of_another_openvino_that_can_not_be_read_is_named(tmp_path):
    files = {"model.xml": b"<net of tomorrow>", "model.bin": b""}
    artifact = record_variant(built(tmp_path), VARIANT, {}, files)
    with pytest.raises(ModelError, match=rf"{VARIANT}: OpenVINO 20\S+ can't read it: "):
        openvino.build_openvino_variant(artifact, VARIANT)


def test_a_changed_graph_is_refused(tmp_path):
    artifact = with_variant(built(tmp_path))
    weights = artifact.folder / "variants" / VARIANT / "model.bin"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ModelError, match=r"model\.bin: changed since it was built"):
        openvino.build_openvino_variant(artifact, VARIANT)


def test_a_graph_is_stored_in_full_fp32(network):
    xml = network.read(f"variants/{VARIANT}/model.xml").decode()
    assert 'element_type="f32"' in xml
    assert 'element_type="f16"' not in xml


def test_no_telemetry_is_loaded(network):
    """Its package comes with OpenVINO and reports every conversion to the maker."""
    graph = openvino.convert(network)
    openvino.quantise(graph, torch.split(random_pixels(4), 1))
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("openvino_telemetry")}
    assert loaded == {"openvino_telemetry": None}


@pytest.mark.parametrize("keep_float", [0, 1])
def test_int8_answers_as_the_source_does(network, keep_float):
    graph = openvino.convert(network)
    fitted = openvino.quantise(graph, torch.split(random_pixels(20, seed=1), 1), keep_float)
    pixels = random_pixels(6)
    actual, expected = run(openvino.compile_graph(fitted, Size.square(SIZE)), pixels), run_artifact(network, pixels)
    assert not torch.equal(actual, expected)
    cosine = torch.nn.functional.cosine_similarity(actual, expected)
    assert cosine.min() > 0.98


def test_quantising_leaves_the_graph_in_fp32(network):
    """It is quantised several times, with more and more of it kept in floating point. NNCF changes its names only."""
    graph, pixels = openvino.convert(network), random_pixels(2)
    before = openvino.serialise(graph)["model.bin"], openvino.compile_graph(graph, Size.square(SIZE))(pixels)
    openvino.quantise(graph, torch.split(random_pixels(4), 1))
    after = openvino.serialise(graph)["model.bin"], openvino.compile_graph(graph, Size.square(SIZE))(pixels)
    assert after[0] == before[0]
    assert torch.equal(after[1], before[1])
