import json
from dataclasses import replace
from datetime import date

import pytest

from infer_app.ask.missing_prediction import Cause, Why, explain_former_objects
from infer_app.ask.next_run import NextRun
from infer_app.base.domain import CropOutput, Output, Reason
from infer_app.base.errors import UsageError
from infer_app.cli.commands.look_commands import ExplainOptions, ListOptions
from infer_app.cli.look.explain import show_image
from infer_app.cli.look.list_images import list_images
from infer_app.tables.results.model_versions import switch_version
from tests.conftest import DAY
from tests.support.second_networks import DETECTOR, OTHER, SECOND, StoredModel

D, S, E = DETECTOR.model_id, SECOND.model_id, "e" * 16
LION, DOG = [("lion", 0.75), ("tiger", 0.25)], [("dog", 0.5)]
FORMER = "made of objects of animals@dddddddd, and animals@eeeeeeee is in use now; "


@pytest.fixture(autouse=True)
def results(database, register, monkeypatch, tmp_path):
    """Results of a detector and a second network for two images, whose files are not there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    register("/1.jpg", "/2.jpg")
    detector, species = StoredModel(database, DETECTOR), StoredModel(database, SECOND, D)
    for model in (DETECTOR, SECOND):
        switch_version(database, model.name, model.model_id, model.manifest)
    detector.detect("1", 0.9, 0.8, 0.1)
    detector.detect("2", 0.9)
    species.classify("1", {0: LION, 1: DOG})
    species.reject("2", Reason.MODEL_ERROR)
    for model in (detector, species):
        model.end_run()


def told(capsys, command, *arguments):
    capsys.readouterr()
    command(*arguments)
    return json.loads(capsys.readouterr().out)


def test_each_object_is_listed_with_both_labels_and_scores(capsys):
    show_image(ExplainOptions(image="1", model="species"))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "objects   2 of the 3 that animals@dddddddd found, 3 shown" in lines
    box = "x 160 y 240 width 80 height 30"
    first = lines.index(f"animal 0.900: {box} → lion 0.750")
    assert lines[first + 1 : first + 3] == [f"animal 0.800: {box} → dog 0.500", f"animal 0.100: {box}, not taken"]
    (model,) = told(capsys, show_image, ExplainOptions(image="1", model="species", as_json=True))["models"]
    objects = model["prediction"]["objects"]
    assert [one["score"] for one in objects] == [0.9, 0.8, 0.1]
    assert [one["prediction"] and one["prediction"]["label"] for one in objects] == ["lion", "dog", None]
    assert [one["label"] for one in objects[0]["prediction"]["output"]["top"]] == ["lion", "tiger"]


def test_objects_without_a_label_are_listed_by_their_number(database, capsys):
    numbers = StoredModel(database, OTHER, D)
    switch_version(database, OTHER.name, OTHER.model_id, OTHER.manifest)
    crops = tuple(CropOutput(number, Output(score=0.5)) for number in (0, 1))
    numbers.predict("1", Output(score=0.5, crops=crops))
    numbers.end_run()
    options = ListOptions(state="predicted", date=str(DAY), as_json=True)
    listed = told(capsys, list_images, options)["images"]
    messages = {one["model"]: one["message"] for one in listed if one["image_id"] == "1"}
    best = {"animals": "3 objects, the best animal 0.900", "species": "2 objects, the best lion 0.750"}
    assert messages == best | {"sexes": "2 objects"}


def next_run(**changed):
    return replace(NextRun((("species", S),), None, date(2026, 11, 21), lookback=3), **changed)


def test_what_its_detector_has_not_predicted_is_not_listed_as_pending_of_a_second_network(
    database, register, capsys, monkeypatch
):
    monkeypatch.setattr(NextRun, "of", lambda *_: next_run(models=(("animals", D), ("species", S))))
    register("/3.jpg")
    for model, names in (("species", {"species"}), ("animals", {"animals"}), (None, {"animals", "species"})):
        listed = told(capsys, list_images, ListOptions(date=str(DAY), model=model, as_json=True))["images"]
        assert ({one["model"] for one in listed}, {one["image_id"] for one in listed}) == (names, {"3"})


def test_another_version_of_the_detector_in_use_is_why_a_result_no_longer_counts(database, capsys, monkeypatch):
    monkeypatch.setattr(NextRun, "of", lambda *_: next_run())
    pending = ListOptions(date=str(DAY), as_json=True)
    assert told(capsys, list_images, pending)["images"] == []
    switch_version(database, "animals", E, DETECTOR.manifest)
    listed = told(capsys, list_images, pending)["images"]
    told_of = [(one["image_id"], one["cause"], one["state"]) for one in listed]
    assert told_of == [(image_id, "detector_changed", "pending") for image_id in "12"]
    assert {one["message"] for one in listed} == {FORMER + "the next run covers 2026-11-20"}
    for image_id in ("1", "2"):
        options = ExplainOptions(image=image_id, model="species", as_json=True)
        (model,) = told(capsys, show_image, options)["models"]
        assert (model["state"], model["missing"]["why"]) == ("pending", "detector_changed")
    switch_version(database, "animals", D, DETECTOR.manifest)
    (model,) = told(capsys, show_image, options)["models"]
    assert (model["state"], model["missing"]["why"]) == ("rejected", "rejected")


def test_the_command_is_that_of_the_day():
    versions = ("animals@dddddddd", "animals@eeeeeeee")
    older = explain_former_objects(next_run(), date(2026, 11, 1), versions)
    message = FORMER + "no run covers 2026-11-01 any more"
    backfill = "infer backfill --from 2026-11-01 --to 2026-11-01"
    assert older == Cause(Why.DETECTOR_CHANGED, message, backfill)
    none = explain_former_objects(next_run(error=UsageError("no model", "make one")), date(2026, 11, 20), versions)
    assert none.why == Why.NO_MODEL
