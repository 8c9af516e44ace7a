"""What was stored before is kept: tests/releases has a database and a model of each former layout of the tables."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from infer_app.tables.results.schema import VERSION_TABLE
from tests.support.former_database import VIEWS, answers
from tests.support.projects import Project

pytestmark = pytest.mark.slow
RELEASES = Path(__file__).parents[1] / "releases"
NEXT_DAY = "2026-11-21"


@pytest.fixture(params=[folder.name for folder in RELEASES.iterdir()])
def project(tmp_path, request):
    """A project with a release's database, in which each table has rows, and its model `colors`."""
    project = Project(tmp_path / "project")
    with closing(sqlite3.connect(project.folder / "infer.db")) as database:
        database.executescript((RELEASES / request.param / "infer.sql").read_text())
    shutil.copytree(RELEASES / request.param / "models", project.folder / "models")
    return project


@pytest.fixture
def url(project):
    return f"sqlite:///{project.folder / 'infer.db'}"


@pytest.mark.always
def test_a_released_database_answers_as_it_did_and_a_released_model_keeps_its_id(project, url):
    before = answers(url)
    assert all(rows for name, rows in before.items() if name not in VIEWS)
    project.infer("db", "upgrade")
    assert answers(url) == before
    project.infer("verify", "--date", "2026-11-20", "--model", "colors")
    (model_id,) = (path.name for path in (project.folder / "models/colors").iterdir())
    project.infer("model", "verify", "colors")
    project.add_photos(3, date=NEXT_DAY)
    assert project.infer_json("run", "--date", NEXT_DAY, "--model", "colors")["predicted"] == 3
    shown = project.rows(
        "SELECT model_id, label FROM infer_current_predictions WHERE model = 'colors' ORDER BY image_id"
    )
    assert shown[-3:] == [(model_id, "red"), (model_id, "green"), (model_id, "blue")]


@pytest.mark.parametrize("version", ["0008", "9.0.0"])
def test_a_database_of_another_version_is_left_as_it_is(project, url, version):
    project.write(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")
    before = answers(url)
    for command in ("db upgrade", f"run --date {NEXT_DAY}", "status"):
        project.infer(*command.split(), exit_code=11)
        assert "upgrade infer_app" in project.errors
    assert answers(url) == before
