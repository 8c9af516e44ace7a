"""A model or a preprocess function that fails on every image is one fault and rejects none of them, on each executor.

The project's photos are of a size that no golden image has, so that the fault shows in the run and not before.
"""

import shutil

import pytest
import torch
from PIL import Image
from torch import nn

from infer_app.run.flow.failure_budget import PROBATION_IMAGES
from tests.support import projects
from tests.support.networks import ChannelMeans, NeedsMemoryForWhite, NotANumberForWhite, save
from tests.support.projects import Project, build_model, without

pytestmark = pytest.mark.slow

DATES = ("2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20")

PREPROCESS = """
from pathlib import Path
import numpy as np

def crop(rgb):
    if rgb.shape[:2] == (33, 47) and Path("LIBRARY_IS_GONE").exists():
        raise ImportError("a library is gone")
    return np.ascontiguousarray(np.resize(rgb, (16, 16, 3)))
"""


@pytest.fixture(params=["cpu", "cuda"], autouse=True, scope="module")
def _executor(request, tmp_path_factory):
    """Each executor, without OpenVINO: the networks are ones that TorchScript alone computes."""
    with pytest.MonkeyPatch.context() as patch:
        hidden = without(tmp_path_factory.mktemp("model-faults") / "hides", "openvino")
        patch.setattr(projects, "EVERYWHERE", {"INFER_RUN__EXECUTOR": request.param} | hidden)
        yield


def add_white_photos(project: Project, date: str, count: int) -> None:
    folder = project.photos / date
    folder.mkdir()
    Image.new("RGB", (47, 33), "white").save(folder / "0.png")
    for number in range(1, count):
        shutil.copy(folder / "0.png", folder / f"{number}.png")
    project.add(f"photos/{date}", date=date)


def build(project: Project, source: str, *flags: str) -> None:
    shutil.rmtree(project.folder / "models")
    build_model(project.folder, source, "own", "--size", "16", *flags)


def script(project: Project, module: nn.Module) -> None:
    torch.jit.script(module).save(str(project.folder / "own.ts"))
    build(project, "own.ts", "--recipe", "stretch")


def test_a_preprocess_that_fails_on_every_image_rejects_none_and_once_it_works_one_run_predicts_all(project):
    save(ChannelMeans(), project.folder / "own.ts")
    (project.folder / "own.py").write_text(PREPROCESS)
    build(project, "own.ts", "--set", "preprocess=own:crop")
    for date, num_photos in zip(DATES, (400, 100, 500, 1000), strict=True):
        add_white_photos(project, date, num_photos)
    (project.folder / "LIBRARY_IS_GONE").touch()
    report = project.infer_json("run", "--date", DATES[-1], exit_code=3)
    assert project.results() == []
    assert report["day"] == {"eligible": 1000, "predicted": 0, "rejected": 0, "pending": 1000}
    assert "preprocess: ImportError: a library is gone" in report["stopped"]
    (project.folder / "LIBRARY_IS_GONE").unlink()
    assert project.infer_json("run", "--date", DATES[-1])["stopped"] is None
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(2000,)]


def test_files_that_are_missing_do_not_speak_for_a_model_that_fails_on_all_others(project):
    script(project, NotANumberForWhite())
    add_white_photos(project, DATES[-1], 40)
    for photo in sorted((project.photos / DATES[-1]).iterdir())[6:]:
        photo.unlink()
    report = project.infer_json("run", "--date", DATES[-1], exit_code=3)
    assert (report["reasons"], report["day"]["pending"]) == ({"not_found": 34}, 6)


def test_a_model_that_fails_on_all_images_does_not_reject_a_day_in_pieces(project):
    script(project, NotANumberForWhite())
    add_white_photos(project, DATES[-1], 5)
    project.infer("run", "--date", DATES[-1], "--limit", "1")  # of one nothing can be told
    for limit in ("1", "9"):
        report = project.infer_json("run", "--date", DATES[-1], "--limit", limit, exit_code=3)
        assert "besides 1 that earlier runs of the day rejected" in report["stopped"]
    assert report["day"] == {"eligible": 5, "predicted": 0, "rejected": 1, "pending": 4}


def test_a_model_that_has_no_memory_for_a_batch_predicts_all(project):
    script(project, NeedsMemoryForWhite(1))
    add_white_photos(project, DATES[-1], 50)
    report = project.infer_json("run", "--date", DATES[-1])
    assert report["day"] == {"eligible": 50, "predicted": 50, "rejected": 0, "pending": 0}


def test_a_model_that_has_no_memory_for_any_image_rejects_none(project):
    script(project, NeedsMemoryForWhite(0))
    add_white_photos(project, DATES[-1], PROBATION_IMAGES + 50)
    report = project.infer_json("run", "--date", DATES[-1], exit_code=3)
    assert project.results() == []
    assert "can't allocate memory" in report["stopped"]
