"""`infer doctor` ends with the code that `infer run` would end with, and names each failure once."""

import json

import pytest

from tests.support.projects import DATE

pytestmark = pytest.mark.slow


@pytest.fixture
def lab(project, monkeypatch):
    """lab(location, …) is a project over a user's table with these locations, of DATE; photos lie in its folder."""

    def make(*locations):
        project.add_photos(2)
        project.write("CREATE TABLE shots (id INTEGER PRIMARY KEY, path TEXT, came TEXT)")
        for location in locations:
            project.write("INSERT INTO shots (path, came) VALUES (?, ?)", location, DATE)
        for key, value in {"TABLE": "shots", "LOCATION": "path", "TIME": "came"}.items():
            monkeypatch.setenv(f"INFER_SOURCE__{key}", value)
        return project

    return make


def findings(project, check, exit_code=0):
    found = project.infer_json("doctor", exit_code=exit_code)["findings"]
    return [(one["found"], one["fix"], one["exit_code"]) for one in found if one["check"] == check]


@pytest.mark.parametrize(
    ("locations", "said", "fix"),
    [
        (["0000.jpg", "0001.jpg"], "image 1, 0000.jpg: not an absolute path", "must be an absolute path or a URL"),
        (
            ["/elsewhere/a.jpg"],
            "image 1, /elsewhere/a.jpg: outside the allowed roots",
            '[images] roots = ["/elsewhere"]',
        ),
        ([None], "image 1 has no location", "give it one in the table"),
    ],
    ids=["relative", "outside", "none"],
)
def test_doctor_fails_where_a_run_finds_no_allowed_location(lab, locations, said, fix):
    project = lab(*locations)
    ((told, hint, exit_code),) = findings(project, "locations", exit_code=2)
    assert told.startswith(f"{DATE}: ")
    assert (said in told, fix in hint, exit_code) == (True, True, 2)
    error = project.infer_json("run", "--date", DATE, exit_code=2)
    assert (error["error"], error["hint"]) == (told.removeprefix(f"{DATE}: "), hint)


def test_doctor_notes_images_that_a_run_would_reject_and_passes(lab):
    project = lab("/elsewhere/a\n.jpg", None)
    project.write("INSERT INTO shots SELECT id + 10, location, ? FROM infer_images", DATE)
    ((told, hint, exit_code),) = findings(project, "locations")
    assert told.startswith(f"{DATE}: 2 of 4 images have no allowed location, for example image 1, /elsewhere/a\n.jpg")
    assert (bool(hint), exit_code) == (True, 0)
    assert r"for example image 1, /elsewhere/a\n.jpg: outside" in project.infer("doctor")
    assert project.infer_json("run", "--date", DATE)["rejected"] == 2


def test_doctor_names_the_query_that_lists_the_images(lab, monkeypatch):
    project = lab()
    project.write("INSERT INTO shots SELECT id, location, ? FROM infer_images", DATE)
    assert findings(project, "source")[0][0].startswith("shots: latest images on")
    monkeypatch.setenv("INFER_SOURCE__QUERY", "SELECT id, path, came FROM shots")
    monkeypatch.delenv("INFER_SOURCE__TABLE")
    assert findings(project, "source")[0][0].startswith("the query of [source]: latest images on")
    assert findings(project, "locations") == [("2 checked, all are allowed", "", 0)]


def test_doctor_without_a_model_says_so_once(project):
    (project.folder / "models").unlink()
    project.add_photos(1)
    found = json.loads(project.infer("doctor", "--json", exit_code=2))["findings"]
    assert [one["check"] for one in found if one["exit_code"]] == ["model"]
