"""A folder among the models that can't be opened as one."""

import json

import pytest

from tests.support.projects import DATE

pytestmark = pytest.mark.slow


@pytest.fixture
def damaged(project):
    """A project with a model `colors`, and the path of a manifest beside it that was cut off."""
    folder = project.folder / "models" / "old" / "0123456789abcdef"
    folder.mkdir(parents=True)
    manifest = folder / "manifest.json"
    manifest.write_text('{"name": "old", ')
    return project, manifest


def test_a_damaged_model_does_not_stop_the_others(damaged):
    project, manifest = damaged
    project.add_photos(2)
    assert project.infer_json("run", "--date", DATE)["predicted"] == 2
    assert f"left out: {manifest}: not JSON" in project.errors
    assert project.infer_json("verify", "--image", "1")["replay"]["differences"] == []
    listed = project.infer_json("model", "list")
    assert [model["name"] for model in listed["models"]] == ["colors"]
    assert [error.partition(": not JSON")[0] for error in listed["damaged"]] == [str(manifest)]


def test_a_damaged_model_is_still_an_error_where_it_is_meant(damaged):
    project, manifest = damaged
    project.add_photos(1)
    for command in (["run", "--date", DATE, "--model", "old"], ["model", "verify"], ["model", "show", "old"]):
        project.infer(*command, exit_code=12)
        assert f"{manifest}: not JSON" in project.errors
    project.infer("run", "--date", DATE, "--quiet", "--model", "colors")
    own = next((project.folder / "models" / "colors").iterdir()) / "manifest.json"
    own.write_text(json.dumps({}))
    (difference,) = project.infer_json("verify", "--image", "1", exit_code=1)["replay"]["differences"]
    assert (difference["cause"], difference["detail"].startswith(f"{own}: missing ")) == ("network", True)
    error = project.infer_json("run", "--date", DATE, exit_code=12)["error"]
    assert str(own) in error or str(manifest) in error
