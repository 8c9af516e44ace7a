"""`infer export` and `infer sample` as a person and as a script see them."""

import csv
import io
import json
from dataclasses import fields
from datetime import datetime

import pytest

from infer_app.ask.export.formats.export_formats import FORMATS
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import UsageError
from infer_app.cli.commands.look_commands import ExportOptions, ListOptions, SampleOptions
from infer_app.cli.look.export import export_days, export_sample
from infer_app.cli.look.list_images import list_images
from infer_app.tables.results.schema import models, pictures, predictions
from tests.conftest import DAY, MODEL
from tests.support.results import broken, commit, predicted

AT = datetime(2026, 11, 21, 3)
SCORES = {"1": (0.9, 0.6), "2": (), "3": (0.55,), "6": (0.3,)}


def test_the_option_names_every_format():
    (metavar,) = (one.metadata["typer"].metavar for one in fields(ExportOptions) if one.name == "format")
    assert metavar == "|".join(FORMATS)


@pytest.fixture
def project(database, register, add_model, monkeypatch, tmp_path):
    """Images 1 to 3 with 2, 0 and 1 objects, 4 rejected, 5 pending; 6 of the next day with an object."""
    monkeypatch.chdir(tmp_path)
    photos = tmp_path / "photos"
    photos.mkdir()
    (tmp_path / "infer.toml").write_text(f"[images]\nroots = ['{photos}']\n")
    for number in range(1, 6):
        register(f"{photos}/{number}.jpg")
        (photos / f"{number}.jpg").write_text(str(number))
    register(f"{photos}/6.jpg", at=datetime(2026, 11, 21, 12))
    add_model("animals", MODEL.model_id, AT, "detection")
    cat = DetectedObject("cat", 0, 0.0, 0.0, 0.0, 1.0, 1.0)
    found = {image_id: tuple(cat._replace(score=score) for score in scores) for image_id, scores in SCORES.items()}
    good = [one for image_id, objects in found.items() for one in predicted(image_id, objects=objects)]
    commit(database, good, broken("4"))
    with database.write() as connection:
        connection.execute(predictions.update().values(sha256=None))  # the photos are not those that were predicted
    return tmp_path


def export(project, name="coco", **options):
    export_days(ExportOptions(**{"date": str(DAY), "format": name, "to": project / "out"} | options))


def sample(project, name="coco", **options):
    export_sample(SampleOptions(**{"date": str(DAY), "format": name, "to": project / "out.json"} | options))


@pytest.mark.parametrize(
    ("name", "where"), [("coco", "not in a COCO file"), ("megadetector", "in it as failures")], ids=["coco", "md"]
)
def test_what_is_not_in_the_file_is_said(project, capsys, name, where):
    export(project, name, until="2026-11-21")
    said = f"4 images, 4 objects; 1 rejected image is {where}; 1 image is pending"
    unset = "no threshold is set for animals: all objects from 0 on are shown"
    assert capsys.readouterr().out.startswith(f"{project}/out: {said}\n{unset}")
    export(project, name, until="2026-11-21", min_score=0.0)
    assert capsys.readouterr().out == f"{project}/out: {said}\n"


def test_images_that_a_second_network_alone_rejected_are_said(project, database, add_model, capsys):
    manifest = {"output": {"kind": "classification"}, "crop": {"of": "animals"}}
    add_model("species", "5" * 16, AT, manifest=manifest, in_use_since=AT)
    commit(database, (), broken("3", "4"), model_id="5" * 16)
    export(project, "megadetector", model="species")
    said = "0 images, 1 object; 2 rejected images are in it as failures or, 1 of them, with the objects of animals"
    assert capsys.readouterr().out.startswith(f"{project}/out: {said}; ")


def test_a_script_gets_the_numbers(project, capsys):
    export(project, "csv", as_json=True, min_score=0.6)
    assert json.loads(capsys.readouterr().out) == {
        "file": f"{project}/out",
        "format": "csv",
        "model": "animals",
        "model_id": MODEL.model_id,
        "images": 3,
        "objects": 2,
        "rejected": 1,
        "pending": 1,
        "left_out": {},
    }
    assert len((project / "out").read_text().splitlines()) == 5  # two images without an object have a row each


def test_an_export_holds_the_images_that_are_listed_as_predicted(project, database, add_model, capsys):
    newer = "9" * 16
    with database.write() as connection:
        connection.execute(models.update().values(in_use_since=None, used_until=AT))
    add_model("animals", newer, AT, "detection")
    commit(database, (), broken("1"), model_id=newer)  # which has predicted none of the day
    export(project, "csv")
    assert "; 2 rejected images are not in" in capsys.readouterr().out
    list_images(ListOptions(state="predicted", date=str(DAY), as_csv=True))
    listed = csv.DictReader(io.StringIO(capsys.readouterr().out))
    exported = csv.DictReader(io.StringIO((project / "out").read_text()))
    assert [one["image_id"] for one in exported] == [one["image_id"] for one in listed] == ["2", "3"]


def test_a_day_without_predictions_is_an_empty_file_and_a_warning(project, capsys, caplog):
    export(project, date="2026-10-01")
    assert "0 images, 0 objects" in capsys.readouterr().out
    assert "animals has no predictions for these days" in caplog.text


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        (export, {"until": "2026-11-19"}, "--until 2026-11-19 is before --date 2026-11-20"),
        (export, {"relative_to": "photos/cam1"}, "is not in"),
        (sample, {"copy_to": "copies", "relative_to": "photos"}, "--copy-to .*copies is not in --relative-to .*photos"),
        (sample, {"name": "yolo"}, "a sample can't be 'yolo'"),
    ],
    ids=["days", "relative", "copies", "format"],
)
def test_what_can_not_be_exported_leaves_no_file(project, write, options, message):
    before = sorted(project.rglob("*"))
    given = {key: project / value if key in ("copy_to", "relative_to") else value for key, value in options.items()}
    with pytest.raises(UsageError, match=message):
        write(project, **given)
    assert sorted(project.rglob("*")) == before


def test_without_a_model_there_is_nothing_to_export(project, database):
    with database.write() as connection:
        connection.execute(models.delete())
    with pytest.raises(UsageError, match="no model has run"):
        export(project)


def test_a_sample_is_the_most_uncertain_images_first(project, capsys):
    sample(project, "label-studio", count=2, relative_to=project)
    tasks = json.loads((project / "out.json").read_text())
    assert [one["data"]["image"].partition("=")[2] for one in tasks] == ["photos/3.jpg", "photos/1.jpg"]
    config = f"its labelling configuration is {project}/out-config.xml"
    assert capsys.readouterr().out == f"{project}/out.json: 2 images, 3 objects, {config}\n"


def names(project, file="out.json"):
    return [one["file_name"] for one in json.loads((project / file).read_text())["images"]]


def test_a_sample_may_copy_its_photos(project, caplog, capsys):
    (project / "photos" / "2.jpg").unlink()
    sample(project, copy_to=project / "copies" / "1", relative_to=project / "copies", by="random", as_json=True)
    assert names(project) == ["1/1.jpg", "1/3.jpg"]
    assert sorted(path.name for path in (project / "copies" / "1").iterdir()) == ["1.jpg", "3.jpg"]
    assert json.loads(capsys.readouterr().out)["not_copied"] == 1
    assert "the sample has 2 images instead of 100: no others can be copied" in caplog.text
    export(project, relative_to=project / "photos")
    assert names(project, "out") == ["1.jpg", "2.jpg", "3.jpg"]


def test_a_sample_has_as_many_images_as_can_be_copied(project, caplog):
    (project / "photos" / "2.jpg").unlink()
    for seed in range(4):
        sample(project, copy_to=project / "copies", by="random", count=2, seed=seed)
        assert names(project) == ["1.jpg", "3.jpg"]
    assert "instead of" not in caplog.text


def test_locations_show_no_secret(project, database):
    secret = "https://user:pass@host/a.jpg?token=abc"
    with database.write() as connection:
        connection.execute(pictures.update().where(pictures.c.id == 1).values(location=secret))
    for name in [one for one, known in FORMATS.items() if not known.is_folder]:
        export(project, name)
        written = (project / "out").read_bytes()
        assert b"https://***@host/a.jpg?***" in written
        assert b"token=abc" not in written
        assert b"pass" not in written
