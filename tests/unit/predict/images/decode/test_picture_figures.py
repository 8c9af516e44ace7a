import numpy as np
import pytest

from infer_app.predict.images.decode.picture_figures import measure_picture


def scene(height, width, seed=0, noise=0.0):
    """Return smooth waves with edges, the same scene at each size."""
    y, x = np.mgrid[0:height, 0:width]
    waves = 110 + 60 * np.sin(9 * x / width) * np.cos(7 * y / height) + 30 * (np.sin(90 * x / width) > 0)
    grain = np.random.default_rng(seed).normal(0, noise, (height, width)) if noise else 0
    return np.repeat(np.clip(waves + grain, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def test_a_grey_picture_has_its_brightness_and_nothing_else():
    assert measure_picture(np.full((60, 80, 3), 77, np.uint8)) == (77.0, 0.0, 0.0, 0)


def test_stripes_have_their_contrast_and_detail():
    rgb = np.zeros((400, 400, 3), np.uint8)
    rgb[:, 200:] = 100
    figures = measure_picture(rgb)
    assert figures.brightness == pytest.approx(50, abs=3)
    assert figures.contrast == pytest.approx(50, abs=1)
    assert figures.sharpness < 3
    assert figures.look.to_bytes(8, "big", signed=True) == bytes([0b00001000] * 8)


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_a_picture_decoded_smaller_has_about_the_same_figures(scale):
    whole = scene(2400, 3200, noise=4)
    shrunk = whole.reshape(2400 // scale, scale, 3200 // scale, scale, 3).mean(axis=(1, 3)).astype(np.uint8)
    one, other = measure_picture(whole), measure_picture(shrunk)
    assert other.brightness == pytest.approx(one.brightness, abs=2.5)
    assert other.contrast == pytest.approx(one.contrast, rel=0.05)
    assert 0.6 < other.sharpness / one.sharpness < 1.4


def test_a_blurred_picture_has_less_detail_and_another_scene_another_look():
    whole = scene(480, 640)
    blurred = np.mean([np.roll(whole, by, axis=1) for by in range(-20, 21)], axis=0).astype(np.uint8)
    assert measure_picture(blurred).sharpness < measure_picture(whole).sharpness / 2
    assert (measure_picture(whole).look ^ measure_picture(whole[:, ::-1]).look).bit_count() > 16


@pytest.mark.parametrize("shape", [(50, 50), (51, 3000), (3000, 51), (224, 224), (375, 500)])
def test_any_shape_is_measured_to_its_edges_as_a_view_or_not(shape):
    rgb = np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8)
    turned = np.ascontiguousarray(rgb.transpose(1, 0, 2)).transpose(1, 0, 2)
    assert measure_picture(rgb) == measure_picture(turned)
    assert measure_picture(rgb).brightness == pytest.approx(127, abs=10)


@pytest.mark.parametrize("shape", [(49, 400), (400, 49), (1, 1)])
def test_a_tiny_picture_has_none(shape):
    assert measure_picture(np.zeros((*shape, 3), np.uint8)) is None
