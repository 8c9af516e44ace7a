import json

import numpy as np
import pytest
from PIL import Image

from infer_app.artifact.recipe import CropRule
from infer_app.artifact.specs import CropSpec
from infer_app.base.errors import InferError, ModelError, UsageError
from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.commands.model_commands import CheckOptions, JudgeOptions
from infer_app.cli.model.build import build, judge
from infer_app.cli.model.check import check
from infer_app.cli.model.model import find_model, show
from infer_app.cli.model.version_commands import list_models
from infer_app.predict.images.transform.crop import cut_out
from infer_app.predict.images.transform.geometry import Picture
from tests.support.detectors import Quadrants
from tests.support.networks import ChannelMeans, save, traced

CUT = """
def cut(picture, box):
    top = int(box[1] * len(picture))
    return picture[top:, ::-1]

def cut_none(picture, box):
    return None
"""
CLASSIFY = """
def classify(picture, box):
    height, width = picture.shape[:2]
    left, top, right, bottom = (round(edge) for edge in (
        box[0] * width, box[1] * height, (box[0] + box[2]) * width, (box[1] + box[3]) * height
    ))
    return 8 * picture[top:bottom, left:right].mean((0, 1)) / 255  # logits


def whole(picture, box):
    print("not for stdout")
    return "1", 0.5
"""


def build_options(source: str, name: str, **keys: object) -> BuildOptions:
    stated = {"mean": 0, "std": 1} | keys
    return BuildOptions(source=source, name=name, size="64", set=[f"{key}={value}" for key, value in stated.items()])


def build_species(name: str = "species", **given: object) -> None:
    build(build_options("means.ts", name, of="animals", recipe="stretch", **given))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two networks, and the detector `animals` of red and green quarters and halves."""
    folder = tmp_path_factory.mktemp("project")
    save(traced(Quadrants(), shape=(64, 64)), folder / "quadrants.ts")
    save(traced(ChannelMeans(), shape=(64, 64)), folder / "means.ts")
    (folder / "labels.txt").write_text("red\ngreen\n")
    (folder / "cutting.py").write_text(CUT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        build(build_options("quadrants.ts", "animals", output="detection", head="boxes", labels=folder / "labels.txt"))
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_a_network_is_built_on_the_objects_of_a_detector_and_says_so(capsys):
    build_species(min_score=0.2, of_labels="red", crop="square-pad", crop_margin_px=30, crop_min_px=224)
    told = "pictures: objects found by animals from a score of 0.2 on, labels: red; crop: square-pad"
    assert told in capsys.readouterr().out
    manifest = find_model("species", None).manifest
    assert manifest.crop == CropSpec("animals", 0.2, ("red",), CropRule("square-pad", 0.0, 30, 224))
    show("species", True, None)
    assert json.loads(capsys.readouterr().out)["crop"]["of"] == "animals"
    list_models(True, None)
    listed = {one["name"]: one["of"] for one in json.loads(capsys.readouterr().out)["models"]}
    assert (listed["species"], listed["animals"]) == ("animals", None)


def test_a_function_that_cuts_out_is_stored_with_the_model(folder):
    build_species("own", crop="cutting:cut")
    (folder / "cutting.py").write_text(CUT.replace("[top:, ::-1]", "[:top]"))
    own = find_model("own", None)
    rgb = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    crop = cut_out(Picture.whole(rgb), (0, 0.5, 1, 0.5), own.manifest.crop.rule, own.crop_function())
    assert np.array_equal(crop.rgb, rgb[15:, ::-1])
    with pytest.raises(ModelError, match="crop gave NoneType, not a uint8 array") as caught:
        build_species("none", crop="cutting:cut_none")
    assert "in shares of the picture" in caught.value.hint


def test_what_does_not_fit_the_detector_is_not_built(folder):
    with pytest.raises(InferError, match="animals finds no objects of the label 'blue'"):
        build_species("refused", of_labels="blue")
    assert not (folder / "models" / "refused").exists()


def test_half_precision_is_not_judged_on_whole_images(folder):
    build_species("judged")
    (folder / "infer.toml").touch()
    with pytest.raises(UsageError, match="judged is a second network") as caught:
        judge(JudgeOptions(name="judged", config=folder / "infer.toml"))
    assert "--calibrate" in caught.value.hint


@pytest.fixture(scope="module")
def checked(folder):
    """A second network whose pictures are red quarters, and two photos with three of them."""
    photos = folder / "photos"
    photos.mkdir()
    (folder / "classifying.py").write_text(CLASSIFY)
    for name, quarters in (("a.png", [(0, 0)]), ("b.png", [(0, 1), (1, 1)]), ("none.png", [])):
        pixels = np.full((90, 128, 3), (0, 0, 90), np.uint8)
        for row, column in quarters:
            pixels[row * 45 : row * 45 + 45, column * 64 : column * 64 + 64] = (200, 60 * column, 0)
        Image.fromarray(pixels).save(photos / name)
    (folder / "infer.toml").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        build_species("checked", of_labels="red", min_score=0.5)
    return folder


def checked_against(folder, against):
    photos = folder / "photos"
    return check(CheckOptions(name="checked", against=against, images=photos, workers=1, as_json=True))


@pytest.mark.parametrize("against", ["classifying:classify", None])
def test_answers_for_crops_are_compared_with_a_function_and_with_the_source(checked, capsys, against):
    exit_code = checked_against(checked, against)
    report = json.loads(capsys.readouterr().out)
    assert (exit_code, report["num_compared"], report["agreement"], report["unit"]) == (4, 3, 1.0, "object")
    assert report["scores"]["worst_difference"] < 0.01


def test_a_difference_names_photo_and_object(checked, capsys):
    assert checked_against(checked, "classifying:whole") == 2
    report = json.loads(capsys.readouterr().out)
    paths = [
        f"{checked / 'photos' / name}, object {number}" for name, number in (("a.png", 0), ("b.png", 0), ("b.png", 1))
    ]
    assert sorted(one["path"] for one in report["disagreements"]) == paths
    assert {(one["theirs"], one["ours"]) for one in report["disagreements"]} == {("1", "0")}


def test_photos_without_an_object_of_the_gate_are_not_compared(checked):
    with pytest.raises(UsageError, match="animals finds no object for checked in 1 image") as caught:
        check(CheckOptions(name="checked", images=checked / "photos" / "none.png", workers=1))
    assert "min_score" in caught.value.hint
