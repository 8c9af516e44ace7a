"""`infer list`, `infer explain` and `infer retry --image` through the real command: each printed command is run."""

import os
import re
import shlex
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.projects import DATE


def day(ago):
    return (datetime.now(UTC) - timedelta(days=ago)).date()


LIST_REJECTED = ("list", "--state", "rejected")


def register(project, name, ago, color_of="0000.jpg"):
    """Copy a photo and register it for a day that lies so many days back."""
    shutil.copy(project.photos / color_of, project.photos / name)
    project.add(f"photos/{name}", date=str(day(ago)))


def missing(project, image_id, *flags):
    (model,) = project.infer_json("explain", "--image", image_id, *flags)["models"]
    return model["missing"]


def run_printed(project, command):
    return project.infer(*shlex.split(command.removeprefix("infer ")))


@pytest.fixture
def three_days(project):
    """Image 1 is of yesterday, 2 of ten days ago, 3 of the day after tomorrow."""
    project.add_photos(1, date=str(day(1)))
    register(project, "old.jpg", 10)
    register(project, "new.jpg", -2)
    return project


def test_every_pending_image_is_predicted_by_the_command_that_is_printed(three_days):
    project = three_days
    listed = project.list_images("pending")
    whys = {"1": "covered", "3": "in_future", "2": "not_covered"}
    assert [(row["image_id"], row["date"]) for row in listed] == [
        ("1", str(day(1))),
        ("3", str(day(-2))),
        ("2", str(day(10))),
    ]
    assert {row["image_id"]: row["cause"] for row in listed} == whys
    assert project.infer("list", "--csv").count("\n") == 4
    commands = re.findall("`(infer [^`]+)`", project.infer("list"))
    assert commands[::2] == ["infer run", f"infer backfill --from {day(10)} --to {day(10)}"]
    for (image_id, why), command in zip(whys.items(), commands, strict=True):
        cause = missing(project, image_id)
        assert (cause["why"], cause["command"]) == (why, command)
        run_printed(project, command)
        assert missing(project, image_id) is None
    assert "no image of any day is pending" in project.infer("list")


def test_rejected_images_are_listed_by_reason_and_those_to_be_tried_again_are_pending_too(project):
    project.add_photos(1, date=str(day(1)))
    for name in ("broken.jpg", "gone.jpg"):
        register(project, name, 1)
    (project.photos / "broken.jpg").write_bytes(b"no picture")
    (project.photos / "gone.jpg").unlink()
    project.infer("run")
    (image,) = project.list_images("pending")
    assert (image["cause"], image["state"], image["command"]) == ("not_found", "rejected", "infer run")
    rejected = project.list_images("rejected")
    assert [(one["image_id"], one["cause"]) for one in rejected] == [("2", "unsupported_format"), ("3", "not_found")]
    assert rejected[0]["message"].endswith("; a corrected file is taken by the next run")
    assert "repair or replace the file, if that is the cause, then `infer run`" in project.infer(*LIST_REJECTED)
    retry = ("retry", "--date", str(day(1)), "--reason", "unsupported_format")
    assert "1 rejection removed" in project.infer(*retry)
    assert [one["image_id"] for one in project.list_images("pending")] == ["2", "3"]


def test_a_run_names_the_days_of_what_it_rejected_and_of_what_it_does_not_reach(project):
    project.add_photos(1, date=str(day(1)))
    for name, ago in (("broken.jpg", 3), ("old.jpg", 20), ("older.jpg", 30)):
        register(project, name, ago)
    (project.photos / "broken.jpg").write_bytes(b"no picture")
    said = project.infer("run", "--max-rejected", "0", exit_code=3)
    assert "rejected: 1 unsupported_format" in said
    backfill, rejects = re.findall("`(infer [^`]+)`", said)
    assert rejects == f"infer list --state rejected --date {day(3)}"
    assert f"{day(3)}, colors@" in run_printed(project, rejects)
    assert backfill == f"infer backfill --from {day(30)} --to {day(20)}"
    run_printed(project, backfill)
    assert project.list_images("pending") == []


def test_a_rejection_and_the_retry_that_lifts_it(project):
    project.add_photos(1, date=str(day(9)))
    photo = (project.photos / "0000.jpg").read_bytes()
    (project.photos / "0000.jpg").write_bytes(b"no picture")
    backfill = ("backfill", "--from", str(day(9)), "--to", str(day(9)), "--max-rejected", "100%")
    project.infer(*backfill)
    cause = missing(project, "1")
    assert (cause["why"], cause["command"]) == ("rejected", "infer retry --image 1")
    assert "1 result of 1 image removed; `infer backfill --from " in run_printed(project, cause["command"])
    project.infer(*backfill)
    (project.photos / "0000.jpg").write_bytes(photo)  # runs notice that by themselves
    cause = missing(project, "1")
    assert cause["why"] == "retried"
    run_printed(project, cause["command"])
    assert missing(project, "1") is None


def test_whether_a_repaired_file_is_tried_again_is_what_explain_says(project):
    """After three attempts too: by its time or size, and where the file could not be opened, by each run."""
    project.add_photos(3, date=str(day(1)))
    project.own_table()
    good, (failed, refused) = (project.photos / "0002.jpg").read_bytes(), (project.photos / f"000{n}.jpg" for n in "01")
    for photo in (failed, refused):
        photo.write_bytes(b"no picture")
    project.infer("run")
    refused.write_bytes(good)
    facts = refused.stat()
    of_image = "WHERE picture = (SELECT max(id) FROM infer_pictures WHERE image_id = ?)"
    project.write(f"UPDATE infer_rejections SET reason = 'read_error', attempts = 3 {of_image}", "1")
    stored = "reason = 'permission_denied', attempts = 9, sha256 = NULL, size = ?, modified = ?"
    project.write(f"UPDATE infer_rejections SET {stored} {of_image}", facts.st_size, facts.st_mtime, "2")
    before = failed.stat()
    failed.write_bytes(b"No picture")
    os.utime(failed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [missing(project, image_id)["why"] for image_id in "12"] == ["rejected", "retried"]
    assert [one["image_id"] for one in project.list_images("pending")] == ["2"]
    assert project.infer_json("run")["predicted"] == 1
    failed.write_bytes(good)
    assert missing(project, "1")["why"] == "retried"
    assert project.infer_json("run")["predicted"] == 1


def test_replaced_photos_of_a_table_of_ones_own_are_found_by_looking_at_a_day(project):
    project.add_photos(5, date=str(day(9)))
    project.own_table("id, CAST(location AS BLOB) AS location, added_at")  # paths may be bytes
    dates = ("--from", str(day(9)), "--to", str(day(9)))
    project.infer("backfill", *dates)
    listed = project.infer("list", "--state", "predicted", "--date", str(day(9)), COLUMNS="300")
    assert str(project.photos / "0000.jpg") in listed
    shutil.copy(project.photos / "0001.jpg", project.photos / "0000.jpg")
    (project.photos / "0002.jpg").touch()
    (project.photos / "0003.jpg").unlink()
    found = project.list_images("changed", str(day(9))) + project.list_images("missing", str(day(9)))
    assert [(one["image_id"], one["state"]) for one in found] == [("1", "changed"), ("4", "missing")]
    assert found[0]["command"] == f"infer retry --replaced --date {day(9)}"
    assert "--date" in project.infer_json("list", "--state", "changed", exit_code=2)["hint"]
    retried = project.infer_json("retry", "--replaced", "--date", str(day(9)))
    assert retried == {
        "images": ["1"],
        "retried": 1,
        "commands": [f"infer backfill {' '.join(dates)}"],
        "second_networks": [],
    }
    project.infer("backfill", *dates)
    assert project.rows("SELECT label FROM infer_current_predictions WHERE image_id = '1'") == [("green",)]
    project.photos.rename(project.folder / "unmounted")
    assert project.infer_json("list", "--state", "missing", "--date", str(day(9)), exit_code=14)


def test_nothing_is_deleted_for_an_image_that_no_run_would_predict(project):
    project.add_photos(2, date=str(day(1)))
    project.infer("run")
    assert "no image has the id '9'" in project.infer_json("retry", "-i", "1", "-i", "9", exit_code=2)["error"]
    flags = ("--image", "1", "--reason", "corrupt")
    assert "exclude each other" in project.infer_json("retry", *flags, exit_code=2)["error"]
    wrong_day = project.infer_json("retry", "--image", "1", "--date", str(day(5)), exit_code=2)
    assert f"belongs to {day(1)}, not to {day(5)}" in wrong_day["error"]
    assert "no model 'nine'" in project.infer_json("retry", "--image", "1", "--model", "nine", exit_code=12)["error"]
    shutil.rmtree(project.folder / "models")
    assert "no model" in project.infer_json("retry", "--image", "1", exit_code=12)["error"]
    assert len(project.results()) == 2


def test_an_image_without_a_time(project):
    project.add_photos(2, date=str(day(1)))
    project.own_table("id, location, CASE id WHEN 1 THEN added_at END AS added_at")
    assert missing(project, "2")["why"] == "no_time"
    assert "has no time" in project.infer_json("retry", "--image", "2", exit_code=2)["error"]
    other_day = project.infer_json("explain", "--image", "2", "--date", str(day(1)), exit_code=2)
    assert other_day["error"] == f"image 2 has no time, so it does not belong to {day(1)}"
    assert "1 image without a time, which no run covers: give each a time in " in project.infer("list")


def test_rows_without_an_id_of_their_own_are_images_by_their_locations(project):
    project.add_photos(5, date=str(day(1)))
    project.own_table("nullif(max(id, 2), 5) AS id, location, added_at")
    project.write("INSERT INTO shots SELECT * FROM shots WHERE id = 3")  # the same picture again
    rehearsed = project.infer_json("run", "--dry-run")
    report = project.infer_json("run")
    assert (rehearsed["predicted"], report["predicted"], project.infer_json("run")["predicted"]) == (5, 5, 0)
    assert report["day"] == {"eligible": 5, "predicted": 5, "rejected": 0, "pending": 0}
    without_id = str(project.photos / "0004.jpg")
    found = project.rows("SELECT image_id, location, label FROM infer_current_predictions ORDER BY location")
    assert [image_id for image_id, *_ in found] == ["2", "2", "3", "4", without_id]
    assert [(location[-8:], label) for _, location, label in found] == [
        ("0000.jpg", "red"), ("0001.jpg", "green"), ("0002.jpg", "blue"), ("0003.jpg", "red"), ("0004.jpg", "green")
    ]  # fmt: skip
    assert project.infer_json("verify", "--date", str(day(1)))["balanced"]
    assert missing(project, without_id) is None


def test_a_file_that_is_not_registered(project):
    project.add_photos(1, date=str(day(1)))
    shutil.copy(project.photos / "0000.jpg", project.photos / "my new.jpg")
    hint = project.infer_json("explain", "--image", "photos/my new.jpg", exit_code=2)["hint"]
    run_printed(project, re.findall("`(infer [^`]+)`", hint)[0])
    hint = project.infer_json("explain", "--image", "my new.jpg", exit_code=2)["hint"]
    assert hint.startswith("did you mean 2 (")
    assert "no such file here" in project.infer_json("explain", "--image", "nothing.jpg", exit_code=2)["hint"]


@pytest.mark.parametrize(("time", "day"), [("2025-10-32 10:00", "2025-10-31"), ("2025-13-01 10:00", "2025-12-31")])
def test_a_text_that_no_calendar_has_is_of_the_day_that_it_is_compared_into(project, time, day):
    project.add_photos(2)
    project.own_table("id, location, ? AS added_at", f"{DATE} 10:00")
    project.write("UPDATE shots SET added_at = ? WHERE id = 1", time)
    command = f"infer backfill --from {day} --to {day}"
    assert f"`{command}" in project.run_day()["notices"][0]["text"]
    assert command in project.infer("list")
    assert command in project.infer("explain", "--image", "1")
    assert project.infer_json(*command.split()[1:])["predicted"] == 1
