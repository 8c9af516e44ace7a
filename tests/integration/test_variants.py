"""The forms of a model, through the real command: made, chosen, kept to, and missed."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from infer_app.artifact.models_folder import find_artifact
from infer_app.base.machine import computes_bf16, has_vnni
from infer_app.cli.model.build import WITHOUT_VNNI
from tests.conftest import need
from tests.support.judged import let_runs_take_all
from tests.support.networks import ChannelMeans, save, save_photos
from tests.support.projects import DATE, PLAIN, Project, found_first

pytestmark = pytest.mark.slow
TORCHSCRIPT, FP32, INT8 = "cpu-torchscript", "cpu-openvino-fp32", "cpu-openvino-int8"
HALF = ["cpu-openvino-bf16"] if computes_bf16() else []  # by the machine that runs the tests
BUILD = ("--name", "colors", "--labels", "labels.txt", *PLAIN)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Project:
    """A day of twelve images, and `colors` with int8."""
    need("nncf")
    project = Project(tmp_path_factory.mktemp("workshop") / "project")
    save(ChannelMeans(), project.folder / "colors.ts")
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    save_photos(project.folder / "alike", 24)
    calibrate = ("--calibrate", "alike", "--min-agreement", "50%")
    project.built = project.infer_json("model", "build", "colors.ts", *BUILD, *calibrate)
    project.add_photos(12)
    let_runs_take_all(project.folder / "models")
    return project


@pytest.fixture
def project(tmp_path, workshop) -> Project:
    """A copy to work on, over the same photos."""
    project = Project(tmp_path / "project")
    skip = shutil.ignore_patterns("photos")
    shutil.copytree(workshop.folder, project.folder, ignore=skip, dirs_exist_ok=True)
    return project


@pytest.fixture
def broken_openvino(tmp_path) -> dict[str, str]:
    code = "raise ImportError('libtbb.so.12: cannot open shared object file')"
    return found_first(tmp_path / "broken", openvino=code)


def folder_of(project: Project) -> Path:
    return find_artifact(project.folder / "models", "colors").folder


def variants_of(project: Project) -> list[tuple[str, int]]:
    """How many predictions each variant made."""
    return project.rows("SELECT variant, count(*) FROM infer_predictions GROUP BY variant ORDER BY variant")


def labels_of(project: Project) -> list[str]:
    return [label for (label,) in project.rows("SELECT label FROM infer_predictions ORDER BY picture")]


COLORS = [("red", "green", "blue")[i % 3] for i in range(12)]


def test_a_build_makes_the_variants_and_shows_what_each_keeps(workshop):
    assert workshop.built["variants"] == [TORCHSCRIPT, FP32, *HALF, INT8]
    shown = workshop.infer_json("model", "show", "colors")
    assert list(shown["variants"]) == [TORCHSCRIPT, FP32, *HALF, INT8]
    assert shown["variants"][FP32]["calibration"]["num_images"] == 8
    assert shown["model_id"] == workshop.built["model_id"]
    table = workshop.infer("model", "show", "colors")
    for text in (
        TORCHSCRIPT,
        FP32,
        INT8,
        "4 of 4 labels",
        "4 golden images",
        "8 judged images",
    ):
        assert text in table
    assert workshop.infer_json("model", "verify", "colors") == {
        "verified": [workshop.built["model_id"]],
        "other_files": [],
    }


@pytest.mark.always
def test_openvino_in_fp32_is_run_and_the_rows_say_so_with_one_worker_too(project):
    report = project.run_day("--workers", "1")
    assert (report["variant"], report["predicted"], report["num_workers"]) == (FP32, 12, 1)
    assert (variants_of(project), labels_of(project)) == ([(FP32, 12)], COLORS)


def test_where_openvino_is_broken_a_day_in_int8_waits_for_it(project, broken_openvino):
    """It is never finished in fp32 by itself; the error says what to do. No later run has to ask for int8 again."""
    assert project.run_day("--precision", "int8", "--limit", "5")["variant"] == INT8
    before = project.results()
    error = project.run_day(exit_code=12, **broken_openvino)
    assert "OpenVINO can't be loaded: libtbb.so.12" in error["error"]
    assert "pip install --force-reinstall openvino" in error["error"] + error["hint"]
    assert project.results() == before
    project.run_day()
    assert (variants_of(project), labels_of(project)) == ([(INT8, 12)], COLORS)


def test_a_model_with_torchscript_only_runs_and_gains_the_other_variant_when_it_is_built_again(
    project, broken_openvino
):
    """Older programs built such models where OpenVINO was not installed."""
    shutil.rmtree(project.folder / "models")
    command = ("model", "build", "colors.ts", *BUILD)
    first = project.infer_json(*command, **broken_openvino)
    assert (first["variants"], first["reused"]) == ([TORCHSCRIPT], False)
    assert f"{FP32}: left out, OpenVINO can't be loaded: libtbb.so.12" in project.errors
    assert project.run_day()["variant"] == TORCHSCRIPT
    assert (variants_of(project), labels_of(project)) == ([(TORCHSCRIPT, 12)], COLORS)
    second = project.infer_json(*command)
    assert (second["variants"], second["reused"]) == ([TORCHSCRIPT, FP32, *HALF], True)
    assert second["model_id"] == first["model_id"]


@pytest.mark.always
def test_a_day_begun_in_int8_is_finished_by_its_calibration_or_not_at_all(project):
    """Another calibration is refused while the day has pending images, and mixes with none that come later."""
    calibrate = ("model", "build", "colors.ts", *BUILD, "--calibrate", "more", "--min-agreement", "50%")
    save_photos(project.folder / "more", 30)
    int8 = ("--precision", "int8")
    project.run_day(*int8, "--limit", "5")
    project.infer(*calibrate, exit_code=2)
    assert f"{DATE} was begun with {INT8}" in project.errors
    assert project.run_day(*int8)["predicted"] == 7
    project.infer(*calibrate)
    let_runs_take_all(project.folder / "models")
    assert (WITHOUT_VNNI in project.errors) is not has_vnni()
    assert project.run_day(*int8)["predicted"] == 0  # the day is done
    Image.new("RGB", (20, 20), "red").save(project.photos / "late.jpg")
    project.add("photos", date=DATE)
    project.run_day(*int8, exit_code=12)
    assert "it was built anew since" in project.errors
    assert variants_of(project) == [(INT8, 12)]
    assert project.infer_json("model", "verify", "colors")["other_files"][0]["predictions"] == 12
