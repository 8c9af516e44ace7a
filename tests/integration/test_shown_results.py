"""What is shown of stored rows is the same in the views, in every export and in what commands print and count."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from infer_app.base.domain import Output
from tests.support.projects import DATE, INFER
from tests.support.stored_project import AT, D1, D2, MODELS, S1, S2, SPECIES, Stored


@pytest.fixture
def stored(tmp_path):
    project = Stored(tmp_path / "project")
    project.upgrade()
    for name, model_id, manifest in MODELS:
        project.insert("infer_models", id=model_id, name=name, manifest=manifest, created_at=AT)
    project.use(D1, S1)
    return project


def test_results_of_objects_of_another_version_of_the_detector_are_shown_nowhere(stored):
    for image_id in "12":
        stored.register(image_id)
        stored.detect(image_id, D1, 0.9)
    stored.classify("1", S1, D1, ("lion", 0.8))
    stored.detect("2", D2, 0.7)
    stored.classify("2", S1, D2, ("dog", 0.6))
    for detector, image_id, label in ((D1, "1", "lion"), (D2, "2", "dog")):
        stored.use(detector, S1)
        assert stored.shown() == [(image_id, label)]
        assert "1 image is pending" in stored.told
        current = "SELECT image_id, label FROM infer_current_predictions WHERE model_id = '{}'"
        listed = stored.list_images("predicted", DATE, "--model", "species")
        assert [(one["image_id"], one["label"]) for one in listed] == stored.rows(current.format(S1))
        assert [one["image_id"] for one in listed] == [image_id]
        found = json.loads(stored.export("megadetector", "--model", "species").read_text())
        assert (found["info"]["detector"], len(found["images"])) == (f"animals@{detector[:8]}", 1)


def test_a_version_that_rejected_an_image_hides_the_answer_of_the_version_before_it(stored):
    """Which may be of a former file; and a file names the versions that its rows are of."""
    for image_id in "123":
        stored.register(image_id)
        stored.detect(image_id, D1, 0.9)
    for image_id in "12":
        stored.classify(image_id, S1, D1, ("lion", 0.8))
    stored.use(D1, S2)
    stored.reject("1", S2, D1)
    stored.classify("3", S2, D1, ("dog", 0.6))
    assert stored.shown() == [("2", "lion"), ("3", "dog")]
    assert "1 rejected image is not in" in stored.told
    listed = stored.list_images("predicted", DATE, "--model", "species")
    assert [one["image_id"] for one in listed] == ["2", "3"]
    found = json.loads(stored.export("megadetector", "--model", "species").read_text())
    assert found["info"]["classifier"] == f"species@{S2[:8]}, species@{S1[:8]}"
    assert ["classifications" in one["detections"][0] for one in found["images"]] == [True, True, False]


LOW = {"labels": [], "threshold": 0.5}  # male 0.3 is the best, and is not listed
EQUAL = [("lion", 0.5), ("dog", 0.5)]  # lion is the network's best


@pytest.mark.parametrize(
    ("best", "output", "labels", "thresholds", "shown"),
    [
        ([("lion", 0.3)], LOW, SPECIES["labels"], [], None),
        ([("lion", 0.3)], LOW, SPECIES["labels"], ["--default", "0.2"], None),
        (EQUAL, {}, SPECIES["labels"], [], "lion"),
        (EQUAL, {}, SPECIES["labels"], ["lion=0.6"], "dog"),
        (EQUAL, {}, SPECIES["labels"], ["lion=0.6", "dog=0.6"], None),
        ([("lion", 0.4), ("lion", 0.35)], {}, ["lion", "lion", "dog"], ["--default", "0.7"], "lion"),
    ],
)
def test_one_label_of_an_object_is_shown_everywhere(stored, best, output, labels, thresholds, shown):
    stored.register("1")
    stored.detect("1", D1, 0.9)
    stored.classify("1", S1, D1, *best, **output)
    activation = "sigmoid" if output else "softmax"
    manifest = SPECIES | {"labels": labels, "output": SPECIES["output"] | {"activation": activation, "threshold": 0.5}}
    stored.write("UPDATE infer_models SET manifest = ? WHERE id = ?", json.dumps(manifest), S1)
    if thresholds:
        stored.infer("threshold", "set", "species", *thresholds)
    assert stored.shown() == [("1", shown)]
    stored.infer_json("report", "--date", DATE)
    page = json.loads((stored.folder / f"reports/{DATE}.json").read_text())
    (labels,) = [one["labels"] for one in page["models"] if one["model"] == "species"]
    counted = labels and [(one["label"], one["count"]) for one in labels["most"]]
    assert counted == ([(shown, 1)] if shown else None)


def test_labels_that_no_trainer_would_find_are_refused(stored):
    """Trainers replace the last `/images/` of a photo's path by `/labels/`."""
    stored.register("1", "/srv/cam/images/1.jpg")
    stored.detect("1", D1, 0.9)
    to = "export", "--date", DATE, "--format", "yolo", "--model", "animals", "--to", "set", "--relative-to"
    stored.infer(*to, "/srv", exit_code=2)
    assert "in a folder named images" in stored.errors
    stored.infer(*to, "/srv/cam/images")
    assert (stored.folder / "set/labels/1.txt").read_text()


def test_a_file_with_the_name_of_an_image_in_a_column_is_a_file(stored):
    stored.register("1", "/srv/row:1@2.png")
    stored.detect("1", D1, 0.9)
    [task] = json.loads(stored.export("label-studio", "--model", "animals", "--relative-to", "/srv").read_text())
    assert task["data"]["image"] == "/data/local-files/?d=row%3A1%402.png"


def test_tasks_and_their_configuration_are_replaced_together(stored):
    for number in range(12):  # more than SQLite's own files have
        stored.register(number, f"/{number}{'x' * 4000}.jpg")
        stored.detect(str(number), D1, 0.9)
    tasks, config = (stored.folder / name for name in ("out.label-studio", "out-config.xml"))
    stored.export("label-studio", "--model", "animals")
    size = tasks.stat().st_size
    assert config.stat().st_size < size - 1
    tasks.write_text("old")
    config.write_text("old")
    limited = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size - 1}, {size - 1}))"
    full = f"import os, resource, sys; {limited}; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", full, str(INFER), "export", "--date", DATE, "--to", str(tasks)]
    command += ["--format", "label-studio", "--model", "animals"]
    run = subprocess.run(command, cwd=stored.folder, capture_output=True, text=True)
    assert (run.returncode, "File too large" in run.stderr) == (2, True)
    assert [file.read_text() for file in (tasks, config)] == ["old", "old"]


def test_what_is_told_to_be_deleted_of_pictures_that_a_table_no_longer_lists_is_deleted_and_counted(stored):
    stored.write("CREATE TABLE shots (id TEXT, location TEXT, added_at TEXT)")
    stored.set("source", table="shots", location="location", time="added_at", time_zone="UTC")
    stored.detect("1", D1, 0.9)
    stored.classify("1", S1, D1, ("lion", 0.8))
    stored.write("UPDATE infer_pictures SET registered = 0, unlisted_since = '2026-01-01 00:00:00.000000'")
    told, deleted = stored.infer("forget", "--missing", "--even-most", "--yes").splitlines()
    amount = "2 predictions with 1 object, 0 rejections (1 result of second networks among them)"
    assert (amount in told, deleted) == (True, f"deleted {amount}")


def test_results_of_second_networks_are_told_among_the_results_that_are_deleted_with_a_registered_image(stored):
    stored.register("1")
    stored.detect("1", D1, 0.9)
    stored.classify("1", S1, D1, ("lion", 0.8))
    stored.write("UPDATE infer_pictures SET missing_since = '2026-01-01 00:00:00.000000'")
    deleted = stored.infer("forget", "--missing", "--even-most", "--yes").splitlines()[-1]
    results = "2 predictions with 1 object, 0 rejections (1 result of second networks among them)"
    assert deleted == f"deleted {results} and 1 registered image"


def test_labels_of_an_event_stand_by_model(stored):
    stored.set("source", camera="folder:1")
    stored.set("events", gap="60s")
    stored.register("1")
    stored.detect("1", D1, 0.9)
    stored.classify("1", S1, D1, ("lion", 0.8))
    stored.write("UPDATE infer_pictures SET camera = 'north', event = id, event_last = id")
    assert "1 animal; 1 lion" in stored.infer("events", "--date", DATE)


def test_the_last_version_of_a_name_stays_preferred_when_it_is_removed_by_a_clock_that_is_behind(stored, built_models):
    stored.use_models(built_models)
    [folder] = stored.folder.glob("models/colors/*")
    times = {"7" * 16: ("used_until", "2099-01-01"), folder.name: ("in_use_since", "2099-01-02")}
    stored.register("1")
    for model_id, (column, day) in times.items():
        at = {"created_at": AT, column: f"{day} 00:00:00.000000"}
        stored.insert("infer_models", id=model_id, name="colors", manifest=SPECIES["output"], **at)
        stored.predict("1", model_id, Output(model_id, 0.9))
    current = "SELECT model_id FROM infer_current_predictions"
    assert stored.rows(current) == [(folder.name,)]
    stored.infer("model", "remove", "--force", "colors")
    assert stored.rows("SELECT 1 FROM infer_models WHERE in_use_since IS NOT NULL AND name = 'colors'") == []
    assert stored.rows(current) == [(folder.name,)]


def test_status_and_pending_count_what_the_next_run_predicts_again_with_the_version_in_use(stored, built_models):
    stored.use_models(built_models)
    [folder] = stored.folder.glob("models/colors/*")
    yesterday = str(datetime.now(UTC).date() - timedelta(days=1))
    stored.register_images("/1.jpg", date=yesterday)
    for model_id, used in (("7" * 16, "used_until"), (folder.name, "in_use_since")):
        at = {"created_at": AT, used: AT}
        stored.insert("infer_models", id=model_id, name="colors", manifest=SPECIES["output"], **at)
    stored.predict("1", "7" * 16, Output("red", 0.9))
    stored.run_once("colors", "7" * 16, yesterday)
    pending = stored.list_images("pending", yesterday, "--model", "colors")
    [day] = [one for one in stored.infer_json("status", "--days", "2")["days"] if one["model"] == "colors"]
    assert (day["model_id"], day["pending"], day["again"]) == ("7" * 16, 0, 1)
    assert len(pending) == 1
    assert "1 pending for the version in use" in stored.infer("status", "--days", "2", COLUMNS="200")
