"""From a source of each kind to predictions by three commands, without a word about preprocessing."""

import os

import pytest

from tests.support.graphs import save_onnx
from tests.support.library_networks import SITE, save_hugging_face, save_timm, save_weights
from tests.support.networks import ChannelMeans, save
from tests.support.projects import PLAIN, Project, without

pytestmark = pytest.mark.slow


def hugging_face(folder):
    save_hugging_face(folder / "net", size={"height": 32, "width": 32})
    return ["net"]


def timm_folder(folder):
    save_timm(folder / "net", "test_resnet", input_size=(3, 64, 64), crop_mode="squash", crop_pct=0.9)
    return ["net"]


def timm_name(folder):
    save_weights(folder / "weights.pt", pytest.importorskip("timm").create_model("test_resnet", num_classes=5))
    return ["timm:test_resnet", "--weights", "weights.pt"]


def torchvision_name(folder):
    network = pytest.importorskip("torchvision.models").resnet18(num_classes=5)
    save_weights(folder / "weights.pt", network)
    return ["torchvision:resnet18", "--weights", "weights.pt"]


def onnx_file(folder):
    save_onnx(folder / "net.onnx", props={"names": "{0: 'red', 1: 'green', 2: 'blue'}"})
    return ["net.onnx"]


@pytest.mark.parametrize("make", [hugging_face, timm_folder, timm_name, torchvision_name, onnx_file])
def test_a_source_predicts_as_its_own_library_does(tmp_path, make):
    project = Project(tmp_path / "project")
    project.add_photos(24)
    with_libraries = {"PYTHONPATH": os.pathsep.join([str(SITE), os.environ.get("PYTHONPATH", "")])}
    project.infer("model", "build", *make(project.folder), "--name", "net", **with_libraries)
    assert "taken from" in project.errors
    # The labels of 24 photos prove little; that they are the same is what is asked here.
    checked = project.infer_json("model", "check", "net", "--images", "photos", exit_code=4, **with_libraries)
    assert (checked["num_compared"], checked["agreement"]) == (24, 1.0)
    day = project.run_day(**without(tmp_path / "hides", "timm", "torchvision", "transformers"))  # runs need no library
    assert (day["predicted"], day["day"]["pending"]) == (24, 0)


def test_a_model_file_is_written_filled_in_and_built(tmp_path):
    project = Project(tmp_path / "project")
    save(ChannelMeans(), project.folder / "net.ts")
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    flags = ("--name", "net", "--labels", "labels.txt", *PLAIN)
    by_flags = project.infer_json("model", "build", "net.ts", *flags)
    project.infer("model", "describe", "net.ts", "--to", "net.toml")
    project.infer("model", "build", "net.toml", exit_code=2)
    assert "net.toml: left blank: name, labels, recipe, size, mean, std" in project.errors
    filled = {"name": '"net"', "labels": '"labels.txt"', "recipe": '"stretch"', "size": "16", "mean": "0", "std": "1"}
    text = (project.folder / "net.toml").read_text()
    for key, value in filled.items():
        text = text.replace(f'\n{key} = "?"\n', f"\n{key} = {value}\n")
    (project.folder / "net.toml").write_text(text)
    by_file = project.infer_json("model", "build", "net.toml")
    assert (by_file["model_id"], by_file["reused"]) == (by_flags["model_id"], True)
    other = project.infer_json("model", "build", "net.toml", "--set", "interpolation=bilinear", "--size", "24")
    assert (other["reused"], other["model_id"] == by_file["model_id"]) == (False, False)
    project.infer("model", "build", "net.toml", "--set", "interpolation=cubic", exit_code=2)
    assert project.errors.startswith("infer: interpolation 'cubic' is not allowed")
