"""Several models in one night, through the real command: each has its own results, images are decoded once."""

import json
import os
import shutil
import signal
import time

import pytest

from infer_app.base.machine import process_identity
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, build_model
from tests.support.suspended import suspend


@pytest.fixture(scope="module")
def models(tmp_path_factory, built_models):
    """`colors`, `dark` of the same recipe, and `large` of another."""
    folder = tmp_path_factory.mktemp("two-models")
    shutil.copytree(built_models, folder / "models")
    save(ChannelMeans(), folder / "any.ts")
    for name, size, mean in (("dark", "16", "0.5,0.5,0.5"), ("large", "24", "0,0,0")):
        build_model(folder, "any.ts", name, "--recipe", "stretch", "--size", size, "--set", f"mean={mean}")
    return folder / "models"


def with_day(project, models):
    """A day of thirty for each of `models`, the sixth no picture."""
    project.use_models(models)
    project.add_photos(30)
    (project.photos / "0005.jpg").write_bytes(b"no picture")
    return project


@pytest.fixture
def project(project, models):
    return with_day(project, models)


def run(project, *names, exit_code=0, more=()):
    flags = [word for name in names for word in ("--model", name)]
    return project.infer_json("run", "--date", DATE, *flags, *more, exit_code=exit_code)


def test_jobs_of_one_model_each_mail_the_same_once(project):
    jobs = [project.infer("run", "--quiet", "--model", model) for model in ("colors", "dark") * 2]
    assert [mail.count("attention: 30 images") for mail in jobs] == [1, 0, 0, 0]


def results_of(project, model):
    ((model_id,),) = project.rows(f"SELECT id FROM infer_models WHERE name = '{model}'")
    return [row for row in project.results() if row[1] == model_id]


@pytest.mark.parametrize(("names", "is_shared"), [(("colors", "dark"), True), (("colors", "large"), False)])
def test_images_are_decoded_once_for_models_of_one_recipe_and_again_for_another(project, names, is_shared):
    first, second = (report["stages"] for report in run(project, *names)["models"])
    assert (first == second) == is_shared  # what they cost was measured once
    assert [len(results_of(project, name)) for name in names] == [30, 30]


def test_two_models_get_what_each_would_get_alone(project, make_project, models):
    alone = with_day(make_project("alone"), models)
    for name in ("colors", "dark"):
        run(alone, name)
    report = run(project, "colors", "dark")
    day = {"eligible": 30, "predicted": 29, "rejected": 1, "pending": 0}
    assert [(one["model"], one["day"], one["exit_code"]) for one in report["models"]] == [
        ("colors", day, 0),
        ("dark", day, 0),
    ]
    assert report["model"] == "colors"
    for name in ("colors", "dark"):
        assert results_of(project, name) == results_of(alone, name) != []


def test_a_model_that_is_done_already_is_not_run_again(project):
    run(project, "colors", more=("--limit", "12"))
    rows = "SELECT picture, model_id, created_at FROM infer_predictions"
    before = project.rows(rows)
    assert [one["selected"] for one in run(project, "colors", "dark")["models"]] == [18, 30]
    assert set(before) < set(project.rows(rows))
    assert [len(results_of(project, name)) for name in ("colors", "dark")] == [30, 30]
    assert [one["selected"] for one in run(project, "colors", "dark")["models"]] == [0, 0]


def test_models_may_stand_in_the_settings(project):
    project.set("run", models=["colors", "dark"])
    assert [one["model"] for one in run(project)["models"]] == ["colors", "dark"]
    assert "models" not in run(project, "large")


@pytest.mark.parametrize(
    ("names", "broken"),
    [("colors large", "large"), ("large colors", "large"), ("dark colors large", "dark"), ("large dark", "dark")],
)
def test_a_model_that_can_not_run_does_not_stop_the_others(project, models, names, broken):
    """Whether it takes the pixels of the others or not, and whatever the order."""
    break_golden(project, models, broken)
    report = run(project, *names.split(), exit_code=12)
    exit_codes = {one["model"]: one["exit_code"] for one in report["models"]}
    assert exit_codes == {name: 12 if name == broken else 0 for name in names.split()}
    assert report["predicted"] == 29
    assert f"{broken} was not run: " in project.errors
    assert all(len(results_of(project, name)) == 30 for name in names.split() if name != broken)
    assert "changed since it was built" in run(project, broken, exit_code=12)["error"]


def break_golden(project, models, name):
    """So that this model can't run, in a copy of `models`."""
    project.use_models(models)
    (outputs,) = (project.folder / "models" / name).glob("*/golden/outputs.npy")
    outputs.write_bytes(outputs.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("lose", "error"),
    [
        (shutil.rmtree, "large was not run: large@"),
        (lambda folder: next(folder.glob("*/manifest.json")).write_text("{"), "large was not run: "),
    ],
    ids=["gone", "damaged"],
)
def test_a_model_in_use_whose_files_are_lost_is_missed_until_its_use_is_ended(project, models, lose, error):
    project.use_models(models)
    run(project, more=("--limit", "12"))
    lose(project.folder / "models" / "large")
    run(project, exit_code=12, more=("--dry-run",))
    assert "large would not run: " in project.errors
    report = run(project, exit_code=12)
    assert {one["model"]: one["exit_code"] for one in report["models"]} == {"colors": 0, "dark": 0, "large": 12}
    assert error in project.errors
    assert [len(results_of(project, name)) for name in ("colors", "dark", "large")] == [30, 30, 12]
    project.infer("model", "remove", "large", exit_code=2)
    assert project.infer_json("model", "remove", "--force", "large")["predictions"] == 11
    assert [one["model"] for one in run(project)["models"]] == ["colors", "dark"]


def test_a_model_named_twice_is_a_mistake(project):
    assert "named twice" in run(project, "colors", "colors", exit_code=2)["error"]


def test_two_runs_that_wait_for_the_same_models_in_another_order_both_end(project):
    """The second comes while the first waits for its second model: neither may wait for the other for ever."""
    run(project, "colors", "dark")
    project.write("DELETE FROM infer_predictions")
    held = f"UPDATE infer_runs SET state = ?, process = '{process_identity(os.getpid())}' WHERE model = ?"
    for name in ("colors", "dark"):
        project.write(held, "running", name)
    flags = ("run", "--date", DATE, "--lookback", "0", "--wait", "--json")
    first, second = (
        project.start(*flags, "--model", one, "--model", other)
        for one, other in (("colors", "dark"), ("dark", "colors"))
    )
    try:
        for name in ("colors", "dark"):
            time.sleep(4)  # both wait, the first one for its second model
            suspend(first, project.folder / "infer.db")
            project.write(held, "done", name)
            time.sleep(3)
            os.killpg(first.pid, signal.SIGCONT)
        ended = [(*one.communicate(timeout=60), one.returncode) for one in (first, second)]
    finally:
        first.kill()
        second.kill()
    assert [code for *_, code in ended] == [0, 0], ended
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(2 * 29,)]


def test_two_names_of_one_model_do_not_wait_for_each_other(project, models):
    """Predictions are kept by the model's id: by the second name they are there already."""
    project.use_models(models)
    folder = project.folder / "models"
    shutil.copytree(folder / "colors", folder / "same")
    (manifest,) = (folder / "same").glob("*/manifest.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"name": "same"}))
    told = run(project, "colors", "same", more=("--wait", "--max-duration", "90"))
    assert [(one["model"], one["predicted"], one["day"]["pending"]) for one in told["models"]] == [
        ("colors", 29, 0),
        ("same", 0, 0),
    ]
    assert project.rows("SELECT model, count(*) FROM infer_current_predictions GROUP BY model ORDER BY model") == [
        ("colors", 29),
        ("same", 29),
    ]
