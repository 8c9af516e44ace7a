import io
import pickle
import subprocess
import sys
import zipfile

import pytest
import torch
from torch import nn

from infer_app.errors import ModelError
from infer_app.models.artifact.specs import InputSpec
from infer_app.models.runtimes.torchscript import (
    BATCH_SIZE,
    build_cpu_variant,
    load_torchscript,
    make_cpu_variant,
    run_source,
    trace_module,
)
from infer_app.recipe import Size
from tests.support.networks import (
    MEAN,
    SIZE,
    STD,
    Means,
    NeedsMemoryForWhite,
    Network,
    PixelMeans,
    built,
    random_pixels,
    run_artifact,
    save,
    traced,
)

SPEC = InputSpec("float-nchw", MEAN, STD)


def script_bytes(script):
    buffer = io.BytesIO()
    torch.jit.save(script, buffer)
    return buffer.getvalue()


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def zipped(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def network():
    """A source and its variant, as bytes and callable."""
    source = script_bytes(traced(Network()))
    return load_torchscript(source), make_cpu_variant(source, SPEC, Size.square(SIZE))


def test_a_module_is_loaded_for_inference():
    module = load_torchscript(script_bytes(traced(Network())))
    assert not module.training
    assert {parameter.device.type for parameter in module.parameters()} == {"cpu"}


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (saved(Network().state_dict()), "torch.save makes, a state dict or checkpoint", "--weights"),
        (saved({"a": torch.ones(1)}, _use_new_zipfile_serialization=False), "a pickle", "--weights"),
        (pickle.dumps({"a": 1}), "a pickle", "--weights"),
        (b"", "not a TorchScript file", "torch.jit.save"),
        (b"\x89PNG garbage", "not a TorchScript file", "torch.jit.save"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", "git lfs pull"),
        (zipped("a/b.txt"), "a zip file, but not TorchScript", "torch.jit.save"),
        (zipped("model/archive_format", "model/data/weights/x"), ".pt2 archive", "--weights"),
        (zipped("model/code/__torch__.py", "model/data.pkl"), "can't load this TorchScript file", "torch.jit.save"),
    ],
)
def test_what_is_not_torchscript_is_refused_with_what_to_do(source, message, hint):
    with pytest.raises(ModelError) as caught:
        load_torchscript(source)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.slow
def test_a_real_pt2_archive_is_refused():
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(Means(), (torch.rand(2, 3, 4, 4),)), buffer)
    with pytest.raises(ModelError, match=r"\.pt2 archive"):
        load_torchscript(buffer.getvalue())


def test_a_truncated_file_is_refused(tmp_path):
    data = save(Means(), tmp_path / "m.pt").read_bytes()
    with pytest.raises(ModelError):
        load_torchscript(data[: len(data) // 2])


def test_run_source_normalises_on_the_zero_to_one_scale():
    pixels = random_pixels(3)
    by_hand = pixels.permute(0, 3, 1, 2).double() / 255
    by_hand = (by_hand - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    expected = Means().double()(by_hand).detach()
    torch.testing.assert_close(run_source(Means(), SPEC, pixels).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_module_that_takes_uint8_pixels_gets_them_as_they_are():
    pixels = random_pixels(3)
    spec = InputSpec("uint8-nhwc")
    script = torch.jit.trace(PixelMeans(), pixels)
    expected = pixels.float().mean((1, 2)) / 32
    torch.testing.assert_close(run_source(script, spec, pixels), expected)
    torch.testing.assert_close(make_cpu_variant(script_bytes(script), spec, Size.square(SIZE))(pixels), expected)


def test_the_variant_equals_the_source(network):
    source, variant = network
    for seed in range(5):
        pixels = random_pixels(BATCH_SIZE, seed=seed)
        torch.testing.assert_close(variant(pixels), run_source(source, SPEC, pixels), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_images", range(BATCH_SIZE + 1))
def test_a_short_batch_gives_what_its_images_give_in_a_full_one(network, num_images):
    _, variant = network
    full = random_pixels(BATCH_SIZE)
    expected = variant(full)[:num_images]
    variant(random_pixels(BATCH_SIZE, seed=1))  # what the padded batch held before does not matter
    torch.testing.assert_close(variant(full[:num_images]), expected, rtol=0, atol=1e-6)


def test_outputs_of_an_earlier_batch_stay(network):
    _, variant = network
    first = variant(random_pixels(BATCH_SIZE))
    kept = first.clone()
    variant(random_pixels(BATCH_SIZE, seed=1))
    assert torch.equal(first, kept)


def test_pixels_need_not_be_contiguous(network):
    _, variant = network
    pixels = random_pixels(BATCH_SIZE)
    torch.testing.assert_close(variant(pixels.transpose(1, 2)), variant(pixels.transpose(1, 2).contiguous()))


@pytest.mark.parametrize("shape", [(BATCH_SIZE + 1, SIZE, SIZE, 3), (1, SIZE, SIZE + 1, 3), (1, 3, SIZE, SIZE)])
def test_the_variant_takes_its_own_shape_only(network, shape):
    with pytest.raises(ValueError, match="pixels of"):
        network[1](torch.zeros(shape, dtype=torch.uint8))


def test_the_fusion_switch_of_the_process_is_put_back():
    before = torch.jit.onednn_fusion_enabled()
    make_cpu_variant(script_bytes(traced(Means())), SPEC, Size.square(SIZE))
    assert torch.jit.onednn_fusion_enabled() == before


class Viewer(nn.Module):
    """`view` of a picture works in one memory layout only."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).view(x.shape[0], -1)[:, :7]


def test_a_module_that_needs_the_usual_layout_gets_it():
    script = traced(Viewer())
    pixels = random_pixels(3)
    variant = make_cpu_variant(script_bytes(script), SPEC, Size.square(SIZE))
    torch.testing.assert_close(variant(pixels), run_source(script, SPEC, pixels), rtol=1e-4, atol=1e-5)


RAISING = """
import gc, sys, warnings
warnings.simplefilter("ignore")
import torch
from infer_app.recipe import Size
from infer_app.models.artifact.specs import InputSpec
from infer_app.models.runtimes.torchscript import make_cpu_variant

model = make_cpu_variant(open(sys.argv[1], "rb").read(), InputSpec(), Size.square(8))
gc.collect()
for _ in range(20):
    try:
        model(torch.full((1, 8, 8, 3), 255, dtype=torch.uint8))
    except RuntimeError as error:
        print(str(error).splitlines()[-1])
"""


def test_a_variant_that_raises_can_be_asked_again(tmp_path):
    """In a process of its own: torch would crash it if the module that was frozen were gone."""
    file = tmp_path / "model.ts"
    file.write_bytes(script_bytes(torch.jit.script(NeedsMemoryForWhite(0))))
    run = subprocess.run([sys.executable, "-c", RAISING, str(file)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("can't allocate memory") == 20


def test_outputs_with_ones_behind_become_rows():
    script = traced(nn.AdaptiveAvgPool2d(1))
    assert make_cpu_variant(script_bytes(script), SPEC, Size.square(SIZE))(random_pixels(3)).shape == (3, 3)


def test_a_traced_module_can_be_loaded_and_gives_the_same():
    example = torch.rand(2, 3, SIZE, SIZE)
    module = Network().eval()
    script = load_torchscript(trace_module(module, example))
    with torch.no_grad():
        torch.testing.assert_close(script(example), module(example))


def test_a_module_that_can_not_be_traced_is_refused_with_the_reason():
    with pytest.raises(ModelError, match=r"can't trace the module on an input of \(2, 4, 16, 16\).*channels"):
        trace_module(Network().eval(), torch.rand(2, 4, 16, 16))


def test_the_variant_of_an_artifact_gives_what_its_source_gives(tmp_path):
    artifact = built(tmp_path, Network(), labels=None)
    pixels = random_pixels(3)
    torch.testing.assert_close(
        build_cpu_variant(artifact)(pixels), run_artifact(artifact, pixels), rtol=1e-4, atol=1e-5
    )


def test_a_changed_source_is_not_loaded(tmp_path):
    artifact = built(tmp_path)
    save(Network(), artifact.folder / "source.ts")
    with pytest.raises(ModelError, match="changed since it was built"):
        build_cpu_variant(artifact)


class Scaled(nn.Module):
    """A linear layer and a factor of one element, on which oneDNN's fusion fails."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(2.0).expand(1))

    def forward(self, x):
        return self.head(x.mean((2, 3))) * self.scale


def test_a_module_that_the_fusion_fails_on_runs_without_it():
    torch.manual_seed(0)
    module = Scaled().eval()
    pixels = random_pixels(3)
    source = trace_module(module, torch.rand(2, 3, SIZE, SIZE))
    expected = run_source(module, SPEC, pixels)
    assert torch.allclose(make_cpu_variant(source, SPEC, Size.square(SIZE))(pixels), expected, atol=1e-5)
