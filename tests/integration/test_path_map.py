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


def test_a_night_reads_what_was_moved_and_sees_what_has_changed(moved):
    project, variables = moved
    run = ("run", "--date", DATE, "--report")
    assert project.infer_json(*run, **variables)["reasons"] == {"truncated": 1}
    (page,) = (project.folder / "reports").glob(f"{DATE}-*.html")
    assert "data:image/jpeg" in page.read_text()
    photos = project.folder / "mounted"
    (photos / "0003.jpg").write_bytes((photos / "0006.jpg").read_bytes())
    assert project.infer_json(*run, **variables)["day"]["predicted"] == 10


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
