"""What only a GPU can show of decoding there: nvJPEG's pixels, its refusals, and the executor's answers by its way."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from infer_app.domain import Broken, Chunk, ImageRef
from infer_app.handlers.gpu_decode_stage import GPU_LEVELS
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.images.decode.decoder import DecodeLimits, decode_image
from infer_app.images.decode.gpu_decoder import GpuDecoder, suits_gpu, transform_on_device
from infer_app.images.read.read_image import ReadLimits
from infer_app.images.transform.to_pixels import reference_transform
from infer_app.models.build.add_gpu_variants import BuildTarget, add_gpu_variants
from infer_app.models.build.build_model import BuildRequest, build_model
from infer_app.models.runtimes.variants import CUDA_FP16, TORCHSCRIPT
from infer_app.pipeline.executors import RingSpec, open_local_executor
from infer_app.recipe import Recipe, Size

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
pytest.importorskip("nvidia.nvimgcodec")

SIZE, BATCH = 96, 16
RECIPE = Recipe("crop-resize", SIZE, crop=0.875, decode="gpu")
LIMITS = DecodeLimits(1 << 24)


def photo(number: int, **options: object) -> bytes:
    noise = np.random.default_rng(number).integers(0, 40, (120 + number, 160, 3))
    ramp = np.linspace(0, 160, 160)[None, :, None] * [1, 0.5, 0.2]
    buffer = io.BytesIO()
    Image.fromarray((noise + ramp).astype(np.uint8)).save(buffer, "JPEG", quality=80, **options)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def decoder():
    return GpuDecoder(torch.device("cuda", 0))


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [(500, 375), (301, 301), (120, 90)])
def test_a_gpu_resizes_within_two_levels_of_pillow(size, interpolation):
    rgb = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    recipe = Recipe("crop-resize", 224, crop=0.875, interpolation=interpolation)
    pixels = transform_on_device(torch.from_numpy(rgb).cuda(), recipe).cpu().short()
    assert (pixels - torch.from_numpy(reference_transform(rgb, recipe)).short()).abs().max() <= 2


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_its_pixels_are_near_pillows(decoder, subsampling):
    data = photo(0, subsampling=subsampling)
    (pixels,) = decoder.pixels([data], RECIPE)
    assert pixels.is_cuda
    expected = torch.from_numpy(reference_transform(decode_image(data, RECIPE, LIMITS), RECIPE))
    difference = (pixels.cpu().short() - expected.short()).abs()
    print(f"{subsampling}: {difference.max()} levels at most, {difference.float().mean():.3f} on average")
    assert difference.max() <= GPU_LEVELS


def test_a_file_that_lacks_data_is_given_back(decoder):
    """If this fails nvJPEG fills otherwise than libjpeg, and docs/how-to/gpu-decoding.md is wrong."""
    data = photo(1)
    middle = len(data) // 2
    damaged = [data[:middle] + b"\xff\xd9", data[:middle] + data[middle + 1024 :]]
    assert all(suits_gpu(one, RECIPE, LIMITS) for one in damaged)
    assert decoder.pixels(damaged, RECIPE) == [None, None]


def test_the_executor_gives_what_the_cpu_gives_and_broken_files_their_reason(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    torch.jit.trace(network.eval(), torch.zeros(2, 3, SIZE, SIZE)).save(str(tmp_path / "model.ts"))
    artifact = build_model(BuildRequest(str(tmp_path / "model.ts"), "net", RECIPE), tmp_path / "models")
    artifact = add_gpu_variants(artifact, [CUDA_FP16], None, BuildTarget.local(), print)
    kinds = ({}, {"progressive": True}, {"subsampling": "4:4:4"}, {"restart_marker_blocks": 4})
    for number in range(3 * BATCH):
        (tmp_path / f"{number}.jpg").write_bytes(photo(number, **kinds[number % 4]))
    (tmp_path / "4.jpg").write_bytes(photo(4)[:-900])
    (tmp_path / "9.jpg").write_bytes(b"no picture")
    refs = [ImageRef(str(number), str(tmp_path / f"{number}.jpg")) for number in range(3 * BATCH)]
    chunks = [Chunk(n, tuple(refs[first : first + BATCH])) for n, first in enumerate(range(0, len(refs), BATCH))]

    def run(opening):
        with opening as executor:
            results = list(executor.pool.run(chunks))
        assert ("gpu-decode" in {stage for one in results for stage in one.cpu_seconds}) == (executor.name == "cuda")
        every = [one for result in results for one in (*result.predictions, *result.broken)]
        return {one.ref.image_id: one if isinstance(one, Broken) else one.output.score for one in every}

    def spec(variant):
        return HandlerSpec((ModelSpec.of(artifact, variant),), ReadLimits((tmp_path,), 1 << 20), 1 << 24)

    expected = run(open_local_executor(spec(TORCHSCRIPT), 2, 30.0))
    found = run(open_local_executor(spec(CUDA_FP16), 2, 30.0, RingSpec(BATCH, Size.square(SIZE), "cuda")))
    assert {name: one for name, one in found.items() if isinstance(one, Broken)} == {
        name: one for name, one in expected.items() if isinstance(one, Broken)
    }
    for name, score in expected.items():
        assert isinstance(score, Broken) or found[name] == pytest.approx(score, abs=0.02)
