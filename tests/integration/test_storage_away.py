"""Nothing is called missing or deleted because a storage is away: what runs, `doctor` and `forget` do by night."""

import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.conftest import make_users_file
from tests.support.projects import REJECTED
from tests.support.watched import YESTERDAY, daily, put

pytestmark = pytest.mark.slow
ON_PURPOSE = ("forget", "--missing", "--yes", "--even-most")
COUNTS = "SELECT count(*), count(missing_since), (SELECT count(*) FROM infer_predictions) FROM infer_images"


@pytest.fixture
def project(project):
    """Two cameras with five photos each, which are predicted; the database keeps its rollback journal."""
    make_users_file(project.folder / "infer.db")
    project.upgrade()
    project.set("images", watch=["photos"], map={"/srv/photos": str(project.photos)})
    for number in range(10):
        put(project, f"cam{number % 2}/{number}.jpg", YESTERDAY - timedelta(days=number % 3))
    project.infer("run")
    return project


def leave(folder: Path, *names: str) -> None:
    """Let a folder be what a file system is mounted in, without it."""
    shutil.move(folder, f"{folder}-away")
    for name in ("", *names):
        (folder / name).mkdir(exist_ok=True) if name[-1:] in ("", "/") else (folder / name).touch()


def come_back(folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.move(f"{folder}-away", folder)


@pytest.mark.parametrize(
    ("watch", "away"), [(["photos"], "photos"), (["photos", "photos/cam1"], "photos/cam1"), (["x", "photos"], "photos")]
)
def test_a_watched_folder_that_shows_no_image_is_unavailable_whatever_else_lies_in_it(project, watch, away):
    project.set("images", watch=watch)
    if "x" in watch:
        put(project, "../x/new.jpg", YESTERDAY)
    folder, before = project.folder / away, project.results()
    for names in ((".not-mounted",), ("NOT_MOUNTED", "README.md", "lost+found/", "cam0/", "cam1/", "cam1/clip.mov")):
        leave(folder, *names)
        code, text = daily(project, YESTERDAY)
        told = f"{folder}: holds no image" in text, "`infer forget --missing --even-most`" in text
        assert (code, *told) == (14, True, True)
        assert project.infer_json("doctor", exit_code=14)["exit_code"] == 14
        project.infer(*ON_PURPOSE[:3])  # what was marked before is none
        assert (project.rows(COUNTS), project.results()) == ([(10, 0, 10)], before)
        come_back(folder)
    assert daily(project, YESTERDAY) == (0, "")
    leave(folder, ".not-mounted")
    assert "deleted" in project.infer(*ON_PURPOSE)  # they were deleted on purpose
    left = 5 if away.endswith("cam1") else 0
    assert project.rows(COUNTS) == [(left + watch.count("x"), 0, left + watch.count("x"))]
    assert daily(project, YESTERDAY) == (0, "")


def test_photos_of_forgotten_days_are_mailed_once_and_the_days_are_shown_as_forgotten(project):
    project.set("run", time_zone="Europe/Berlin")
    project.infer("forget", "--before", str(YESTERDAY), "--even-most", "--yes")
    put(project, "reset.jpg", date(2000, 1, 1))
    told = f"attention: 1 new image is of days before {YESTERDAY}, which were forgotten"
    assert told in daily(project, YESTERDAY)[1]
    assert daily(project, YESTERDAY) == (0, "")
    days = {row["date"]: row["forgotten"] for row in project.infer_json("status")["days"]}
    assert days == {day: day < str(YESTERDAY) for day in days}
    assert "forgotten" in project.infer("status")


@pytest.mark.parametrize("marker", [".not-mounted", "lost+found/"])
def test_a_new_photo_of_a_users_table_is_not_called_missing_while_no_other_is_there(make_project, marker):
    project = make_project("project")
    project.upgrade()
    project.set("source", table="shots", location="path", time="came", time_zone="UTC")
    project.set("images", roots=["photos", "other"])
    project.write("CREATE TABLE shots (id INTEGER PRIMARY KEY, path TEXT, came TEXT)")
    for number, day in ((1, YESTERDAY - timedelta(days=1)), (2, YESTERDAY)):
        for image_id, name in ((number, "cam1"), (number + 2, "../other")):
            photo = put(project, f"{name}/{number}.jpg", day)
            project.write("INSERT INTO shots VALUES (?, ?, ?)", image_id, os.path.normpath(photo), day.isoformat())
        if number == 2:
            leave(project.photos, marker)
        assert daily(project, YESTERDAY)[0] == (14 if number == 2 else 0)
    assert {row[0] for row in project.results()} >= {"1", "3"}
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]
    come_back(project.photos)
    assert daily(project, YESTERDAY) == (0, "")
    assert [row[0] for row in project.results()] == ["1", "2", "3", "4"]
    project.write("INSERT INTO shots VALUES (5, ?, ?)", str(project.photos / "cam1/5.jpg"), YESTERDAY.isoformat())
    assert daily(project, YESTERDAY) == (0, "")  # beside photos that are there it is no fault of the storage
    assert project.rows(f"SELECT image_id, reason FROM {REJECTED}") == [("5", "not_found")]
