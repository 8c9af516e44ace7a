"""A detector, and networks that are built on it."""

import json

import numpy as np
import pytest

from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.commands.model_commands import JudgeOptions
from infer_app.cli.model.build import build
from infer_app.cli.model.judge_command import judge
from infer_app.cli.model.model import find_model, show
from infer_app.cli.model.version_commands import list_models
from infer_app.errors import InferError, ModelError, UsageError
from infer_app.images.transform.crop import cut_out
from infer_app.images.transform.geometry import Picture
from infer_app.models.artifact.specs import CropSpec
from infer_app.recipe import CropRule, Size
from tests.support.detectors import Quadrants
from tests.support.networks import ChannelMeans, save, traced

CUT = """
import numpy as np

def cut(picture, box):
    top = int(box[1] * len(picture))
    return picture[top:, ::-1]

def cut_none(picture, box):
    return None
"""


def build_options(source: str, name: str, **given: object) -> BuildOptions:
    given |= {"size": Size.square(64), "mean": "0", "std": "1"}
    return BuildOptions(source=source, name=name, tune=False, **given, given=frozenset(given))


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
    build_species(min_score=0.2, of_label=["red"], crop="square-pad", crop_margin="30px", crop_min="224px")
    told = "pictures: objects found by animals from a score of 0.2 on, labels: red; crop: square-pad, margin 30 pixels"
    assert told in capsys.readouterr().out
    manifest = find_model("species", None).manifest
    assert manifest.crop == CropSpec("animals", 0.2, ("red",), CropRule("square-pad", 0.0, 30, 224))
    show("species", False, None)
    assert told in capsys.readouterr().out
    show("species", True, None)
    assert json.loads(capsys.readouterr().out)["crop"]["of"] == "animals"
    list_models(True, None)
    listed = {one["name"]: one["of"] for one in json.loads(capsys.readouterr().out)["models"]}
    assert (listed["species"], listed["animals"]) == ("animals", None)


def test_of_the_same_network_another_gate_is_another_model(capsys):
    build_species("gates")
    build_species("gates", min_score=0.5)
    build_species("gates", min_score=0.5)
    assert "is there already" in capsys.readouterr().out
    list_models(True, None)
    models = json.loads(capsys.readouterr().out)["models"]
    assert len({one["model_id"] for one in models if one["name"] == "gates"}) == 2


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"of_label": ["blue"]}, "animals finds no objects of the label 'blue'"),
        ({"min_score": 0.01}, "animals stores them from 0.05 on"),
        ({"decode": "scaled"}, "the second network decodes pictures by scaled"),
        ({"crop": "cutting:nothing"}, "nothing"),
    ],
)
def test_what_does_not_fit_the_detector_is_not_built(folder, given, message):
    with pytest.raises(InferError, match=message):
        build_species("refused", **given)
    assert not (folder / "models" / "refused").exists()


def test_a_second_network_is_no_detector_of_a_third():
    build_species("second")
    with pytest.raises(ModelError, match="two stages, not more"):
        build(build_options("means.ts", "third", of="second", recipe="stretch"))


def test_half_precision_is_not_judged_on_whole_images(folder):
    build_species("judged")
    (folder / "infer.toml").touch()
    with pytest.raises(UsageError, match="judged is a second network") as caught:
        judge(JudgeOptions(name="judged", config=folder / "infer.toml"))
    assert "--calibrate" in caught.value.hint
