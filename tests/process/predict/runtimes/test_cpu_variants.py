"""What holds for the variants of a CPU alike, whichever runtime computes them; and how OpenVINO's graphs are made."""

import logging
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from infer_app.artifact.artifact import record_variant
from infer_app.base.errors import ModelError
from infer_app.base.model_variants import OPENVINO_FP32, TORCHSCRIPT
from infer_app.base.size import Size
from infer_app.build.network.source_kinds import make_graph
from infer_app.predict.runtimes import openvino
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.runtimes.openvino import Int8Settings
from infer_app.predict.runtimes.torchscript import source_rows
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.parity import cosines
from tests.support.networks import (
    MEAN,
    SIZE,
    STD,
    Means,
    Network,
    NoSuchOperator,
    PixelMeans,
    built,
    predict_rows,
    random_pixels,
    run_artifact,
    traced,
)

VARIANTS = [TORCHSCRIPT, OPENVINO_FP32]


def with_variants(artifact):
    return record_variant(artifact, OPENVINO_FP32, {}, openvino.serialise(make_graph(artifact)))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return with_variants(built(tmp_path_factory.mktemp("network"), Network(), labels=None))


def assert_near(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 8])
def test_outputs_are_the_source_s_at_every_batch_size_and_length(network, variant, batch_size):
    model = open_variant(network, variant, batch_size)
    assert model.batch_size == batch_size
    for num_images in (1, batch_size, 2 * batch_size + 1):
        pixels = random_pixels(num_images, seed=num_images)
        assert_near(predict_rows(model, pixels), run_artifact(network, pixels))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_image_s_output_is_the_same_bits_at_each_place_and_in_each_company(network, variant, num_threads):
    model = open_variant(network, variant, 4, num_threads)
    pixels = random_pixels(8)
    alone = predict_all(model, pixels, 1)
    np.testing.assert_array_equal(predict_rows(model, pixels), alone)
    np.testing.assert_array_equal(predict_rows(model, pixels[::-1]), alone[::-1])
    first = model(pixels[:4])
    model(pixels[4:])
    np.testing.assert_array_equal(first, alone[:4])  # the next batch leaves it as it is
    turned = pixels[:4].swapaxes(1, 2)
    np.testing.assert_array_equal(model(turned), model(np.ascontiguousarray(turned)))


def normalised(pixels):
    pictures = pixels.permute(0, 3, 1, 2).contiguous() / 255
    return (pictures - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)


class Viewer(nn.Module):
    """`view` of a picture works in one memory layout only."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).view(x.shape[0], -1)[:, :7]


class Scaled(nn.Module):
    """A linear layer and a factor of one element, on which oneDNN's fusion fails."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(2.0).expand(1))

    def forward(self, x):
        return self.head(x.mean((2, 3))) * self.scale


OWN_PIXELS = {"input": "uint8-nhwc", "mean": (0.0,) * 3, "std": (1.0,) * 3}
MODULES = {
    "means": (Means, {}),
    "own normalisation": (PixelMeans, OWN_PIXELS),
    "maps of one number": (lambda: nn.AdaptiveAvgPool2d(1), {}),  # (n, 3, 1, 1) become (n, 3)
    "one layout": (Viewer, {}),
    "no fusion": (Scaled, {}),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", MODULES)
def test_rows_are_those_of_the_plain_module_by_hand(tmp_path, variant, kind):
    make, options = MODULES[kind]
    torch.manual_seed(0)
    module, pixels = make().eval(), random_pixels(5)
    given = torch.from_numpy(pixels)
    script = torch.jit.trace(module, torch.zeros(2, SIZE, SIZE, 3, dtype=torch.uint8)) if options else traced(module)
    artifact = with_variants(built(tmp_path, script, labels=None, output="embedding", **options))
    with torch.no_grad():
        expected = module(given if options else normalised(given)).flatten(1).numpy()
    assert_near(predict_rows(open_variant(artifact, variant), pixels), expected)
    assert_near(source_rows(module, artifact.manifest.input_spec, pixels), expected)


@pytest.mark.parametrize(("variant", "file"), [(TORCHSCRIPT, "source.ts"), (OPENVINO_FP32, "model.bin")])
def test_a_changed_file_is_not_loaded(tmp_path, variant, file):
    artifact = with_variants(built(tmp_path))
    (path,) = artifact.folder.rglob(file)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ModelError, match=f"{file}: changed since it was built"):
        open_variant(artifact, variant)


# How a graph is made, and made int8


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
    artifact = record_variant(built(tmp_path), OPENVINO_FP32, {}, files)
    with pytest.raises(ModelError, match=rf"{OPENVINO_FP32}: OpenVINO 20\S+ can't read it: "):
        openvino.build_openvino_variant(artifact, OPENVINO_FP32)


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
    actual = predict_rows(openvino.compile_graph(fitted, Size.square(SIZE)), pixels)
    expected = run_artifact(network, pixels)
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
