"""How variants are judged on images of the user's, and what they cost; a CPU that computes bf16 is a stand-in."""

import numpy as np
import pytest

from infer_app.artifact.artifact import open_artifact
from infer_app.base.errors import UsageError
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_FP32, TORCHSCRIPT, VariantTrial
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.build.variants.calibration import MAX_CALIBRATING, MAX_IMAGES, MIN_IMAGES, Calibration, load_calibration
from infer_app.build.variants.judge_variants import Trial, judge_variants, probe_variants, try_variants
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.verification.parity import Parity
from tests.support.detectors import Quadrants
from tests.support.networks import SIZE, Network, built, save_photos

KINDS = {
    "classification": {},
    "embedding": {"output": "embedding"},
    "sigmoid": {"activation": "sigmoid"},
    "detection": {"output": "detection"},
}
PARITY = Parity(256, 0.999, 0.2, 0.01, 0.995, 0.06, 0.01)
TRIAL = Trial(PARITY, 0.95, 3.0, 6.5)


@pytest.fixture(autouse=True)
def _cpu_with_bf16(box):
    box.computes("avx512_bf16")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A root, and 24 photos in it and one file that is none."""
    folder = save_photos(tmp_path_factory.mktemp("root") / "photos")
    (folder / "10a.jpg").write_bytes(b"no photo")
    return ReadLimits((folder,), 1 << 20), sorted(map(str, folder.iterdir()))


def make(folder, kind="classification"):
    plain = KINDS[kind] | {"labels": None, "mean": (0, 0, 0), "std": (1, 1, 1)}
    module = Quadrants(SIZE) if kind == "detection" else Network()
    return add_variants(built(folder, module, **plain), None, print)


def handler_of(artifact, limits, variant=OPENVINO_FP32):
    return HandlerSpec((ModelSpec.of(artifact, variant, 2),), limits, 1 << 20)


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_compared_with_the_present_one_on_the_images_that_can_be_decoded(tmp_path, images, kind):
    artifact = make(tmp_path, kind)
    sizes = {OPENVINO_FP32: 4, TORCHSCRIPT: None, OPENVINO_BF16: None}
    tried = try_variants(artifact.folder, sizes, *images, 60.0)
    assert list(tried) == [TORCHSCRIPT, OPENVINO_BF16]
    same = tried[TORCHSCRIPT]
    agreement = same.parity.object_agreement if kind == "detection" else same.parity.label_agreement
    assert (same.parity.num_images, agreement, same.score) == (24, 1.0, pytest.approx(1.0))
    assert min(same.ms, same.instead_of) > 0
    assert (same.parity.p99_score_difference is None) == (kind == "embedding")
    assert try_variants(artifact.folder, sizes, *images, 0.0) == {}  # no time is left
    assert try_variants(artifact.folder, sizes, images[0], ["gone.jpg"], 60.0) == {}


def offer(artifact, images, trial):
    measured = {OPENVINO_BF16: trial}
    (found,) = probe_variants(artifact, handler_of(artifact, images[0]), images[1], lambda *_, **__: measured)
    return found


def test_a_dry_run_offers_what_was_measured_and_how_to_add_it_to_a_model_that_has_it_not(tmp_path, images):
    artifact = make(tmp_path)
    found = offer(artifact, images, TRIAL)
    assert found.what == "--precision half (keeps 99.5% of the labels, measured on 256 of your images)"
    assert (found.stages, found.ms, found.instead_of, found.trial.variant) == (("model",), 3.0, 6.5, OPENVINO_BF16)
    del artifact.manifest.variants[OPENVINO_BF16]
    assert "; `infer model judge colours` adds it to the model)" in offer(artifact, images, TRIAL).what


def test_a_judgement_on_the_images_of_a_day_is_recorded_and_one_on_more_images_may_be_kept(tmp_path, images):
    artifact, (limits, locations) = make(tmp_path), images
    for count, keep_better, num_judged in ((25, False, 24), (21, True, 24), (21, False, 20)):
        judged = judge_variants(artifact.folder, limits, locations[:count], 0.9, keep_better)
        assert {variant: one.meets_bar for variant, one in judged.items()} == {OPENVINO_BF16: True}
        one = judged[OPENVINO_BF16]
        assert (one.parity.num_images, one.num_images) == (num_judged, count - 1)  # one can't be decoded
        recorded = open_artifact(artifact.folder).manifest.variants[OPENVINO_BF16]
        assert (recorded["calibration"], recorded["min_agreement"]) == (one.parity.to_json(), 0.9)
    open_artifact(artifact.folder).verify()
    with pytest.raises(UsageError, match="5 of the day's images can be decoded, 20 are needed"):
        judge_variants(artifact.folder, limits, locations[:5], 0.9)


@pytest.mark.parametrize(("minimum", "meets"), [(0.9, True), (0.97, False)])
def test_the_minimum_is_that_of_the_model(tmp_path, images, minimum, meets):
    artifact = make(tmp_path)
    artifact.manifest.variants[OPENVINO_BF16]["min_agreement"] = minimum
    trial = offer(artifact, images, TRIAL).trial
    assert trial == VariantTrial(OPENVINO_BF16, 256, 0.995, 0.999, 0.01, 0.06, minimum, meets)


@pytest.mark.parametrize(
    ("variant", "change"),
    [
        (OPENVINO_FP32, lambda box, _: box.computes()),
        (OPENVINO_BF16, lambda *_: None),
        (OPENVINO_FP32, lambda _, variants: variants[OPENVINO_BF16].update(meets_bar=False)),
        (TORCHSCRIPT, lambda _, variants: variants.pop(OPENVINO_FP32)),
    ],
    ids=["no bf16", "half already", "judged too inexact", "no graph"],
)
def test_where_there_is_nothing_to_offer_nothing_is_measured(tmp_path, images, box, variant, change):
    artifact = make(tmp_path)
    change(box, artifact.manifest.variants)
    handler = handler_of(artifact, images[0], variant)
    assert probe_variants(artifact, handler, images[1], lambda *_, **__: pytest.fail("measured")) == []


# The photos by which int8 is fitted and judged

NUM_PHOTOS = 24


def test_the_photos_that_judge_are_not_those_that_int8_was_fitted_to(network, photos):
    images = load_calibration(network, Calibration(photos))
    assert (len(images.calibration), len(images.evaluation)) == (NUM_PHOTOS // 2, NUM_PHOTOS // 2)
    every = np.concatenate([images.calibration, images.evaluation])
    assert len(np.unique(every, axis=0)) == NUM_PHOTOS
    assert images.expected.shape == (NUM_PHOTOS // 2, 5)


def test_of_many_photos_most_judge_and_of_too_many_some_are_taken_from_all_over_the_folder(network, photos, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for number in range(MAX_IMAGES * 3 // 2):
        (many / f"{number:03}.jpg").symlink_to(photos / f"{number % NUM_PHOTOS:02}.jpg")
    images = load_calibration(network, Calibration(many))
    assert (len(images.calibration), len(images.evaluation)) == (MAX_CALIBRATING, MAX_IMAGES - MAX_CALIBRATING)
    assert MAX_CALIBRATING < MAX_IMAGES / 2
    found = Calibration(many).files(Size.square(224))
    assert found[:3] == [many / name for name in ("000.jpg", "001.jpg", "003.jpg")]
    num_large = [len(Calibration(many).files(Size.square(length))) for length in (4_000, 8_000)]
    assert num_large == [22, MIN_IMAGES]  # a GiB of pixels, and more for the least number of images


def test_a_folder_that_is_none_is_a_wrong_flag(photos):
    with pytest.raises(UsageError, match="no folder .*gone"):
        Calibration(photos.with_name("gone"), 0.5)
