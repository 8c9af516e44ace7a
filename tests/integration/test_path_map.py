"""A project whose photos lie elsewhere than where they are recorded, as in a container."""

import json
import re
from unicodedata import normalize

import pytest
from PIL import Image

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
    (page,) = (project.folder / "reports").glob(f"{DATE}.html")
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


def list_photos(project, names, places):
    """A table of the user's own that has these names, of photos in these places below the project's folder."""
    project.write("CREATE TABLE shots (id INTEGER PRIMARY KEY, path TEXT, added_at TEXT)")
    for number, (name, place) in enumerate(zip(names, places, strict=True)):
        (project.folder / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (200, number, 30)).save(project.folder / place)
        project.write("INSERT INTO shots VALUES (?, ?, ?)", number, name, f"{DATE} 10:00:00")


@pytest.mark.parametrize("prefix", ["", "D:\\Fotos\\", "D:/", "\\\\nas\\fotos\\"])
def test_paths_that_windows_recorded_are_told_with_a_query_that_reads_them(project, prefix):
    below = "Fotos/" if prefix == "D:\\Fotos\\" else ""
    slash = "/" if prefix == "D:/" else "\\"
    places = [f"photos/{below}cam1/{n}.jpg" for n in range(4)]
    list_photos(project, [f"{prefix}cam1{slash}{n}.jpg" for n in range(4)], places)
    project.set("source", table="shots", location="path", time_zone="UTC")
    project.upgrade()
    told = [project.infer("doctor", exit_code=2), project.infer("run", "--date", DATE, exit_code=2) + project.errors]
    (location,) = {re.search(r"replace\(.*'/'\)", text)[0] for text in told}
    assert ("[source] base" in told[0]) == (prefix == "")
    base = {} if prefix else {"base": "photos"}
    query = f"SELECT id, {location.replace('/srv/photos', str(project.photos))} AS path, added_at FROM shots"
    settings = project.folder / "infer.toml"
    settings.write_text(settings.read_text().replace('table = "shots"', ""))
    project.set("source", query=query, **base)
    project.set("images", roots=["photos"])
    assert project.run_day()["predicted"] == 4


def test_a_name_that_is_there_in_another_unicode_form_is_told(project):
    """As a Mac's are; the folder above is in the form of the table."""
    place = "photos/Söhne/Käfer.jpg"
    list_photos(project, [str(project.folder / place)], [f"photos/Söhne/{normalize('NFD', 'Käfer.jpg')}"])
    project.set("source", table="shots", location="path", time_zone="UTC")
    project.set("images", roots=["photos"])
    project.upgrade()
    assert project.run_day()["reasons"] == {"not_found": 1}
    assert "in another Unicode form (NFD)" in project.infer("explain", "--image", "0")
