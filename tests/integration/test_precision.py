"""The precision of a run, through the real command, on a CPU that computes bf16 or on one that does not."""

import json
import re
from datetime import UTC, date, datetime

import pytest

from infer_app.base.machine import computes_bf16
from tests.support.judged import let_runs_take_all
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, PLAIN, Project

pytestmark = pytest.mark.slow
NEXT = "2026-11-21"
FP32, BF16 = "cpu-openvino-fp32", "cpu-openvino-bf16"
BUILD = ("--name", "colors", "--labels", "labels.txt", *PLAIN)
needs_bf16 = pytest.mark.skipif(not computes_bf16(), reason="this CPU does not compute bf16")


@pytest.fixture
def project(tmp_path) -> Project:
    """A day of 24 images in three colours."""
    project = Project(tmp_path / "project")
    save(ChannelMeans(), project.folder / "colors.ts")
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    project.infer_json("model", "build", "colors.ts", *BUILD)
    project.add_photos(24)
    return project


@needs_bf16
def test_half_precision_runs_once_it_was_judged_on_300_images(project):
    """Of one day or of several. Until then a run takes full precision, and one that asks for half says what to do."""
    half = ("--precision", "half")
    error = project.run_day(*half, exit_code=12)
    assert f"{BF16}: it was judged on 0 images of yours, 300 are needed" in error["error"]
    judge = re.search("`infer (model judge [^ ]+) --date DATE --until DATE`", error["hint"])[1].split()
    found = project.infer_json(*judge, "--date", DATE)["variants"][BF16]
    assert "24 images can judge, 300 are needed" in project.errors
    assert (found["num_images"], found["label_agreement"], found["meets_bar"]) == (24, 1.0, False)
    assert project.run_day()["variant"] == FP32
    project.add_photos(300, NEXT)  # 276 more
    judged = project.infer_json(*judge, "--date", DATE, "--until", NEXT)
    assert (judged["min_agreement"], list(judged["variants"])) == (0.99, [BF16])
    found = judged["variants"][BF16]
    assert (found["num_images"], found["label_agreement"], found["meets_bar"]) == (300, 1.0, True)
    assert 0 <= found["p99_score_difference"] <= found["worst_score_difference"] < 0.01
    assert "300 of 300 labels: between 98.8 and 100 %" in project.infer("model", "show", "colors")
    assert project.infer_json("run", "--date", NEXT, "--lookback", "0", *half)["variant"] == BF16
    error = project.infer_json("model", "judge", "colors", "--date", "2020-01-01", exit_code=2)
    assert error["error"] == "there are no images on 2020-01-01"


@needs_bf16
def test_all_that_shows_a_result_says_its_precision(project):
    let_runs_take_all(project.folder / "models")
    report = project.run_day("--precision", "half", "--report")
    assert (report["variant"], report["precision"]) == (BF16, "half")
    assert f"colors runs as {BF16} (half precision)" in project.errors
    page = project.folder / "reports" / f"{DATE}.html"
    assert f"{BF16} (half precision)" in page.read_text()
    (written,) = json.loads(page.with_suffix(".json").read_text())["models"]
    assert [written[key]["precision"] for key in ("run", "speed")] == ["half", "half"]
    explained = project.infer("explain", "--image", "1")
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
    assert "half precision" in project.infer("run", "--date", DATE, "--lookback", "0").splitlines()[-1]
    days = (datetime.now(UTC).date() - date.fromisoformat(DATE)).days + 1
    assert [one["precision"] for one in project.infer_json("status", "--days", str(days))["days"]] == ["half"]
