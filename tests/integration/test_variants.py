"""The forms of a model, through the real command: made, measured, chosen, kept to, and missed."""

import json
import shutil

import pytest
import torch

from infer_app.executors.machine import usable_cores
from infer_app.models.artifact import find_artifact
from infer_app.models.tuning import Speed, new_tuning, save_tuning
from tests.integration.conftest import DATE, ChannelMeans, Project
from tests.unit.models.small_models import save_photos

TORCHSCRIPT, FP32, INT8 = "cpu-torchscript", "cpu-openvino-fp32", "cpu-openvino-int8"
SPEEDS = {TORCHSCRIPT: Speed(4, 14.0), FP32: Speed(2, 11.5), INT8: Speed(8, 6.0)}
BUILD = ("--name", "colors", "--labels", "labels.txt", "--recipe", "stretch", "--size", "16")
BUILD += ("--mean", "0,0,0", "--std", "1,1,1")
CAN_NOT_BE_IMPORTED = {"openvino/__init__.py": "raise ImportError('libtbb.so.12: cannot open shared object file')"}
IS_NOT_INSTALLED = {"sitecustomize.py": "import sys\nsys.modules['openvino'] = None"}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Project:
    """Where the models of these tests are built: `colors` with int8, which is said to be the faster one."""
    project = Project(tmp_path_factory.mktemp("workshop") / "project")
    torch.jit.trace(ChannelMeans(), torch.zeros(2, 3, 16, 16)).save(str(project.folder / "colors.ts"))
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    save_photos(project.folder / "alike", 24)
    project.built = project.infer_json(
        "model", "build", "colors.ts", *BUILD, "--calibrate", "alike", "--min-agreement", "50%", "--no-tune"
    )
    artifact = find_artifact(project.folder / "models", "colors")
    manifest = json.loads((artifact.folder / "manifest.json").read_text())
    manifest["variants"][INT8]["is_faster"] = True  # of a network this small int8 is not, wherever it is built
    (artifact.folder / "manifest.json").write_text(json.dumps(manifest))
    return project


@pytest.fixture
def unmeasured(tmp_path, workshop) -> Project:
    """Twelve images to predict with a copy of the model."""
    project = Project(tmp_path / "project")
    project.infer("init")
    shutil.copytree(workshop.folder / "models", project.folder / "models")
    project.add_photos(12)
    return project


@pytest.fixture
def project(unmeasured) -> Project:
    """The same on a host where each variant was measured, the later the faster."""
    folder = find_artifact(unmeasured.folder / "models", "colors").folder
    save_tuning(folder, usable_cores(), new_tuning(usable_cores(), SPEEDS))
    return unmeasured


@pytest.fixture
def without_openvino(tmp_path):
    """without_openvino(files) are variables with which Python finds these in place of it."""

    def hide(files: dict[str, str]) -> dict[str, str]:
        for name, text in files.items():
            path = tmp_path / "path" / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
        return {"PYTHONPATH": str(tmp_path / "path")}

    return hide


def run(project: Project, *more: str, exit_code: int = 0, **environ: str):
    return project.infer_json("run", "--date", DATE, "--lookback", "0", *more, exit_code=exit_code, **environ)


def variants_of(project: Project) -> list[tuple[str, int]]:
    """How many predictions each variant made."""
    return project.rows("SELECT variant, count(*) FROM infer_predictions GROUP BY variant ORDER BY variant")


def labels_of(project: Project) -> list[str]:
    return [
        label for (label,) in project.rows("SELECT label FROM infer_predictions ORDER BY CAST(image_id AS INTEGER)")
    ]


COLORS = [("red", "green", "blue")[i % 3] for i in range(12)]


def test_a_build_makes_the_variants_and_shows_what_each_keeps(workshop):
    assert workshop.built["variants"] == [TORCHSCRIPT, FP32, INT8]
    shown = workshop.infer_json("model", "show", "colors")
    assert list(shown["variants"]) == [TORCHSCRIPT, FP32, INT8]
    assert shown["variants"][INT8]["calibration"]["num_images"] == 12
    assert (shown["model_id"], shown["tuning"]) == (workshop.built["model_id"], [])
    table = workshop.infer("model", "show", "colors")
    for text in (TORCHSCRIPT, FP32, INT8, "labels kept", "4 golden images", "12 calibration images"):
        assert text in table
    assert workshop.infer_json("model", "verify", "colors") == {"verified": [workshop.built["model_id"]]}


def test_the_rows_say_which_variant_made_them(project):
    assert run(project)["variant"] == FP32
    assert variants_of(project) == [(FP32, 12)]
    assert labels_of(project) == COLORS


def test_int8_is_run_where_it_is_allowed(project):
    report = run(project, "--allow-int8")
    assert (report["variant"], report["predicted"]) == (INT8, 12)
    assert variants_of(project) == [(INT8, 12)]
    assert labels_of(project) == COLORS


def test_int8_may_be_allowed_for_every_night(project):
    config = project.folder / "infer.toml"
    config.write_text(config.read_text() + "\n[run]\nallow_int8 = true\n")
    assert run(project, "--limit", "4")["variant"] == INT8
    assert run(project, "--no-allow-int8", "--variant", TORCHSCRIPT)["variant"] == TORCHSCRIPT
    assert variants_of(project) == [(INT8, 4), (TORCHSCRIPT, 8)]


def test_a_day_that_began_in_int8_goes_on_in_it_though_it_is_no_longer_allowed(project):
    assert run(project, "--allow-int8", "--limit", "5")["day"]["pending"] == 7
    assert run(project)["variant"] == INT8
    assert variants_of(project) == [(INT8, 12)]
    project.infer("images", "add", "photos", "--date", "2026-11-21")
    for photo in project.photos.iterdir():
        photo.rename(photo.with_name(f"next-{photo.name}"))
    project.infer("images", "add", "photos", "--date", "2026-11-21")
    report = project.infer_json("run", "--date", "2026-11-21", "--lookback", "0")
    assert (report["variant"], report["predicted"]) == (FP32, 12)


def test_a_day_that_began_in_fp32_is_not_finished_in_int8(project):
    run(project, "--limit", "5")
    assert run(project, "--allow-int8")["variant"] == FP32
    assert variants_of(project) == [(FP32, 12)]


def test_a_variant_that_the_model_has_not_is_a_wrong_flag(project):
    error = run(project, "--variant", "cpu-onnx", exit_code=2)
    assert error["error"] == "colors has no variant 'cpu-onnx'"
    assert error["hint"] == f"it has {TORCHSCRIPT}, {FP32}, {INT8}; or auto"


def test_int8_of_a_model_that_has_none_is_a_wrong_flag(make_project):
    project = make_project("project")
    project.add_photos(1)
    assert f"has no variant '{INT8}'" in run(project, "--variant", INT8, exit_code=2)["error"]
    assert run(project, "--allow-int8", "--variant", TORCHSCRIPT)["variant"] == TORCHSCRIPT


def test_one_worker_does_it_alone(project):
    report = run(project, "--workers", "1")
    assert (report["num_workers"], report["predicted"]) == (1, 12)
    assert labels_of(project) == COLORS


@pytest.mark.parametrize("is_measured", [False, True], ids=["unmeasured", "measured"])
@pytest.mark.parametrize("files", [IS_NOT_INSTALLED, CAN_NOT_BE_IMPORTED], ids=["not installed", "broken"])
def test_without_openvino_fp32_runs_as_torchscript(project, without_openvino, files, is_measured):
    if not is_measured:
        shutil.rmtree(find_artifact(project.folder / "models", "colors").folder / "tuning")
    assert run(project, **without_openvino(files))["variant"] == TORCHSCRIPT
    assert variants_of(project) == [(TORCHSCRIPT, 12)]
    assert labels_of(project) == COLORS


@pytest.mark.parametrize("files", [IS_NOT_INSTALLED, CAN_NOT_BE_IMPORTED], ids=["not installed", "broken"])
def test_without_openvino_a_day_in_int8_waits_for_it(project, without_openvino, files):
    """It is never finished in fp32 by itself; the night says what to do."""
    environ = without_openvino(files)
    error = run(project, "--allow-int8", exit_code=12, **environ)
    assert "pip install 'infer_app[cpu]'" in error["error"] + error["hint"]
    assert variants_of(project) == []
    run(project, "--allow-int8", "--limit", "5")
    before = project.results()
    error = run(project, exit_code=12, **environ)
    assert "pip install 'infer_app[cpu]'" in error["error"] + error["hint"]
    assert project.results() == before
    assert run(project)["predicted"] == 7
    assert variants_of(project) == [(INT8, 12)]


def test_doctor_names_a_missing_openvino_and_how_to_install_it(project, without_openvino):
    findings = project.infer_json("doctor", **without_openvino(IS_NOT_INSTALLED))["findings"]
    found = {finding["check"]: (finding["found"], finding["fix"]) for finding in findings}
    assert found["openvino"] == (
        "models run as TorchScript",
        "OpenVINO is not installed: pip install 'infer_app[cpu]'",
    )
    assert TORCHSCRIPT in found["model"][0]


def test_a_build_without_openvino_is_torchscript_and_gains_the_variant_later(tmp_path, workshop, without_openvino):
    project = Project(tmp_path / "project")
    for name in ("colors.ts", "labels.txt"):
        shutil.copy(workshop.folder / name, project.folder)
    environ = without_openvino(IS_NOT_INSTALLED)
    first = project.infer_json("model", "build", "colors.ts", *BUILD, "--no-tune", **environ)
    assert (first["variants"], first["reused"]) == ([TORCHSCRIPT], False)
    assert f"{FP32}: left out, OpenVINO is not installed" in project.errors
    second = project.infer_json("model", "build", "colors.ts", *BUILD, "--no-tune")
    assert (second["variants"], second["reused"]) == ([TORCHSCRIPT, FP32], True)
    assert second["model_id"] == first["model_id"]
    out = project.infer("model", "build", "colors.ts", *BUILD, "--no-tune")
    assert "is there already and was left as it is" in out


def test_too_few_images_to_calibrate_with_is_a_wrong_flag(tmp_path, workshop):
    save_photos(tmp_path / "few", 3)
    command = ("model", "build", "colors.ts", *BUILD, "--no-tune", "--calibrate", str(tmp_path / "few"))
    error = workshop.infer_json(*command, exit_code=2)
    assert error["error"].endswith("has 3 images that can be decoded, calibration needs 20")
    for share in ("x%", "0%", "101%"):
        assert "share" in workshop.infer_json(*command, "--min-agreement", share, exit_code=2)["error"]


def test_a_build_measures_this_machine_and_runs_use_it(tmp_path, workshop):
    """Once: what is there already is not measured again, but by `model tune`."""
    project = Project(tmp_path / "project")
    for name in ("colors.ts", "labels.txt"):
        shutil.copy(workshop.folder / name, project.folder)
    project.infer("init")
    project.infer("model", "build", "colors.ts", *BUILD)
    (tuning,) = project.infer_json("model", "show", "colors")["tuning"]
    assert set(tuning["speeds"]) == {TORCHSCRIPT, FP32}
    fastest = min(tuning["speeds"], key=lambda variant: tuning["speeds"][variant]["ms_per_image"])
    assert list(tuning["layouts"]) == [fastest]
    assert "is there already" in project.infer("model", "build", "colors.ts", *BUILD)
    assert project.infer_json("model", "show", "colors")["tuning"] == [tuning]
    project.add_photos(3)
    report = run(project)
    assert (report["variant"], report["num_workers"]) == (fastest, tuning["layouts"][fastest][0]["workers"])
    shown = project.infer("model", "tune", "colors")
    (again,) = project.infer_json("model", "show", "colors")["tuning"]
    assert again["measured_at"] > tuning["measured_at"]
    for text in (tuning["host"], TORCHSCRIPT, FP32, "workers x threads"):
        assert text in shown
