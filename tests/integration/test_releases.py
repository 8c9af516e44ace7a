"""What was stored before is kept: tests/releases has a model of an earlier version."""

from pathlib import Path

import pytest

from tests.support.projects import Project

pytestmark = pytest.mark.slow
RELEASES = Path(__file__).parents[1] / "releases"


@pytest.mark.always
def test_a_stored_model_keeps_its_id_and_predicts_as_it_did(tmp_path):
    project = Project(tmp_path / "project", RELEASES / "models")
    (model_id,) = (path.name for path in (RELEASES / "models/colors").iterdir())
    project.infer("model", "verify", "colors")
    project.add_photos(3)
    assert project.run_day("--model", "colors")["predicted"] == 3
    shown = project.rows("SELECT model_id, label FROM infer_current_predictions ORDER BY image_id")
    assert shown == [(model_id, "red"), (model_id, "green"), (model_id, "blue")]
