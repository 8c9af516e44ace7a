from dataclasses import replace

import numpy as np
import pytest

from infer_app.artifact.recipe import Recipe
from infer_app.base.errors import ModelError
from infer_app.build.network.golden_set import GOLDEN_PIXELS, make_golden_set, synthetic_images
from infer_app.build.variants.decoding_agreement import decoding_agreement, describe_agreement
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.transform.to_pixels import transform
from infer_app.predict.runtimes.torchscript import build_cpu_variant
from infer_app.predict.verification.golden import check_golden
from tests.support.networks import built, loader_of
from tests.support.photos import jpeg

RECIPES = [
    Recipe("crop-resize", 224, crop=0.875, decode="scaled"),
    Recipe("resize-crop", 224, resize=256, decode="scaled"),
    Recipe("stretch", 224, decode="scaled"),
]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return built(tmp_path_factory.mktemp("model"), decode="scaled")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_one_golden_image_at_least_is_shrunk(recipe: Recipe):
    golden = make_golden_set(None, recipe, None)
    scales = [decode_image(data, recipe, GOLDEN_PIXELS).scale for data in golden.images]
    assert scales == [1, 1, 1, 1, 2]
    assert make_golden_set(None, replace(recipe, decode="exact"), None).images == golden.images[:4]


def test_photos_that_are_shrunk_need_no_made_one_beside_them(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg(1100, 1100))
    assert len(make_golden_set(tmp_path, RECIPES[0], None).images) == 1
    (tmp_path / "a.jpg").write_bytes(jpeg(1000, 1000))
    golden = make_golden_set(tmp_path, RECIPES[0], None)
    assert (len(golden.images), golden.photos) == (2, (jpeg(1000, 1000),))


def test_a_scaled_model_passes_its_own_check_and_notices_exact_decoding(artifact):
    predict = build_cpu_variant(artifact)
    check_golden(artifact, loader_of(artifact), predict)
    with pytest.raises(ModelError, match="a pixel differs by"):
        check_golden(artifact, loader_of(artifact, decode="exact"), predict)


def test_agreement_is_of_the_images_that_are_shrunk(artifact):
    predict = build_cpu_variant(artifact)
    images = [jpeg(400, 300), jpeg(60, 60), b"no image", synthetic_images()["shapes.png"], jpeg(300, 400)]
    parity = decoding_agreement(artifact, predict, images, 4)
    assert parity is not None
    assert (parity.num_images, parity.label_agreement) == (2, 1.0)
    assert 0.999 < parity.cosine <= 1
    assert "on 2 images large enough to be shrunk: keeps 2 of 2 labels" in describe_agreement(parity, artifact.manifest)
    assert decoding_agreement(artifact, predict, images[1:4], 4) is None
    assert "no image was large enough" in describe_agreement(None, artifact.manifest)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_the_made_image_shows_geometry_that_is_computed_from_the_shrunk_size(recipe: Recipe):
    golden = make_golden_set(None, recipe, None)
    shrunk = decode_image(golden.images[-1], recipe, GOLDEN_PIXELS)
    right, wrong = (transform(one, recipe).astype(int) for one in (shrunk, shrunk.rgb))
    assert np.abs(right - golden.pixels[-1]).max() <= 2
    assert np.abs(wrong - golden.pixels[-1]).max() > 2
