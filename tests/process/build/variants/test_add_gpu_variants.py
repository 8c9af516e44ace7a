"""cuda-fp16 without CUDA: the module is the same, the device is the CPU."""

import numpy as np
import pytest
import torch

from infer_app.artifact.artifact import open_artifact
from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import DayHeld, ModelError
from infer_app.base.model_variants import CUDA_BF16, CUDA_FP16, TORCHSCRIPT
from infer_app.base.size import Size
from infer_app.build.variants.add_gpu_variants import BuildTarget, add_gpu_variants, make_half
from infer_app.build.variants.calibration import Calibration
from infer_app.predict.runtimes.gpu_probe import Gpu, Host, runnable
from infer_app.predict.runtimes.gpu_variants import run_fixed
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.runtimes.tensorrt import BEST_BATCH
from infer_app.predict.variant_selection import VariantRequest, choose_variant
from infer_app.predict.verification.golden import check_golden, predict_all
from tests.process.build.variants.conftest import a_run_is_active
from tests.support.networks import SIZE, Means, Network, PixelMeans, built, loader_of, random_pixels, run_artifact

HOST = Host("linux_x86_64", Gpu("NVIDIA H200", "9.0"), "2.13.0", "13.0")
WORKSHOP = BuildTarget(HOST, torch.device("cpu"))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    said = []
    artifact = built(tmp_path_factory.mktemp("network"), Network(), labels=None)
    artifact = add_gpu_variants(artifact, [CUDA_FP16, CUDA_BF16], WORKSHOP, said.append)
    assert [line.split(":")[0] for line in said] == [CUDA_FP16, CUDA_FP16, CUDA_BF16, CUDA_BF16]
    return artifact


def test_variants_in_half_precision_are_recorded_with_their_parity(network):
    assert open_artifact(network.folder) == network
    network.verify()
    assert list(network.manifest.variants) == [TORCHSCRIPT, CUDA_FP16, CUDA_BF16]
    assert (runnable(network.manifest), runnable(network.manifest, "cuda")) == ([TORCHSCRIPT], [])
    for variant, room in ((CUDA_FP16, 1e-5), (CUDA_BF16, 1e-3)):
        details = network.manifest.variants[variant]
        assert 0 < 1 - details["parity"]["cosine"] < room
        needed = {"cuda": "13.0", "gpu": "NVIDIA H200", "platform": "linux_x86_64", "torch": "2.13.0"}
        assert details["requires"] == needed


def test_a_run_that_has_begun_meanwhile_keeps_a_variant(network):
    with pytest.raises(DayHeld):
        add_gpu_variants(network, [CUDA_FP16], WORKSHOP, print, check=a_run_is_active)
    assert open_artifact(network.folder) == network


@pytest.mark.parametrize(("minimum", "meets"), [(0.9, True), (1.0, False)])
def test_they_are_judged_on_the_users_images_and_a_run_takes_those_that_keep_enough(tmp_path, photos, minimum, meets):
    """By cosine; 1.0 is what no half precision keeps."""
    artifact, said = built(tmp_path, Network(), labels=None, output="embedding"), []
    artifact = add_gpu_variants(artifact, [CUDA_FP16], WORKSHOP, said.append, Calibration(photos, minimum))
    details = artifact.manifest.variants[CUDA_FP16]
    assert details["calibration"]["num_images"] == 8
    assert details["min_agreement"] == minimum
    variant, _ = choose_variant(artifact.manifest, VariantRequest(), lambda *_: None)
    assert variant == (CUDA_FP16 if meets else TORCHSCRIPT)
    assert ("no run takes it" in " ".join(said)) is not meets


@pytest.mark.parametrize("batch_size", [1, 4, None])
def test_an_opened_variant_answers_as_the_source_does(network, batch_size):
    model = open_variant(network, CUDA_FP16, batch_size, device="cpu")
    assert (model.batch_size, model.device) == (batch_size or BEST_BATCH, torch.device("cpu"))
    pixels = random_pixels(5)
    actual = predict_all(model, pixels, model.batch_size)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, run_artifact(network, pixels), rtol=0, atol=5e-3)
    np.testing.assert_array_equal(actual, predict_all(model, pixels, 1))  # alone and in a batch
    check_golden(network, loader_of(network), model, CUDA_FP16, model.batch_size)  # as every run does


def test_a_module_that_mixes_precisions_is_refused_and_leaves_nothing(tmp_path):
    script = torch.jit.trace(PixelMeansWithWeights(), torch.zeros(2, SIZE, SIZE, 3, dtype=torch.uint8))
    artifact = built(tmp_path, script, input="uint8-nhwc", mean=(0.0,) * 3, std=(1.0,) * 3)
    with pytest.raises(ModelError, match="the module can't run in fp16: ") as caught:
        add_gpu_variants(artifact, [CUDA_FP16], WORKSHOP, print)
    assert (caught.value.exit_code, "float32" in caught.value.hint) == (12, True)
    assert open_artifact(artifact.folder) == artifact


class PixelMeansWithWeights(PixelMeans):
    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Linear(3, 3)

    def forward(self, pixels):
        return self.mix(super().forward(pixels))


def test_pixels_are_normalised_in_full_precision():
    """fp16 has 11 bits: 255 levels over a std of 0.2 fit, but not with their mean taken off first."""
    seen = []

    class Spy(Means):
        def forward(self, x):
            seen.append(x)
            return super().forward(x)

    spec, pixels = InputSpec("float-nchw", (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)), torch.from_numpy(random_pixels(2))
    outputs = make_half(Spy(), spec, "fp16", pixels)(pixels)
    pictures = pixels.permute(0, 3, 1, 2) / 255
    expected = (pictures - torch.tensor(spec.mean).view(1, 3, 1, 1)) / torch.tensor(spec.std).view(1, 3, 1, 1)
    assert (seen[0].dtype, outputs.dtype) == (torch.float16, torch.float32)
    torch.testing.assert_close(seen[0].float(), expected, rtol=1e-3, atol=1e-5)


class Full(torch.nn.Module):
    """Has no memory for more than two pictures."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        if pixels.shape[0] > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return pixels.float().mean((1, 2))


def test_a_batch_that_is_too_large_for_the_memory_is_told_apart_from_a_broken_module():
    """Whichever way TorchScript spells it."""
    script = torch.jit.script(Full())
    assert run_fixed(script, Size.square(SIZE), 2, torch.device("cpu"))(random_pixels(2)).shape == (2, 3)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        run_fixed(script, Size.square(SIZE), 4, torch.device("cpu"))
    with pytest.raises(ModelError, match="it can't run 4 images at a time"):
        run_fixed(lambda pixels: pixels.no_such_method(), Size.square(SIZE), 4, torch.device("cpu"))
