import logging
import sys
from contextlib import suppress

import numpy as np
import pytest

from infer_app.artifact.artifact import record_variant
from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.build.network.source_kinds import make_graph
from infer_app.predict.runtimes import openvino
from infer_app.predict.runtimes.openvino import Int8Settings
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.parity import cosines
from tests.support.networks import SIZE, Means, Network, NoSuchOperator, built, random_pixels, run_artifact

VARIANT = "cpu-openvino-fp32"


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """An artifact with the stored graph of a small network."""
    artifact = built(tmp_path_factory.mktemp("network"), Network(), labels=None)
    return record_variant(artifact, VARIANT, {}, openvino.serialise(make_graph(artifact)))


def run(model, pixels):
    return predict_all(model, pixels, model.batch_size)


@pytest.mark.parametrize("module", [Means(), NoSuchOperator()], ids=["converted", "refused"])
def test_a_conversion_leaves_the_program_s_logging_alone(tmp_path, module):
    """OpenVINO silences all of it but errors, and forgets to undo that when it fails."""
    root = logging.getLogger()
    before = root.level, list(root.filters), list(root.handlers)
    with suppress(ModelError):
        make_graph(built(tmp_path, module))
    assert (root.level, root.filters, root.handlers) == before


def test_a_graph_of_another_openvino_that_can_not_be_read_is_named(tmp_path):
    files = {"model.xml": b"<net of tomorrow>", "model.bin": b""}
    artifact = record_variant(built(tmp_path), VARIANT, {}, files)
    with pytest.raises(ModelError, match=rf"{VARIANT}: OpenVINO 20\S+ can't read it: "):
        openvino.build_openvino_variant(artifact, VARIANT)


def test_a_graph_is_stored_in_full_fp32(network):
    xml = network.read(f"variants/{VARIANT}/model.xml").decode()
    assert 'element_type="f32"' in xml
    assert 'element_type="f16"' not in xml


def test_no_telemetry_is_loaded(network):
    """Its package comes with OpenVINO and reports every conversion to the maker."""
    graph = make_graph(network)
    openvino.quantise(graph, np.split(random_pixels(4), 4), Int8Settings("all"))
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("openvino_telemetry")}
    assert loaded == {"openvino_telemetry": None}


THOROUGH = Int8Settings("most", first_in_fp32=1, sums_in_fp32=True, is_thorough=True)


@pytest.mark.parametrize("settings", [Int8Settings("all"), THOROUGH])
@pytest.mark.parametrize("overflow_fix", [False, True])
def test_int8_answers_as_the_source_does(network, settings, overflow_fix):
    graph = make_graph(network)
    fitted = openvino.quantise(graph, np.split(random_pixels(20, seed=1), 20), settings, overflow_fix)
    pixels = random_pixels(6)
    actual, expected = run(openvino.compile_graph(fitted, Size.square(SIZE)), pixels), run_artifact(network, pixels)
    assert not np.array_equal(actual, expected)
    assert cosines(actual, expected).min() > 0.98


def test_quantising_leaves_the_graph_in_fp32(network):
    """It is quantised several times, with more and more of it kept in floating point. NNCF changes its names only."""
    graph, pixels = make_graph(network), random_pixels(2)
    before = openvino.serialise(graph)["model.bin"], openvino.compile_graph(graph, Size.square(SIZE))(pixels)
    openvino.quantise(graph, np.split(random_pixels(4), 4), Int8Settings("all"))
    after = openvino.serialise(graph)["model.bin"], openvino.compile_graph(graph, Size.square(SIZE))(pixels)
    assert after[0] == before[0]
    np.testing.assert_array_equal(after[1], before[1])
