"""`infer verify` over what real runs of each kind of model wrote, and over a row that was edited by hand."""

import pytest
from PIL import Image
from torch import nn

from infer_app.base.errors import EXIT_BUG
from tests.support.detectors import Quadrants
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Brightness(nn.Module):
    def forward(self, pixels):
        return 8.0 * pixels.mean((1, 2, 3))[:, None]


class Colours(nn.Module):
    """A score for each channel, as a network with several labels gives them that ends in its own sigmoid."""

    def forward(self, pixels):
        return (4 * pixels.mean((2, 3)) - 2).sigmoid()


NETWORKS = {
    "classifier": (ChannelMeans(), ["--labels", "labels.txt"]),
    "several": (Colours(), ["--set", "activation=sigmoid-applied"]),
    "detector": (Quadrants(), ["--output", "detection"]),
    "number": (Brightness(), ["--output", "regression"]),
}


def test_rows_of_real_runs_are_right_and_an_edited_one_is_named(tmp_path):
    project = Project(tmp_path / "project")
    (project.folder / "labels.txt").write_text("red\ngreen\nblue\n")
    for number, color in enumerate([(255, 0, 0), (0, 255, 0), (9, 9, 9)]):
        Image.new("RGB", (80, 60), color).save(project.photos / f"{number}.png")
    (project.photos / "broken.jpg").write_bytes(b"no photo")
    project.add("photos")
    for name, (module, flags) in NETWORKS.items():
        save(module, project.folder / f"{name}.ts")
        project.infer("model", "build", f"{name}.ts", "--name", name, "--size", "64", *flags)
        project.run_day("--model", name)
    verified = project.infer_json("verify", "--date", DATE)
    assert [(one["predicted"], one["rejected"]) for one in verified["models"]] == [(3, 1)] * 4
    assert verified["wrong_rows"] == []
    project.write("UPDATE infer_predictions SET label = 'violet' WHERE picture = 2 AND label = 'green'")
    told = project.infer("verify", "--date", "2020-01-01", exit_code=EXIT_BUG)
    assert "wrong, of all days: 1 prediction with a label that its model has not: image 2" in told
