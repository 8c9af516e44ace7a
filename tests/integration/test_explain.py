"""`infer explain` through the real command: what a night left behind, the file as it is now, and a second scoring."""

import json
import os
import shutil
from xml.etree import ElementTree

import pytest

from infer_app.base.domain import DetectedObject
from tests.support.detections import write_detections
from tests.support.projects import DATE, Project


@pytest.fixture(scope="module")
def ended_night(tmp_path_factory, built_models):
    """A day of twelve photos of which the sixth is none, done once for all tests."""
    project = Project(tmp_path_factory.mktemp("explain") / "project", built_models)
    project.add_photos(12)
    (project.photos / "0005.jpg").write_bytes(b"no picture")
    project.run_day()
    project.keep()
    return project


@pytest.fixture
def night(ended_night):
    """As it was when the night ended."""
    ended_night.restore()
    return ended_night


def explained(project, image_id, *flags, exit_code=0):
    return project.infer_json("explain", "--image", image_id, *flags, exit_code=exit_code)


@pytest.mark.always
def test_a_prediction_a_rejection_and_a_new_image_are_told_with_file_and_run(night):
    found = explained(night, "1")
    (model,) = found["models"]
    assert (found["date"], found["allowed"], found["location"]) == (DATE, True, str(night.photos / "0000.jpg"))
    assert (model["model"], model["state"], model["same_file"]) == ("colors", "predicted", True)
    assert (model["prediction"]["label"], model["prediction"]["variant"]) == ("red", "cpu-openvino-fp32")
    assert model["prediction"]["sha256"] == found["file"]["sha256"]
    assert model["run"]["id"] == model["prediction"]["run_id"]
    assert model["run"]["versions"]["infer_app"]
    (model,) = explained(night, "6")["models"]
    rejection = model["rejection"]
    assert (model["state"], rejection["reason"], rejection["attempts"]) == ("rejected", "unsupported_format", 1)
    assert (rejection["size"], len(rejection["sha256"]), model["same_file"]) == (10, 64, True)
    night.register_images("/nowhere/x.jpg", date="2026-11-21")
    found = explained(night, "13")
    assert (found["date"], [model["state"] for model in found["models"]]) == ("2026-11-21", ["pending"])


WITH_AT_MOST_3 = json.dumps({"output": {"kind": "detection", "detection": {"max_objects": 3}}})
CAT, DOG = DetectedObject("cat", 0, 0.9, 0.25, 0.0, 0.5, 1.0), DetectedObject("dog", 1, 0.4, 0.0, 0.5, 0.5, 0.5)


def test_objects_are_listed_and_drawn(night):
    hostile = DOG._replace(label="<script>x</script>\x1b[31m\n", score=0.5)
    write_detections(night, {"0000.jpg": [CAT, hostile, DOG], "0001.jpg": []})
    night.write("INSERT INTO infer_thresholds (model, label, threshold) VALUES ('animals', 'dog', 0.45)")
    found = explained(night, "1", "--draw", "drawn.svg")
    prediction = next(model["prediction"] for model in found["models"] if model["model"] == "animals")
    assert (prediction["width"], prediction["height"]) == (40, 30)
    assert [(one["label"], one["shown"]) for one in prediction["objects"]] == [
        ("cat", True),
        (hostile.label, True),
        ("dog", False),
    ]
    assert prediction["objects"][0]["pixels"] == {"x": 10.0, "y": 0.0, "width": 20.0, "height": 30.0}
    assert found["drawn"] == {"file": "drawn.svg", "model": "animals", "model_id": "a1" * 8, "objects": 2}
    svg = (night.folder / "drawn.svg").read_text()
    assert ElementTree.fromstring(svg).get("viewBox") == "0 0 40 30"
    assert ("cat 0.90" in svg, "dog 0.40" in svg, "<script" in svg) == (True, False, False)
    night.write("UPDATE infer_models SET manifest = ? WHERE name = 'animals'", WITH_AT_MOST_3)
    text = night.infer("explain", "--image", "1", "--draw", "again.svg")
    assert "objects   3, the most that the model keeps of an image, 2 shown" in text
    assert (night.folder / "again.svg").read_text() == svg
    assert "dog 0.400: x 0 y 15 width 20 height 15, not shown" in text
    assert "\x1b" not in text
    assert "objects   0, 0 shown" in night.infer("explain", "--image", "2", "--draw", "empty.svg")
    assert (night.folder / "empty.svg").is_file()


def test_what_can_not_be_drawn_is_told_and_leaves_no_file(night):
    """No box is drawn over another picture than the one that was predicted."""
    before = {path.name for path in night.folder.iterdir()}
    names = [f"{number:04}.jpg" for number in range(4)]
    write_detections(night, {name: [CAT] for name in names})

    def refused(image_id, file="drawn.svg"):
        answer = explained(night, image_id, "--draw", file, exit_code=2)
        assert answer["hint"]
        return answer["error"]

    assert refused("5") == "no detection model has predicted image 5"
    assert "a drawing is" in refused("1", "drawn.png")
    assert refused("1", "none/drawn.svg") == "can't write none/drawn.svg: No such file or directory"
    (night.photos / names[0]).write_bytes(b"no picture")
    (night.photos / names[1]).unlink()
    shutil.copy(night.photos / names[2], night.photos / names[3])
    assert refused("1") == "image 1 can't be drawn: it can't be decoded"
    assert refused("2").startswith("image 2 can't be drawn: not_found: ")
    assert refused("4").startswith("the file of image 4 was replaced since it was predicted: ")
    assert {path.name for path in night.folder.iterdir()} <= {*before, "infer.db-shm", "infer.db-wal"}


ELSEWHERE = "UPDATE infer_pictures SET location = '/etc/passwd' WHERE id = 1"


def replace_by_another(night):
    shutil.copy(night.photos / "0001.jpg", night.photos / "0000.jpg")


def remove(night):
    (night.photos / "0000.jpg").unlink()


def put_a_pipe(night):
    remove(night)
    os.mkfifo(night.photos / "0000.jpg")


@pytest.mark.parametrize(
    ("harm", "reason", "same", "said"),
    [
        (replace_by_another, None, False, "has CHANGED"),
        (remove, "not_found", None, "file now  not_found"),
        (lambda night: night.write(ELSEWHERE), "location_not_allowed", None, "allowed   no: outside the allowed roots"),
        (put_a_pipe, "not_regular_file", None, "file now  not_regular_file"),
    ],
)
def test_the_file_as_it_is_now(night, harm, reason, same, said):
    harm(night)
    found = explained(night, "1")
    assert (found["allowed"], found["file"]["reason"]) == (reason != "location_not_allowed", reason)
    assert (found["file"]["sha256"] is None) is (reason is not None)
    assert found["models"][0]["same_file"] is same
    assert said in night.infer("explain", "--image", "1")


def test_an_image_that_the_source_lists_no_longer(night):
    night.own_table()
    night.run_day()
    night.write("DELETE FROM shots WHERE id = 1")
    night.run_day()  # which notices it
    write_detections(night, {"0000.jpg": [CAT]}, registered=False)
    found = explained(night, "1")
    assert (found["location"], found["file"], found["models"][0]["state"]) == (None, None, "predicted")
    assert "no longer" in explained(night, "1", "--draw", "drawn.svg", exit_code=2)["error"]
    night.infer("verify", "--image", "1", exit_code=2)
    assert "the source lists no such image" in night.errors


def test_the_file_of_now_is_predicted_by_the_variant_of_then_or_said_which_stood_in(night):
    def again(image_id, exit_code=0):
        replay = night.infer_json("verify", "--image", image_id, exit_code=exit_code)["replay"]
        return replay, replay["answers"][0]

    replay, answers = again("2")
    assert (replay["differences"], answers["variant"], answers["instead_of"]) == ([], "cpu-openvino-fp32", None)
    ((stored, now),) = answers["pairs"]
    assert (stored, stored.split()[0]) == (now, "green")
    night.infer("verify", "--image", "6", exit_code=2)  # it was rejected
    night.write("UPDATE infer_predictions SET variant = 'trt-fp16' WHERE picture = 1")
    replace_by_another(night)
    replay, answers = again("1", exit_code=1)
    assert (answers["instead_of"], answers["why"]) == ("trt-fp16", "the model here does not have it")
    assert (answers["variant"][:4], [text.split()[0] for text in answers["pairs"][0]]) == ("cpu-", ["red", "green"])
    assert [one["cause"] for one in replay["differences"]] == ["picture"]


def test_a_replay_without_the_model_is_told_and_ends_with_12(night):
    shutil.rmtree(night.folder / "models")
    assert "is not in" in night.infer("verify", "--image", "1", exit_code=12)


@pytest.mark.parametrize("hostile", ["'; DROP TABLE infer_images; --", "\x1b[31m%_\\\n" + "😀" * 300])
def test_a_hostile_id_is_no_image(night, hostile):
    assert "no image has the id" in explained(night, hostile, exit_code=2)["error"]
    assert "\x1b" not in night.errors
    night.infer("explain", "--image", os.fsdecode(b"\xff"), exit_code=2)
    assert "not text in UTF-8" in night.errors
    assert night.rows("SELECT count(*) FROM infer_images") == [(12,)]


def test_what_names_no_image_of_the_day_is_refused(night):
    assert explained(night, "0003.jpg", exit_code=2)["hint"].startswith("did you mean 4 (")
    assert explained(night, "1", "--date", DATE)["image_id"] == "1"
    other_day = explained(night, "1", "--date", "2026-11-01", exit_code=2)
    assert other_day["error"] == f"image 1 belongs to {DATE}, not to 2026-11-01"
    assert "no model 'nine'" in explained(night, "1", "--model", "nine", exit_code=2)["error"]


def test_an_id_that_two_images_share(night):
    night.own_table("77 AS id, location, added_at")
    assert "images have the id 77" in explained(night, "77", exit_code=2)["error"]


def test_names_are_shown_and_not_obeyed(night):
    night.write("UPDATE infer_predictions SET label = ? WHERE picture = 1", "\x1b[2J[bold]x\nrun  faked")
    shown = night.infer("explain", "--image", "1")
    assert "\x1b" not in shown
    assert "\nrun  faked" not in shown
    assert json.loads(night.infer("explain", "--image", "1", "--json"))["models"][0]["prediction"]["label"][0] == "\x1b"
