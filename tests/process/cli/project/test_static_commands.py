"""`infer static` in a project whose photos show one rock."""

from datetime import datetime

import pytest
from PIL import Image

from infer_app.base.domain import DetectedObject
from infer_app.base.settings.load import load_settings
from infer_app.run.note_facts import note_facts
from infer_app.tables.project_database import open_project_database
from tests.support.detections import write_detections
from tests.support.projects import Project
from tests.support.results import commit, of_objects

ROCK = DetectedObject("animal", 0, 0.9, 0.5, 0.5, 0.25, 0.25)
OF_A_CAMERA = "UPDATE infer_pictures SET camera = 'north', taken_at = datetime('2026-11-20 12:00', (id % 5) || ' days')"


@pytest.fixture
def rocky(tmp_path):
    project = Project(tmp_path / "project")
    project.upgrade()
    project.photos /= "south"
    project.photos.mkdir()
    project.add_photos(20)
    project.set("source", camera="folder:1")
    write_detections(project, {f"{number:04}.jpg": [ROCK] for number in range(20)})
    project.write(OF_A_CAMERA)
    return project


def test_places_are_listed_with_a_picture_of_each_and_decided_by_their_numbers(rocky):
    said = rocky.infer("static", "list", "animals", "--crops", "rocks/north")
    row = [cell.strip() for cell in next(line for line in said.splitlines() if "north" in line).strip("│").split("│")]
    number = row[0]
    assert said.splitlines()[-1] == "1 place, 1 picture in rocks/north"
    assert row[1:] == ["north", "animal", "20", "5", "2026-11-24"]
    (crop,) = (rocky.folder / "rocks" / "north").iterdir()
    with Image.open(crop) as picture:
        assert (crop.name, picture.format) == (f"{number}.jpg", "JPEG")
    assert rocky.infer("static", "hide", number) == f"{number} hidden: animal of north\n"
    rocky.infer("cameras", "update")  # their folder names them
    assert rocky.rows("SELECT camera FROM infer_places") == [("south",)]
    assert rocky.infer("static", "list", "animals") == "0 places\n"
    assert rocky.rows("SELECT count(*) FROM infer_shown_objects") == [(0,)]
    assert rocky.infer("static", "keep", number, number) == f"{number} kept: animal of south\n"
    assert rocky.infer("static", "list", "animals") == "0 places\n"
    assert rocky.rows("SELECT count(*) FROM infer_shown_objects") == [(20,)]


def test_the_run_that_brings_later_pictures_without_the_rock_ends_its_place(rocky):
    number, *_ = (str(one) for (one,) in rocky.rows("SELECT id FROM infer_objects"))
    rocky.infer("static", "hide", number)
    rocky.register_images("/later.jpg", date="2026-12-20", camera="north", taken_at=datetime(2026, 12, 20))
    loaded = load_settings(rocky.folder / "infer.toml")
    with open_project_database(loaded) as project:
        commit(project.database, [of_objects("21")])
        note_facts(loaded, project, [])
    assert rocky.rows("SELECT hidden, until FROM infer_places") == [(1, "2026-11-24 12:00:00.000000")]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["list", "plants"], "no model 'plants' has run", "animals"),
        (["list", "animals", "--crops", "infer.toml"], "can't write into infer.toml", "--crops"),
        (["hide", "1", "99"], "99 is no object of a camera", "infer static list NAME"),
        (["hide", str(2**63)], "Invalid value", "NUMBER"),
    ],
)
def test_what_can_not_be_done_is_said(rocky, arguments, message, hint):
    rocky.infer("static", *arguments, exit_code=2)
    assert message in rocky.errors
    assert hint in rocky.errors


def test_a_model_without_boxes_and_a_project_without_cameras_have_no_places(rocky):
    rocky.write("UPDATE infer_models SET manifest = replace(manifest, 'detection', 'classification')")
    rocky.infer("static", "list", "animals", exit_code=2)
    assert "animals gives no boxes" in rocky.errors
    config = rocky.folder / "infer.toml"
    config.write_text(config.read_text().replace("folder:1", "").replace('camera = ""', ""))
    rocky.infer("static", "list", "animals", exit_code=2)
    assert "cameras are not recorded" in rocky.errors
