"""Nothing is called missing or deleted because a storage is away: what runs, `doctor` and `forget` do by night."""

import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.conftest import make_users_file
from tests.support.projects import REJECTED, Project
from tests.support.watched import YESTERDAY, daily, put, replace_photo

pytestmark = pytest.mark.slow
ON_PURPOSE = ("forget", "--missing", "--yes", "--even-most")
COUNTS = "SELECT count(*), count(missing_since), (SELECT count(*) FROM infer_predictions) FROM infer_images"


@pytest.fixture
def project(project):
    """Two cameras with five photos each, which are predicted; the database keeps its rollback journal."""
    make_users_file(project.folder / "infer.db")
    project.upgrade()
    project.set("images", watch=["photos"])
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


def copy_rows(project: Project, table: str, **changed: str) -> None:
    """Repeat all rows of a table with other values, each an SQL expression."""
    values = ", ".join(f"{name} = {value}" for name, value in changed.items())
    project.write(f"CREATE TABLE copied AS SELECT * FROM {table}")
    project.write(f"UPDATE copied SET {values}")
    project.write(f"INSERT OR IGNORE INTO {table} SELECT * FROM copied")
    project.write("DROP TABLE copied")


OF_OTHERS = (
    "SELECT picture, sha256 FROM infer_predictions WHERE run_id = 'b'"
    " UNION ALL SELECT picture, reason FROM infer_rejections WHERE run_id = 'b'"
)


def test_pictures_of_a_table_are_left_by_every_walk_and_by_deletions_of_registered_ones(project):
    """The project has listed a table before, whose ids are those of photos too."""
    other = {"model_id": f"'{'d' * 16}'", "run_id": "'b'", "picture": "picture + 100"}
    copy_rows(project, "infer_models", id=other["model_id"], name="'defects'")
    copy_rows(project, "infer_runs", id="'b'", model="'defects'", model_id=other["model_id"])
    copy_rows(project, "infer_pictures", id="id + 100", registered="0", location="'/scans/' || id", key="id")
    copy_rows(project, "infer_predictions", **other, sha256="'another'")
    columns = "picture, model_id, run_id, reason, detail, stage, attempts, decoder, created_at"
    values = "picture, model_id, run_id, 'corrupt', '', 'decode', 1, '', created_at"
    taken = "infer_predictions WHERE picture = 103"
    project.write(f"INSERT INTO infer_rejections ({columns}) SELECT {values} FROM {taken}")
    project.write(f"DELETE FROM {taken}")
    before = project.rows(OF_OTHERS)
    paths = dict(project.rows("SELECT id, location FROM infer_images"))
    Path(paths[2]).unlink()
    replace_photo(Path(paths[3]), (30, 30, 200))
    os.utime(paths[4], (1.5e9, 1.5e9))  # which its own prediction is of
    code, told = daily(project, YESTERDAY)
    assert (code, "1 image was replaced" in told) == (0, True)
    assert project.infer_json("status")["replaced"] == 1
    assert "deleted 1 prediction, 0 rejections and 1 registered image" in project.infer(*ON_PURPOSE[:3])
    assert project.infer_json("retry", "--replaced")["images"] == ["3"]
    assert (project.rows(OF_OTHERS), project.rows("PRAGMA journal_mode")) == (before, [("delete",)])


def test_copies_of_registered_photos_are_new_ones_while_the_others_stay_where_they_were(project):
    project.set("images", watch=["few"])
    (project.folder / "few/cam0").mkdir(parents=True)
    for number in range(2, 10):
        name = f"cam{number % 2}/{number}.jpg"
        (project.folder / "few" / name).parent.mkdir(exist_ok=True)
        shutil.copy2(project.photos / name, project.folder / "few" / name)
    before = project.results()
    assert daily(project, YESTERDAY) == (0, "")
    assert project.rows(COUNTS) == [(18, 0, 18)]
    assert all(Path(location).exists() for (location,) in project.rows("SELECT location FROM infer_images"))
    assert [row for row in project.results() if int(row[0]) <= 10] == before


def test_photos_that_went_missing_are_mailed_once_and_most_of_a_folder_is_not_forgotten(project):
    (project.photos / "cam0/0.jpg").unlink()
    told = f"attention: 1 of 5 images registered in {project.photos}/cam0 is missing since the last run"
    assert told in daily(project, YESTERDAY)[1]
    (project.photos / "cam1").rename(project.photos / "river")
    told = f"attention: 5 of 5 images registered in {project.photos}/cam1 are missing since the last run"
    text = daily(project, YESTERDAY)[1]
    assert (told in text, "was a folder renamed" in text) == (True, True)
    assert daily(project, YESTERDAY) == (0, "")
    before = project.results()
    leave(project.photos)
    put(project, "stale.jpg", YESTERDAY)
    told = f"attention: 9 of 16 images registered in {project.photos} are missing since the last run"
    assert told in daily(project, YESTERDAY)[1]
    assert daily(project, YESTERDAY) == (0, "")
    project.infer(*ON_PURPOSE[:3], exit_code=2)
    assert "nothing was deleted: it is most of what there is, 15 of 16 results" in project.errors
    assert set(before) <= set(project.results())
    come_back(project.photos)
    assert daily(project, YESTERDAY)[0] == 0
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
