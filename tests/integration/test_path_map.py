"""A project whose photos lie elsewhere than where they are recorded, as in a container."""

import json

import pytest

from tests.support.projects import DATE

pytestmark = pytest.mark.slow


@pytest.fixture
def moved(project):
    """(project, variables): ten photos, recorded in a folder that is not there any more; one of them is cut off."""
    project.add_photos(10)
    here = project.folder / "mounted"
    project.photos.rename(here)
    photo = here / "0003.jpg"
    photo.write_bytes(photo.read_bytes()[:300])
    return project, {"INFER_IMAGES__ROOTS": str(here), "INFER_IMAGES__MAP": f"{project.photos}={here}"}


def run(project, variables):
    day = project.infer_json("run", "--date", DATE, **variables)["day"]
    return day["predicted"], day["rejected"], day["pending"]


def test_a_night_reads_what_was_moved_and_sees_what_has_changed(moved):
    project, variables = moved
    assert run(project, variables) == (9, 1, 0)
    photos = project.folder / "mounted"
    (photos / "0003.jpg").write_bytes((photos / "0006.jpg").read_bytes())
    assert run(project, variables) == (10, 0, 0)


def test_without_the_map_the_storage_is_gone(moved):
    project, _ = moved
    error = project.infer_json("run", "--date", DATE, exit_code=14)
    assert f"{project.photos} is gone or empty" in error["error"]


def test_a_row_that_leads_out_of_the_folder_is_refused(moved):
    project, variables = moved
    (project.folder / "secret.jpg").write_bytes((project.folder / "mounted" / "0000.jpg").read_bytes())
    project.write("UPDATE infer_images SET location = ? WHERE id = 1", f"{project.photos}/../secret.jpg")
    assert run(project, variables) == (8, 2, 0)
    assert project.rows("SELECT reason FROM infer_rejections WHERE image_id = '1'") == [("location_not_allowed",)]


def test_photos_added_here_are_those_that_were_recorded_there(moved):
    project, variables = moved
    assert "0 images added" in project.infer("images", "add", "mounted", "--date", DATE, **variables)
    assert f"{project.folder}/mounted" not in (project.folder / "infer.toml").read_text()


def test_doctor_tells_where_photos_lie(moved):
    project, variables = moved
    findings = json.loads(project.infer("doctor", "--json", **variables))["findings"]
    told = [finding["found"] for finding in findings if finding["check"] == "map"]
    assert told == [f"what is recorded in {project.photos} is read in {project.folder}/mounted"]
    nowhere = {"INFER_IMAGES__MAP": f"{project.photos}=/nowhere"}
    assert "/nowhere is no folder here" in project.infer("doctor", exit_code=2, **variables | nowhere)
    project.infer("run", "--date", DATE, exit_code=2, **variables | nowhere)
    variables["INFER_IMAGES__MAP"] += ":/srv=/usr"
    assert "fix: nothing in it may be read: add /usr to [images] roots" in project.infer("doctor", **variables)


def test_a_report_shows_what_was_moved(moved):
    project, variables = moved
    project.infer("run", "--date", DATE, "--report", **variables)
    (page,) = (project.folder / "reports").glob(f"{DATE}-*.html")
    assert "data:image/jpeg" in page.read_text()
