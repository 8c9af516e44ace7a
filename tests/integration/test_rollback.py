"""Going back to an earlier version of a model: every command and the view mean the one that last ran."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from infer_app.cli.look.explain import show_image
from infer_app.cli.look.status import show_status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FIRST = (  # as that of `built_models`
    *("model", "build", "colors.ts", "--name", "colors", "--labels", "labels.txt", "--no-tune"),
    *("--recipe", "stretch", "--size", "16", "--mean", "0,0,0", "--std", "1,1,1"),
)
SECOND = (*FIRST, "--interpolation", "bilinear")


@pytest.fixture
def rebuildable(project, built_models):
    """The project with a model of its own, and what that was built from."""
    project.use_models(built_models, copied=True)
    for name in ("colors.ts", "labels.txt"):
        (project.folder / name).write_bytes((built_models.parent / name).read_bytes())
    project.add_photos(3, f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}")
    return project


@pytest.fixture
def run(rebuildable, capsys):
    """run() is the version that ran, after a look at whether all agree that it is the current one."""
    ((day,),) = rebuildable.rows("SELECT DISTINCT date(added_at) FROM infer_images")
    config = rebuildable.folder / "infer.toml"

    def told(command, *arguments):
        capsys.readouterr()
        command(*arguments)
        return json.loads(capsys.readouterr().out)

    def run_day():
        command = ("run", "--date", day, "--lookback", "0", "--variant", "cpu-torchscript")
        model_id = rebuildable.infer_json(*command)["model_id"]
        assert rebuildable.rows("SELECT DISTINCT model_id FROM infer_current_predictions") == [(model_id,)]
        days = told(show_status, 3, True, config)["days"]
        assert [one["last_run"]["model_id"] for one in days] == [model_id]
        assert told(show_image, "1", None, None, False, True, config)["models"][0]["model_id"] == model_id
        return model_id

    return run_day


def test_where_a_later_version_is_removed_the_earlier_one_is_the_current_one(rebuildable, run, tmp_path):
    first = run()
    second = rebuildable.infer_json(*SECOND)["model_id"]
    assert run() == second != first
    (rebuildable.folder / "models" / "colors" / second).rename(tmp_path / "away")
    assert run() == first


def test_an_earlier_version_that_is_built_again_is_the_current_one(rebuildable, run):
    first = run()
    rebuildable.infer(*SECOND)
    assert run() != first
    told = rebuildable.infer(*FIRST)
    assert "left as it is" not in told
    assert "the next run of colors takes it" in told
    assert run() == first
