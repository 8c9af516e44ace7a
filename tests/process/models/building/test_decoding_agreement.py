import io
from dataclasses import replace
from functools import partial

import pytest
from PIL import Image

from infer_app.errors import ModelError
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.images.decode.decoder import decode_image
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.transform.to_pixels import transform
from infer_app.model_variants import TORCHSCRIPT
from infer_app.models.building.decoding_agreement import decoding_agreement, decoding_ms, describe_agreement
from infer_app.models.building.golden_set import GOLDEN_LIMITS, load_pixels, make_golden_set, synthetic_images
from infer_app.models.runtimes.torchscript import build_cpu_variant
from infer_app.models.verification.golden import check_golden
from infer_app.models.verification.parity import Parity
from infer_app.pipeline.planning.alternatives import probe_decoding
from infer_app.recipe import Recipe
from infer_app.telemetry.bottleneck import Cost, advise, rank
from tests.support.networks import SIZE, built

SCALED = Recipe("crop-resize", SIZE, crop=0.875, decode="scaled")
RECIPES = [
    Recipe("crop-resize", 224, crop=0.875, decode="scaled"),
    Recipe("resize-crop", 224, resize=256, decode="scaled"),
    Recipe("stretch", 224, decode="scaled"),
]


def jpeg(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.radial_gradient("L").resize((width, height)).convert("RGB").save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return built(tmp_path_factory.mktemp("model"), recipe=SCALED)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_one_golden_image_at_least_is_shrunk(recipe: Recipe):
    golden = make_golden_set(None, recipe, None)
    scales = [decode_image(data, recipe, GOLDEN_LIMITS).scale for data in golden.images]
    assert scales == [1, 1, 1, 1, 2]
    assert make_golden_set(None, replace(recipe, decode="exact"), None).images == golden.images[:4]


def test_photos_that_are_shrunk_need_no_made_one_beside_them(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg(1100, 1100))
    assert len(make_golden_set(tmp_path, RECIPES[0], None).images) == 1
    (tmp_path / "a.jpg").write_bytes(jpeg(1000, 1000))
    golden = make_golden_set(tmp_path, RECIPES[0], None)
    assert (len(golden.images), golden.photos) == (2, (jpeg(1000, 1000),))


def test_a_scaled_model_passes_its_own_check_and_notices_exact_decoding(artifact):
    predict, recipe = build_cpu_variant(artifact), artifact.manifest.recipe
    check_golden(artifact, partial(load_pixels, recipe=recipe), predict)
    with pytest.raises(ModelError, match="a pixel differs by"):
        check_golden(artifact, partial(load_pixels, recipe=replace(recipe, decode="exact")), predict)


def test_agreement_is_of_the_images_that_are_shrunk(artifact):
    predict = build_cpu_variant(artifact)
    images = [jpeg(400, 300), jpeg(60, 60), b"no image", synthetic_images()["shapes.png"], jpeg(300, 400)]
    parity = decoding_agreement(predict, SCALED, images)
    assert parity is not None
    assert (parity.num_images, parity.label_agreement) == (2, 1.0)
    assert 0.999 < parity.cosine <= 1


@pytest.fixture
def photos(tmp_path):
    """Their paths: a large one, a small one, one cut off, one that is not there."""
    (tmp_path / "large.jpg").write_bytes(jpeg(2400, 1800))
    (tmp_path / "small.jpg").write_bytes(jpeg(40, 40))
    (tmp_path / "cut.jpg").write_bytes(jpeg(2400, 1800)[:9000])
    return [str(tmp_path / name) for name in ("large.jpg", "small.jpg", "cut.jpg", "missing.jpg")]


def test_what_decoding_costs_each_way_is_measured_on_the_images_themselves(tmp_path, artifact, photos):
    exact = built(tmp_path / "model", recipe=replace(SCALED, decode="exact"))
    measure = partial(decoding_ms, limits=ReadLimits((tmp_path,), 1 << 30), max_pixels=1 << 30)
    costs = measure(exact.folder, locations=photos)
    assert costs is not None
    assert 0 < costs["scaled"] < 0.8 * costs["exact"]
    for folder, locations in ((exact.folder, photos[1:2]), (exact.folder, []), (artifact.folder, photos)):
        assert measure(folder, locations=locations) is None  # where it changes nothing


def test_a_dry_run_is_offered_scaled_decoding_with_what_it_gains(tmp_path, photos):
    exact = built(tmp_path / "model", recipe=replace(SCALED, decode="exact"))
    limits = ReadLimits((tmp_path,), 1 << 30)
    handler = HandlerSpec((ModelSpec.of(exact, TORCHSCRIPT, 2),), limits, 1 << 30)
    (offered,) = probe_decoding(handler, photos)
    assert offered.stages == ("decode", "transform")
    cost = Cost({"decode": 30.0, "transform": 1.0, "model": 1.0}, {}, num_cores=2, num_workers=2)
    advice = advise(rank(cost, [offered]))
    assert advice is not None
    assert "× faster overall with a model built with --decode scaled" in advice
    assert probe_decoding(handler, photos[1:2]) == []


def test_no_image_that_is_large_enough_is_no_agreement(artifact):
    def predict(pixels):
        raise AssertionError("nothing to predict")

    assert decoding_agreement(predict, SCALED, [jpeg(60, 60), b"no image"]) is None
    assert decoding_agreement(predict, SCALED, []) is None
    assert describe_agreement(None, "classification") == (
        "decode scaled: no image was large enough to be shrunk: give photos like those of a daily run with --calibrate"
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("classification", "decode scaled: 97.5% of labels as with exact decoding"),
        ("embedding", "decode scaled: cosine with exact decoding 0.9987 at worst"),
        ("regression", "decode scaled: 0.25 from exact decoding at worst"),
    ],
)
def test_agreement_is_said_in_the_outputs_own_terms(kind: str, words: str):
    parity = Parity(40, cosine=0.9987, label_agreement=0.975, worst_difference=0.25, relative_difference=0.1)
    assert describe_agreement(parity, kind) == f"{words}, of 40 images large enough to be shrunk"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_the_made_image_shows_geometry_that_is_computed_from_the_shrunk_size(recipe: Recipe):
    golden = make_golden_set(None, recipe, None)
    shrunk = decode_image(golden.images[-1], recipe, GOLDEN_LIMITS)
    right, wrong = transform(shrunk, recipe).short(), transform(shrunk.rgb, recipe).short()
    assert (right - golden.pixels[-1].short()).abs().max() <= 2
    assert (wrong - golden.pixels[-1].short()).abs().max() > 2
