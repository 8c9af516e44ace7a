"""The photos by which int8 is fitted and judged."""

import numpy as np
import pytest

from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.build.variants.calibration import MAX_CALIBRATING, MAX_IMAGES, MIN_IMAGES, Calibration, load_calibration
from tests.support.networks import Network, built, save_photos

NUM_PHOTOS = 24


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_photos(tmp_path_factory.mktemp("photos") / "photos", NUM_PHOTOS)


@pytest.fixture
def network(tmp_path):
    return built(tmp_path, Network(), labels=None)


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


def test_a_bar_that_is_no_share_and_a_folder_that_is_none_are_wrong_flags(photos):
    for folder, share in ((photos, 0.0), (photos, 1.5), (photos, float("nan")), (photos.with_name("gone"), 0.5)):
        with pytest.raises(UsageError, match="is not a share|no folder .*gone"):
            Calibration(folder, share)
