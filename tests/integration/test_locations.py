"""Rows whose locations may not be read: rejected beside good ones, an error where there are none."""

import pytest

from tests.support.projects import DATE

pytestmark = pytest.mark.slow

RUN = ("run", "--date", DATE, "--quiet")
NOT_ALLOWED = "location_not_allowed"


@pytest.fixture
def lab(project, monkeypatch):
    """A project over a table of the user's: three photos of DATE."""
    project.add_photos(3)
    project.write("CREATE TABLE shots (nr INTEGER PRIMARY KEY, path TEXT, came TEXT)")
    project.write("INSERT INTO shots SELECT id, location, ? FROM infer_images", DATE)
    for key, value in {"TABLE": "shots", "ID": "nr", "LOCATION": "path", "TIME": "came"}.items():
        monkeypatch.setenv(f"INFER_SOURCE__{key}", value)
    return project


def rejected(project):
    return project.rows("SELECT image_id, reason, detail FROM infer_rejections ORDER BY image_id")


def test_late_rows_that_may_not_be_read_are_rejected_beside_those_that_are_done(lab):
    lab.infer(*RUN)
    lab.write("INSERT INTO shots VALUES (8, '/elsewhere/x.jpg', ?), (9, NULL, ?)", DATE, DATE)
    day = lab.infer_json("run", "--date", DATE)["day"]
    assert (day["predicted"], day["rejected"], day["pending"]) == (3, 2, 0)
    assert rejected(lab) == [
        ("8", NOT_ALLOWED, "outside the allowed roots"),
        ("9", NOT_ALLOWED, "the row has no location"),
    ]
    lab.infer(*RUN, "--report")
    pages = "".join(page.read_text() for page in (lab.folder / "reports").iterdir())
    told = [lab.infer("rejects", "--date", DATE), lab.infer("explain", "--image", "9"), pages]
    assert not [text for text in told if "None" in text]
    assert "location  none" in told[1]


def test_a_dry_run_rejects_them_too(lab):
    lab.infer(*RUN)
    lab.write("INSERT INTO shots VALUES (8, 'x.jpg', ?)", DATE)
    assert lab.infer_json(*RUN, "--dry-run")["reasons"] == {NOT_ALLOWED: 1}


def test_a_day_without_any_allowed_location_is_an_error_and_stays_pending(lab):
    lab.write("UPDATE shots SET path = NULL")
    error = lab.infer_json(*RUN, exit_code=2)
    assert "none of 3 images to predict has an allowed location" in error["error"]
    assert "image 1 has no location" in error["error"]
    assert rejected(lab) == []


def test_roots_that_became_wrong_are_an_error_though_images_are_done(lab):
    lab.infer(*RUN)
    lab.write("INSERT INTO shots SELECT 9, path, came FROM shots WHERE nr = 1")
    (lab.folder / "other").mkdir()
    (lab.folder / "other" / "file").touch()
    error = lab.infer_json(*RUN, exit_code=2, INFER_IMAGES__ROOTS=str(lab.folder / "other"))
    assert "no image to predict has an allowed location" in error["error"]
    assert rejected(lab) == []
