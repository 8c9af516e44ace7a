"""The precision of a run, through the real command, on a CPU that computes bf16 or on one that does not."""

import json
from datetime import UTC, date, datetime

import pytest
import torch
from torch import nn

from infer_app.machine import computes_bf16
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, Project

pytestmark = pytest.mark.slow
FP32, BF16 = "cpu-openvino-fp32", "cpu-openvino-bf16"
BUILD = ("--name", "colors", "--labels", "labels.txt", "--recipe", "stretch", "--size", "16")
BUILD += ("--mean", "0,0,0", "--std", "1,1,1", "--no-tune")
needs_bf16 = pytest.mark.skipif(not computes_bf16(), reason="this CPU does not compute bf16")


@pytest.fixture
def project(tmp_path) -> Project:
    """A day of 24 images in three colours."""
    project = Project(tmp_path / "project")
    project.init()
    save(ChannelMeans(), project.folder / "colors.ts")
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    project.infer_json("model", "build", "colors.ts", *BUILD)
    project.add_photos(24)
    return project


def run(project, *flags, exit_code=0):
    return project.infer_json("run", "--date", DATE, "--lookback", "0", *flags, exit_code=exit_code)


@needs_bf16
def test_half_precision_is_judged_on_the_images_of_a_day_and_runs(project):
    judged = project.infer_json("model", "judge", "colors", "--date", DATE)
    assert (judged["min_agreement"], list(judged["variants"])) == (0.97, [BF16])
    found = judged["variants"][BF16]
    assert (found["num_images"], found["label_agreement"], found["meets_bar"]) == (24, 1.0, True)
    assert 0 <= found["p99_score_difference"] <= found["worst_score_difference"] < 0.01
    assert run(project, "--precision", "half")["variant"] == BF16
    assert "24 judged images" in project.infer("model", "show", "colors")


@needs_bf16
def test_a_day_that_began_in_half_precision_is_finished_in_it(project):
    assert run(project, "--precision", "half", "--limit", "5")["variant"] == BF16
    assert run(project, "--precision", "full")["variant"] == BF16
    rows = project.infer_json("predictions", "--date", DATE)["predictions"]
    assert [row["variant"] for row in rows] == [BF16] * 24


@needs_bf16
def test_all_that_shows_a_result_says_its_precision(project):
    report = run(project, "--precision", "half", "--report")
    assert (report["variant"], report["precision"]) == (BF16, "half")
    assert f"colors runs as {BF16} (half precision)" in project.errors
    page = project.folder / "reports" / f"{DATE}-colors.html"
    assert f"{BF16} (half precision)" in page.read_text()
    written = json.loads(page.with_suffix(".json").read_text())
    assert [written[key]["precision"] for key in ("run", "speed")] == ["half", "half"]
    day = ("--date", DATE)
    rows = project.infer_json("predictions", *day)["predictions"]
    assert {(row["variant"], row["precision"]) for row in rows} == {(BF16, "half")}
    assert f"{DATE}, half precision" in project.infer("predictions", *day)
    assert ",half," in project.infer("predictions", *day, "--csv").splitlines()[1]
    explained = project.infer("explain", "--image", "1", "--replay")
    assert f"in variant {BF16} (half precision)" in explained
    shown = project.infer_json("model", "show", "colors")["variants"]
    assert {variant: details["precision"] for variant, details in shown.items()} == {
        "cpu-torchscript": "full",
        FP32: "full",
        BF16: "half",
    }
    (listed,) = project.infer_json("model", "list")["models"]
    assert listed["precisions"] == ["full", "half"]
    project.add_photos(30)  # six more
    assert "half precision" in project.infer("run", *day, "--lookback", "0").splitlines()[-1]
    days = (datetime.now(UTC).date() - date.fromisoformat(DATE)).days + 1
    assert [one["precision"] for one in project.infer_json("status", "--days", str(days))["days"]] == ["half"]


def test_full_precision_is_said_too(project):
    report = run(project)
    assert report["precision"] == "full"
    assert "(full precision), " in project.errors
    assert f"{DATE}, full precision" in project.infer("predictions", "--date", DATE)


@needs_bf16
def test_a_variant_that_keeps_too_few_labels_ends_the_run_with_what_to_do(project, monkeypatch):
    manifest = next((project.folder / "models" / "colors").glob("*/manifest.json"))
    text = manifest.read_text()
    manifest.write_text(text.replace('"meets_bar": true', '"meets_bar": false'))
    error = run(project, "--precision", "half", exit_code=12)
    assert "it changes too much" in error["error"]
    assert "`infer model show colors`" in error["hint"]


@pytest.mark.skipif(computes_bf16(), reason="this CPU computes bf16")
def test_a_cpu_without_bf16_is_named(project):
    error = run(project, "--precision", "half", exit_code=12)
    assert "no bf16 variant can run here" in error["error"]
    assert "`infer model judge colors`" in error["hint"]


def test_int8_that_was_not_built_is_never_replaced(project):
    error = run(project, "--precision", "int8", exit_code=12)
    assert "no int8 variant can run here" in error["error"]
    assert run(project, "--precision", "full")["predicted"] == 24


def test_an_unknown_precision_and_a_day_without_images_are_wrong_flags(project):
    assert run(project, "--precision", "quarter", exit_code=2)["error"]
    error = project.infer_json("model", "judge", "colors", "--date", "2020-01-01", exit_code=2)
    assert error["error"] == "there are no images on 2020-01-01"


@pytest.fixture
def slow_project(project) -> Project:
    """With a network that costs more than everything else."""
    torch.manual_seed(0)
    torch.jit.trace(Slow(), torch.zeros(2, 3, 64, 64)).save(str(project.folder / "slow.ts"))
    flags = ("--recipe", "stretch", "--size", "64", "--mean", "0,0,0", "--std", "1,1,1", "--no-tune")
    project.infer("model", "build", "slow.ts", "--name", "slow", *flags)
    return project


class Slow(nn.Module):
    """Three classes, and many multiplications."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 64, 3), *(nn.Conv2d(64, 64, 3) for _ in range(3)))

    def forward(self, pixels):
        return 8.0 * pixels.mean((2, 3)) + 1e-9 * self.layers(pixels).mean((1, 2, 3)).unsqueeze(1)


def test_a_dry_run_says_what_another_precision_would_bring_on_these_very_images(slow_project, monkeypatch):
    """On a CPU that computes bf16 it is measured; on another one nothing is said of it."""
    monkeypatch.setenv("INFER_RUN__CHUNK_SIZE", "2")  # so that there are several, by which speed can be judged
    dry = run(slow_project, "--dry-run", "--model", "slow")
    trials = [one["trial"] for one in dry["alternatives"] if one["trial"]]
    assert [trial["precision"] for trial in trials] == (["half"] if computes_bf16() else [])
    for trial in trials:
        assert (trial["num_images"], trial["label_agreement"], trial["meets_min_agreement"]) == (24, 1.0, True)
    assert slow_project.rows("SELECT count(*) FROM infer_runs") == [(0,)]
    run(slow_project, "--model", "slow", "--limit", "2")  # it has begun in full precision and keeps that
    dry = run(slow_project, "--dry-run", "--model", "slow")
    assert [one for one in dry["alternatives"] if one["trial"]] == []
