"""nvImageCodec, by its CPU decoder where there is no GPU; the code around it is the same."""

import pytest
import torch

from infer_app.images.decode.decoder import DecodeLimits, decode_image
from infer_app.images.decode.gpu_decoder import GpuDecoder
from infer_app.images.transform.to_pixels import reference_transform
from infer_app.recipe import Recipe
from tests.support.jpegs import encoded, picture

pytest.importorskip("nvidia.nvimgcodec")

RECIPE = Recipe("crop-resize", 224, crop=0.875, decode="gpu")
PHOTO = encoded(picture(200, 150), quality=80)
JUNK = PHOTO[:20] + b"stray bytes" + PHOTO[20:]  # behind the first segment; our own decoder passes over them


@pytest.fixture(scope="module")
def decoder() -> GpuDecoder:
    return GpuDecoder(torch.device("cpu"))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_pixels_are_within_two_levels_of_pillows(decoder: GpuDecoder, mode: str, subsampling: str):
    data = encoded(picture(200, 150).convert(mode), quality=80, **{"subsampling": subsampling} if mode == "RGB" else {})
    (pixels,) = decoder.pixels([data], RECIPE)
    assert pixels is not None
    expected = reference_transform(decode_image(data, RECIPE, DecodeLimits(1 << 20)), RECIPE)
    assert (pixels.short() - torch.from_numpy(expected).short()).abs().max() <= 2


def test_what_it_refuses_is_none_and_its_neighbours_are_decoded(decoder: GpuDecoder):
    found = decoder.pixels([PHOTO, JUNK, b"no picture at all", b"", PHOTO], RECIPE)
    assert [pixels is None for pixels in found] == [False, True, True, True, False]
    assert torch.equal(found[0], found[4])  # type: ignore[arg-type]
    assert decode_image(JUNK, RECIPE, DecodeLimits(1 << 20)).rgb.shape == (150, 200, 3)


def test_a_picture_that_ends_flat_is_given_back_unless_it_is_known_to_be_whole(decoder: GpuDecoder):
    lost = PHOTO[:5000] + PHOTO[5600:]
    assert decoder.pixels([lost, PHOTO], RECIPE)[0] is None
    assert None not in decoder.pixels([lost, PHOTO], RECIPE, are_whole=True)


def test_nothing_to_decode_is_nothing(decoder: GpuDecoder):
    assert decoder.pixels([], RECIPE) == []
