"""HEIC, AVIF and 16 bits through the real commands: missing decoders, damaged files, dark pictures."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from infer_app.errors import install
from tests.support.heif_files import avif, heic, smooth
from tests.support.projects import DATE, build_model
from tests.support.rasters import png_of_16_bits

RUN = ("run", "--date", DATE, "--lookback", "0")
INSTALL = install("heic")
DARK = "images use at most 12 of 16 bits: nearly black as read; build the model with --depth window:0,4095"
pytestmark = pytest.mark.slow


@pytest.fixture
def without_decoders(tmp_path):
    """What a process is given so that it finds neither pi-heif nor Pillow's AVIF."""
    folder = tmp_path / "without"
    folder.mkdir()
    blocked = "import sys\nsys.modules |= {'_pi_heif': None, 'pi_heif': None, 'PIL._avif': None}\n"
    (folder / "sitecustomize.py").write_text(blocked)
    return {"PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}


def test_images_without_a_decoder_are_pending_again_once_it_is_installed(project, without_decoders):
    project.add_photos(20)
    (project.photos / "a.heic").write_bytes(heic(smooth()))
    (project.photos / "b.avif").write_bytes(avif(smooth()))
    project.add("photos")
    report = project.run_day("--report", **without_decoders)
    assert report["reasons"] == {"avif_decoder_missing": 1, "heic_decoder_missing": 1}
    assert report["day"] == {"eligible": 22, "predicted": 20, "rejected": 2, "pending": 0}
    page = json.loads((project.folder / f"reports/{DATE}-colors.json").read_text())
    assert any(INSTALL in step["what"] for step in page["steps"])
    assert all(
        detail.endswith("no decoder for it is installed")
        for (detail,) in project.rows("SELECT detail FROM infer_rejections")
    )
    found = project.infer_json("doctor", **without_decoders)["findings"]
    told = "AVIF and HEIC images are rejected until their decoder is installed"
    assert [one["fix"] for one in found if one["found"] == told] == [INSTALL]
    assert project.run_day(**without_decoders)["selected"] == 0  # they are not tried in vain
    assert not any(one["found"] == told for one in project.infer_json("doctor")["findings"])
    report = project.run_day()
    assert (report["selected"], report["day"]["predicted"], report["reasons"]) == (2, 22, {})


def test_nearly_black_images_are_told_in_the_output_the_json_and_the_report(project):
    project.add_photos(5)
    for i, most in enumerate((4095, 4095, 65535)):
        samples = np.linspace(0, most, 30 * 40 * 3).astype(np.uint16).reshape(30, 40, 3)
        (project.photos / f"deep-{i}.png").write_bytes(png_of_16_bits(samples))
    Image.fromarray(samples[:, :, 0] // 16).save(project.photos / "deep.tif")
    project.add("photos")
    report = project.run_day("--report")
    assert (report["nearly_black"], report["attention"]) == (3, [f"3 {DARK}"])
    steps = json.loads((project.folder / f"reports/{DATE}-colors.json").read_text())["steps"]
    assert f"3 {DARK}" in [step["what"] for step in steps]
    assert f"3 {DARK}" in (project.folder / f"reports/{DATE}-colors.html").read_text()

    (project.photos / "late.png").write_bytes((project.photos / "deep-0.png").read_bytes())
    project.add("photos")
    told = project.infer(*RUN, "--report", "--quiet")
    assert told == f"attention: 1 {DARK}\n".replace("images use", "image uses")
    assert f"4 {DARK}" in (project.folder / f"reports/{DATE}-colors.html").read_text()


def test_a_model_of_a_window_reads_them_and_has_nothing_to_tell(project, built_models):
    project.use_models(built_models, copied=True)
    recipe = ("--recipe", "stretch", "--size", "16", "--depth", "window:0,4095")
    build_model(project.folder, str(built_models.parent / "colors.ts"), "windowed", *recipe)
    samples = np.zeros((30, 40, 3), np.uint16)
    samples[:, :, 2] = 4095
    (project.photos / "blue.png").write_bytes(png_of_16_bits(samples))
    project.add("photos")
    report = project.run_day("--model", "windowed")
    assert (report["nearly_black"], report["attention"], report["day"]["predicted"]) == (0, [], 1)
    ((label, score),) = project.rows("SELECT label, score FROM infer_predictions")
    assert project.run_day("--model", "colors")["nearly_black"] == 1
    ((as_read,),) = project.rows("SELECT score FROM infer_predictions ORDER BY score LIMIT 1")
    assert (label, as_read < score) == ("blue", True)
