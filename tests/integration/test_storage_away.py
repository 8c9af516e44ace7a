"""Nothing is called missing or deleted because a storage is away: what runs, `doctor` and `forget` do by night."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from infer_app.cli.project.project import init
from tests.integration.test_watch import YESTERDAY, daily, put
from tests.support.projects import Project

pytestmark = pytest.mark.slow
ON_PURPOSE = ("forget", "--missing", "--yes", "--even-most")
COUNTS = "SELECT count(*), count(missing_since), (SELECT count(*) FROM infer_predictions) FROM infer_images"


@pytest.fixture
def project(tmp_path, built_models):
    """Two cameras with five photos each, which are predicted."""
    project = Project(tmp_path / "project")
    init(project.folder)
    project.use_models(built_models)
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
