"""Photos of a watched folder that are replaced, missing or away."""

import json
import os
from pathlib import Path

import pytest

from tests.support.projects import build_model
from tests.support.waiting import wait_until
from tests.support.watched import OLD, YESTERDAY, changed, daily, put, replace_photo

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("watching")]


def test_a_replaced_file_is_mailed_once_and_told_until_it_is_predicted_again(project):
    """Also if the run that has noticed it is killed."""
    day = YESTERDAY
    files = [put(project, f"{name}.jpg", day) for name in "abc"]
    assert daily(project, day) == (0, "")
    for file in files[:2]:
        replace_photo(file, (30, 30, 200))
    os.utime(files[2], (1.5e9, 1.5e9))  # a touch is no replacement
    with project.start("run") as run:
        wait_until(lambda: project.rows("SELECT count(*) FROM infer_images WHERE sha256 IS NOT NULL") == [(3,)])
        run.kill()
    told = "attention: 2 images were replaced since they were predicted: `infer list --state changed` lists them"
    code, text = daily(project, day)
    assert (code, told in text) == (0, True)
    assert daily(project, day) == (0, "")  # mailed once
    assert told in project.infer("run")
    assert told in project.infer("status")
    assert changed(project) == [("a.jpg", "changed"), ("b.jpg", "changed")]
    (report,) = project.infer_json("report")["reports"]
    page = json.loads(Path(report["data"]).read_text())
    assert [one["image_id"] for one in page["some_changed"]] == ["1", "2"]
    assert "Replaced or missing" in Path(report["file"]).read_text()
    assert "2 results of 2 images removed; `infer run` predicts again" in project.infer("retry", "--replaced")
    assert changed(project) == []
    assert project.infer_json("run")["predicted"] == 2
    assert project.rows("SELECT label FROM infer_predictions ORDER BY picture") == [("blue",), ("blue",), ("red",)]
    assert [line[:31] for line in daily(project, day)[1].splitlines()[1:]] == ["attention: over: 2 images were "]
    assert daily(project, day) == (0, "")
    assert changed(project) == []


def test_a_broken_photo_of_weeks_ago_is_said_to_be_taken_once_it_is_corrected_and_is(project):
    file, _ = put(project, "a.jpg", OLD), put(project, "b.jpg", OLD)
    file.write_bytes(file.read_bytes()[:300])
    os.utime(file, (1.5e9, 1.5e9))
    project.infer("run")

    def explained():
        return project.infer_json("explain", "--image", "1")["models"][0]["missing"]

    (listed,) = project.list_images("rejected")
    for cause in (listed, explained()):
        assert "a corrected file is taken by the next run" in cause["message"]
        assert cause["command"] == "infer run"
    replace_photo(file, (30, 30, 200))
    assert explained()["message"].endswith("and the file has changed since; the next run takes it")
    assert project.infer_json("run")["late"][0]["predicted"] == 1


def test_a_result_of_the_file_as_it_is_now_stays_when_that_of_another_model_is_of_the_former(project, built_models):
    file = put(project, "a.jpg", YESTERDAY)
    project.infer("run")
    replace_photo(file, (30, 30, 200))
    build_model(project.folder, str(built_models.parent / "colors.ts"), "second", "--size", "16")
    assert project.infer_json("run", "--model", "second")["predicted"] == 1
    assert "1 result of 1 image removed" in project.infer("retry", "--replaced")
    assert project.rows("SELECT m.name, label FROM infer_predictions r JOIN infer_models m ON m.id = model_id") == [
        ("second", "blue")
    ]


def test_a_run_whose_time_is_over_reads_no_more_files(project):
    """As after `cp -r`, which gives all files other times."""
    file = put(project, "a.jpg", YESTERDAY)
    project.infer("run")
    os.utime(file, (1.5e9, 1.5e9))
    error = project.infer_json("run", "--max-duration", "0", exit_code=75)
    assert "what was registered stays, the next run goes on" in error["hint"]
    assert project.rows("SELECT count(sha256) FROM infer_images") == [(0,)]
    assert project.infer_json("run")["registered"]["num_changed"] == 1


def test_a_photo_that_was_added_by_hand_and_changed_twice_is_not_replaced_for_ever(project):
    """No run walks over it."""
    file = put(project, "../by hand/a.jpg", YESTERDAY)
    add = ("images", "add", str(file.parent), "--date", "yesterday")
    project.infer(*add)
    project.infer("run")
    replace_photo(file, (30, 30, 200))
    project.infer(*add)
    replace_photo(file, (30, 200, 30))
    assert changed(project) == [("a.jpg", "changed")]
    assert project.infer_json("retry", "--replaced")["retried"] == 1
    assert project.infer_json("run")["predicted"] == 1
    assert changed(project) == []


def test_a_photo_is_missing_while_its_file_is_gone(project):
    files = [put(project, f"{name}.jpg", YESTERDAY) for name in "abc"]
    project.infer("run")
    kept = files[0].rename(project.folder / "kept.jpg")
    assert project.infer_json("run")["registered"]["num_missing"] == 1
    assert changed(project) == [("a.jpg", "missing")]
    assert "attention: 1 of 3 images registered in" in project.infer("status")
    away = project.photos.rename(project.folder / "unmounted")
    project.photos.mkdir()
    assert project.infer_json("run", exit_code=14)
    project.photos.rmdir()
    away.rename(project.photos)
    assert changed(project) == [("a.jpg", "missing")]
    kept.rename(files[0])
    assert project.infer_json("run")["registered"]["num_missing"] == 0
    assert changed(project) == []
    files[0].unlink()
    assert "1 of 3 images registered in" in project.infer("run", "--quiet")
    assert project.infer("run", "--quiet") == ""
