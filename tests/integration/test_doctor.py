"""`infer doctor` ends with the code that `infer run` would end with, also where rows may not be read."""

import json
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from tests.support.projects import DATE, INFER, REJECTED

pytestmark = pytest.mark.slow


@pytest.fixture
def lab(project):
    """lab(location, …) is a project over a user's table with these locations, of DATE; photos lie in its folder."""

    def make(*locations):
        project.add_photos(2)
        project.write("CREATE TABLE shots (id INTEGER PRIMARY KEY, path TEXT, came TEXT)")
        for location in locations:
            project.write("INSERT INTO shots (path, came) VALUES (?, ?)", location, DATE)
        project.set("source", table="shots", location="path", time="came")
        return project

    return make


def findings(project, check, exit_code=0):
    found = project.infer_json("doctor", exit_code=exit_code)["findings"]
    return [(one["found"], one["fix"], one["exit_code"]) for one in found if one["check"] == check]


@pytest.mark.parametrize(
    ("locations", "has_roots", "said", "fix"),
    [
        (["0000.jpg", "0001.jpg"], True, "image 1, 0000.jpg: not an absolute path", '[source] base = "/srv/photos"'),
        (["0000.jpg", "0001.jpg"], False, "(allowed: nothing)", '[source] base = "/srv/photos"'),
        (["/elsewhere/a.jpg"], True, "image 1, /elsewhere/a.jpg: outside", '[images] roots = ["/elsewhere"]'),
        ([None], True, "image 1 has no location", "give it one in the table"),
    ],
    ids=["relative", "relative without roots", "outside", "none"],
)
def test_doctor_fails_where_a_run_finds_no_allowed_location(lab, locations, has_roots, said, fix):
    project = lab(*locations)
    if not has_roots:
        project.set("images", roots=[])
    ((told, hint, exit_code),) = findings(project, "locations", exit_code=2)
    assert told.startswith(f"{DATE}: ")
    assert (said in told, fix in hint, exit_code) == (True, True, 2)
    error = project.infer_json("run", "--date", DATE, exit_code=2)
    assert (error["error"], error["hint"]) == (told.removeprefix(f"{DATE}: "), hint)
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]


def test_a_link_to_a_file_elsewhere_is_named_with_what_it_leads_to(lab, tmp_path):
    """As those of git-annex, of which a folder may be watched alone."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "a.jpg").write_bytes(b"1")
    project = lab("link.jpg")
    project.set("source", base="photos")
    (project.photos / "link.jpg").symlink_to(tmp_path / "objects" / "a.jpg")
    ((_, hint, _),) = findings(project, "locations", exit_code=2)
    assert hint == f"it is a link to {tmp_path}/objects/a.jpg: add a folder above all such files to [images] roots"


def test_relative_locations_are_read_below_the_base_which_needs_no_roots(lab):
    project = lab("0000.jpg", "../photos/0001.jpg", "gone.jpg", "../infer.toml")
    project.set("images", roots=[])
    project.set("source", base="photos")
    ((told, _, exit_code),) = findings(project, "locations")
    assert ("image 4, ../infer.toml, read as" in told, exit_code) == (True, 0)
    run = project.infer_json("run", "--date", DATE)
    assert (run["predicted"], run["reasons"]) == (2, {"location_not_allowed": 1, "not_found": 1})
    assert project.rows(f"SELECT image_id, location FROM {REJECTED} ORDER BY 1") == [
        ("3", "gone.jpg"),
        ("4", "../infer.toml"),
    ]
    (project.photos / "gone.jpg").write_bytes((project.photos / "0000.jpg").read_bytes())
    assert project.infer_json("run", "--date", DATE)["predicted"] == 1
    assert "allowed   yes" in project.infer("explain", "--image", "3")
    project.infer("report", "--date", DATE)


def test_a_base_that_is_not_there_ends_as_storage_that_is_gone(lab):
    project = lab("0000.jpg")
    project.set("images", roots=[])
    project.set("source", base="nowhere")
    ((told, _, exit_code),) = findings(project, "roots", exit_code=14)
    assert ("nowhere: No such file" in told, exit_code) == (True, 14)
    project.infer("run", "--date", DATE, exit_code=14)


def test_doctor_notes_images_that_a_run_would_reject_and_passes(lab):
    project = lab("/elsewhere/a\n.jpg", None)
    project.write("INSERT INTO shots SELECT id + 10, location, ? FROM infer_images", DATE)
    ((told, hint, exit_code),) = findings(project, "locations")
    assert told.startswith(f"{DATE}: no allowed location: 2 of 4 images, for example image 1, /elsewhere/a\n.jpg")
    assert (bool(hint), exit_code) == (True, 0)
    assert r"for example image 1, /elsewhere/a\n.jpg: outside" in project.infer("doctor")
    assert project.infer_json("run", "--date", DATE)["rejected"] == 2


def test_doctor_finds_images_of_today(lab):
    project, today = lab(), datetime.now(UTC)
    project.write("INSERT INTO shots SELECT id, location, ? FROM infer_images", str(today.date()))
    assert findings(project, "source")[0][0] == f"shots: latest images on {today.date()}; days begin in UTC"


def test_doctor_without_a_model_says_so_once(project):
    shutil.rmtree(project.folder / "models")
    project.add_photos(1)
    found = json.loads(project.infer("doctor", "--json", exit_code=2))["findings"]
    assert [one["check"] for one in found if one["exit_code"]] == ["model"]


def test_late_rows_that_may_not_be_read_are_rejected_beside_those_that_are_done(lab):
    project = lab()
    project.write("INSERT INTO shots SELECT id, location, ? FROM infer_images", DATE)
    project.infer("run", "--date", DATE)
    project.write("INSERT INTO shots VALUES (8, '/elsewhere/x.jpg', ?), (9, NULL, ?)", DATE, DATE)
    assert project.infer_json("run", "--date", DATE, "--dry-run")["reasons"] == {"location_not_allowed": 2}
    day = project.infer_json("run", "--date", DATE, "--report")["day"]
    assert (day["predicted"], day["rejected"], day["pending"]) == (2, 2, 0)
    assert project.rows(f"SELECT image_id, reason, detail FROM {REJECTED} ORDER BY 1") == [
        ("8", "location_not_allowed", "outside the allowed roots"),
        ("9", "location_not_allowed", "the row has no location"),
    ]
    pages = "".join(page.read_text() for page in (project.folder / "reports").iterdir())
    told = [
        project.infer("list", "--state", "rejected", "--date", DATE),
        project.infer("explain", "--image", "9"),
        pages,
    ]
    assert not [text for text in told if "None" in text]
    assert "location  none" in told[1]


FAULTS = {
    "watched folder": (lambda project: project.photos.rename(project.folder / "away"), 14),
    "models": (lambda project: shutil.rmtree(project.folder / "models/colors"), 12),
    "version in use": (lambda project: shutil.rmtree(*project.folder.glob("models/colors/*")), 12),
    "database": (lambda project: (project.folder / "infer.db").unlink(), 10),
    "another database": (lambda project: (project.folder / "infer.database-id").write_text("another\n"), 2),
    "tables": (lambda project: project.write("DROP TABLE infer_rejections"), 11),
    "column": (lambda project: project.set("source", table="infer_images", location="path"), 2),
    "typo": (lambda project: project.set("run", lookbak=3), 2),
}


def test_doctor_ends_with_the_code_of_a_run(project):
    project.set("images", watch=["photos"])
    project.add_photos(2)
    project.run_day()
    project.keep()
    for fault, code in FAULTS.values():
        project.restore()
        fault(project)
        for command in (("doctor",), ("run", "--date", DATE)):
            project.infer(*command, exit_code=code)


def test_of_a_new_project_the_first_run_makes_the_database(tmp_path):
    subprocess.run([INFER, "init"], cwd=tmp_path, check=True, capture_output=True)
    doctor = subprocess.run([INFER, "doctor", "--json"], cwd=tmp_path, capture_output=True, text=True)
    findings = json.loads(doctor.stdout)["findings"]
    (database,) = (one for one in findings if one["check"] == "database")
    assert (database["found"].endswith("infer.db is made by the first `infer run`"), database["exit_code"]) == (True, 0)
    assert not (tmp_path / "infer.db").exists()
    status = subprocess.run([INFER, "status"], cwd=tmp_path, capture_output=True, text=True)
    assert (status.returncode, "hint: the first `infer run` makes it" in status.stderr) == (10, True)
