"""How variants are judged on images of the user's; a CPU that computes bf16 is a stand-in."""

import numpy as np
import pytest

from infer_app.artifact.artifact import open_artifact
from infer_app.base.errors import UsageError
from infer_app.base.model_variants import OPENVINO_BF16
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.build.variants.calibration import MAX_CALIBRATING, MAX_IMAGES, MIN_IMAGES, Calibration, load_calibration
from infer_app.build.variants.judge_variants import judge_variants
from infer_app.build.variants.openvino_variants import add_variants
from tests.support.networks import built, save_photos


@pytest.fixture(autouse=True)
def _cpu_with_bf16(box):
    box.computes("avx512_bf16")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A root, and 24 photos in it and one file that is none."""
    folder = save_photos(tmp_path_factory.mktemp("root") / "photos")
    (folder / "10a.jpg").write_bytes(b"no photo")
    return ReadLimits((folder,), 1 << 20), sorted(map(str, folder.iterdir()))


def test_a_judgement_on_the_images_of_a_day_is_recorded_and_one_on_more_images_may_be_kept(tmp_path, images):
    artifact, (limits, locations) = add_variants(built(tmp_path), None, print), images
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
