"""A run of a detector that is killed in the middle leaves no image with some of its objects, on each database."""

import pytest

from tests.faults.conftest import NUM_PHOTOS
from tests.support.detectors import SLOW_HEAD
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, build_model

pytestmark = pytest.mark.slow
INCOMPLETE = """
    SELECT count(*) FROM infer_predictions p WHERE COALESCE(p.num_objects, 0) <>
        (SELECT count(*) FROM infer_objects o WHERE o.image_id = p.image_id AND o.model_id = p.model_id)
"""
WITHOUT_PREDICTION = """
    SELECT count(*) FROM infer_objects o WHERE NOT EXISTS
        (SELECT 1 FROM infer_predictions p WHERE p.image_id = o.image_id AND p.model_id = o.model_id)
"""
OBJECTS = "SELECT image_id, label, score, x, y, width, height FROM infer_objects"


@pytest.fixture(scope="session")
def slow_detector(tmp_path_factory):
    """Three channel means, of which a head makes up to nine objects in 30 ms."""
    folder = tmp_path_factory.mktemp("slow-detector")
    save(ChannelMeans(), folder / "means.ts")
    (folder / "slow.py").write_text(SLOW_HEAD)
    build_model(folder, "means.ts", "slow", "--size", "16", "--output", "detection", "--head", "slow:head")
    return folder / "models"


@pytest.fixture
def day(project, slow_detector):
    project.use_models(slow_detector)
    project.add_photos(NUM_PHOTOS)
    return project


@pytest.mark.timeout(240)
def test_no_image_has_some_of_its_objects(day):
    done = day.kill_in_the_middle()
    assert day.rows(INCOMPLETE) == day.rows(WITHOUT_PREDICTION) == [(0,)]
    assert day.rows(OBJECTS)
    assert day.run()["selected"] == NUM_PHOTOS - done
    assert day.rows(INCOMPLETE) == day.rows(WITHOUT_PREDICTION) == [(0,)]
    day.check_books()
    finished = sorted(day.rows(OBJECTS))
    assert len(finished) > 2 * NUM_PHOTOS
    assert day.run()["selected"] == 0
    assert sorted(day.rows(OBJECTS)) == finished
    assert day.infer_json("retry", "--image", finished[0][0])["retried"] == 1
    assert day.run()["selected"] == 1
    assert sorted(day.rows(OBJECTS)) == finished
    assert day.infer_json("verify", "--date", DATE)["balanced"] is True
