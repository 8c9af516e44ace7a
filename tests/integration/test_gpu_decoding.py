"""`infer model build --decode gpu` and its nights, by the command, on a machine without a GPU."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from infer_app.models.runtimes.gpu_probe import describe_host
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, Project

pytest.importorskip("nvidia.nvimgcodec")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(describe_host().gpu is not None, reason="this machine has a GPU, which would be used"),
]

RECIPE = ("--recipe", "crop-resize", "--size", "96", "--mean", "0,0,0", "--std", "1,1,1", "--no-tune")
RUN = ("run", "--date", DATE, "--lookback", "0", "--variant", "cpu-torchscript", "--model")


@pytest.fixture
def night(project: Project) -> Project:
    """Ten photos, a cut one and a text; the model is in a file."""
    (project.folder / "models").unlink()
    save(ChannelMeans(), project.folder / "model.ts")
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    for number in range(10):
        noise = np.random.default_rng(number).integers(0, 60, (120, 160, 3))
        color = [150 if channel == number % 3 else 40 for channel in range(3)]
        Image.fromarray((noise + color).astype(np.uint8)).save(project.photos / f"{number}.jpg", quality=80)
    whole = (project.photos / "0.jpg").read_bytes()
    (project.photos / "cut.jpg").write_bytes(whole[:-600])
    (project.photos / "text.jpg").write_bytes(b"no picture")
    project.add("photos")
    return project


def build(night: Project, name: str, *flags: str, exit_code: int = 0, **environ: str) -> str:
    more = ("--labels", "labels.txt", *RECIPE, *flags)
    return night.infer("model", "build", "model.ts", "--name", name, *more, exit_code=exit_code, **environ)


def outcomes(night: Project, name: str) -> list[tuple[object, ...]]:
    return night.rows(
        "SELECT image_id, label, sha256 FROM infer_predictions JOIN infer_models m ON model_id = m.id"
        f" WHERE m.name = '{name}' UNION ALL SELECT image_id, reason || detail || decoder || stage, sha256"
        f" FROM infer_rejections JOIN infer_models m ON model_id = m.id WHERE m.name = '{name}' ORDER BY 1"
    )


def test_a_night_by_gpu_decoding_ends_as_one_by_the_cpu(night: Project):
    told = build(night, "by-gpu", "--decode", "gpu", "--golden", "photos")
    assert "decode gpu: 100.0% of labels as with exact decoding, of 8 images of the kind that a GPU decodes" in told
    assert "nvjpeg" not in night.errors.lower()
    build(night, "exact")
    report = night.infer_json(*RUN, "by-gpu", "--executor", "cuda")
    assert (report["executor"], report["day"]["predicted"], report["day"]["rejected"]) == ("cuda", 10, 2)
    assert report["stages"]["gpu-decode"] > 0
    night.infer_json(*RUN, "exact")
    assert outcomes(night, "by-gpu") == outcomes(night, "exact")
    ((manifest,),) = night.rows("SELECT manifest FROM infer_models WHERE name = 'by-gpu'")
    assert json.loads(manifest)["recipe"]["decode"] == "gpu"
    before = night.results()
    assert night.infer_json(*RUN, "by-gpu", "--executor", "cuda")["selected"] == 0
    assert night.results() == before
    assert "decode gpu" in night.infer("model", "show", "by-gpu")
    findings = night.infer_json("doctor", "--model", "by-gpu")["findings"]
    (decoder,) = [one for one in findings if one["check"] == "gpu decoder"]
    assert decoder["found"].startswith("nvImageCodec 0.")


def test_the_cpu_executor_does_not_decode_otherwise_than_the_model(night: Project):
    build(night, "by-gpu", "--decode", "gpu")
    for flags, exit_code in ((("--executor", "cpu"), 2), ((), 12)):
        error = night.infer_json(*RUN, "by-gpu", *flags, exit_code=exit_code)
        assert error["error"] == "by-gpu decodes on a GPU, which the cpu executor does not"
        assert "--executor cuda" in error["hint"]
    assert night.results() == []


def test_without_the_library_neither_a_build_nor_a_night_begins(night: Project, tmp_path):
    (tmp_path / "without" / "nvidia").mkdir(parents=True)
    (tmp_path / "without" / "nvidia" / "__init__.py").write_text("")
    path = f"{tmp_path / 'without'}:{os.environ.get('PYTHONPATH', '')}"
    error = json.loads(build(night, "by-gpu", "--decode", "gpu", "--json", exit_code=12, PYTHONPATH=path))
    assert error["error"].startswith("decoding on a GPU needs nvImageCodec")
    assert "pip install 'infer_app[gpu-decode]'" in error["hint"]
    assert not [*(night.folder / "models" / "by-gpu").iterdir()]
    build(night, "by-gpu", "--decode", "gpu")
    error = night.infer_json(*RUN, "by-gpu", "--executor", "cuda", exit_code=12, PYTHONPATH=path)
    assert error["error"].startswith("decoding on a GPU needs nvImageCodec")
    assert night.rows("SELECT * FROM infer_predictions") == []
    findings = night.infer_json("doctor", "--model", "by-gpu", exit_code=12, PYTHONPATH=path)["findings"]
    assert [one["exit_code"] for one in findings if one["check"] == "model"] == [12]


def test_a_function_of_ones_own_gets_pixels_of_the_cpu(night: Project):
    error = json.loads(
        night.infer(
            *("model", "build", "model.ts", "--name", "own", "--size", "96", "--preprocess", "steps:prepare"),
            *("--decode", "gpu", "--json"),
            exit_code=2,
        )
    )
    assert error["error"] == "--decode gpu does not go with --preprocess: your function gets the whole picture"
