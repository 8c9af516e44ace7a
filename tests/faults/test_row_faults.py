"""Single images that can't be predicted or whose results can't be written: row 17, and whole corpora of them: row 7."""

import json
import shutil

import pytest
from PIL import Image

from infer_app.domain import Reason
from tests.faults.conftest import Hit
from tests.integration.test_broken_corpus import broken
from tests.support.networks import NotANumberForWhite, save
from tests.support.projects import DATE, build_model


@pytest.fixture
def project(tmp_path):
    project = Hit(tmp_path / "project")
    project.init()
    save(NotANumberForWhite(), project.folder / "model.ts")
    build_model(project.folder, "model.ts", "nan", "--recipe", "stretch", "--size", "16")
    return project


@pytest.mark.always
def test_only_the_image_whose_score_is_no_number_is_rejected(project):
    project.add_photos(20)
    Image.new("RGB", (20, 20), "white").save(project.photos / "white.png")
    project.add("photos")
    report = project.infer_json("run", "--date", DATE, "--lookback", "0")
    assert report["reasons"] == {"non_finite_output": 1}
    assert report["day"] == {"eligible": 21, "predicted": 20, "rejected": 1, "pending": 0}
    (row,) = project.rows("SELECT location, reason, stage, length(sha256), size > 0 FROM infer_rejections")
    assert row == (str(project.photos / "white.png"), "non_finite_output", "outputs", 64, 1)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_day_of_malformed_files_ends_with_a_prediction_or_a_reason_for_each(project):
    files = [*broken("jpeg"), *broken("mixed")]
    for number, file in enumerate(files):
        shutil.copy(file, project.photos / f"{number:04}-{file.name}")
    project.add("photos")
    (eligible,) = project.rows("SELECT count(*) FROM infer_images")[0]
    report = json.loads(
        project.infer("run", "--date", DATE, "--lookback", "0", "--max-rejected", "100%", "--json", exit_code=0)
    )
    assert eligible > 0.9 * len(files)  # sidecars of images are no images
    assert report["day"]["predicted"] + report["day"]["rejected"] == report["day"]["eligible"] == eligible
    assert set(report["reasons"]) <= {reason.value for reason in Reason}
    unread = "SELECT count(*) FROM infer_rejections WHERE sha256 IS NULL OR size IS NULL"
    assert project.rows(unread) == [(0,)]
