import importlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from infer_app.base.errors import ModelError, UsageError
from infer_app.build.build_model import build_model
from infer_app.build.network import model_source
from infer_app.cli.model.model import unproven_activation
from infer_app.predict.runtimes.torchscript import build_cpu_variant
from infer_app.predict.verification.outputs import KINDS
from tests.support.networks import MEAN, RECIPE, SIZE, Network, built, random_pixels, request, save_photos


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_new_artifact_is_sound_and_complete(tmp_path):
    artifact = built(tmp_path)
    artifact.verify()
    assert not artifact.reused
    golden = {f"golden/{name}" for name in ("1.jpg", "2.jpg", "3.png", "4.jpg", "pixels.npy", "outputs.npy")}
    assert set(artifact.manifest.files) == {"source.ts", "labels.txt"} | golden
    assert (artifact.manifest.num_outputs, artifact.manifest.recipe, artifact.manifest.mean) == (3, RECIPE, MEAN)
    assert artifact.manifest.variants["cpu-torchscript"]["parity"]["label_agreement"] == 1


def test_building_the_same_again_leaves_it_as_it_is(tmp_path):
    """Lists and whole numbers mean the same, as a shell gives them."""
    first = built(tmp_path, mean=[0, 0, 0], std=(1, 1, 1))
    before = files_of(tmp_path / "models")
    again = built(tmp_path, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    assert again == replace(first, reused=True)
    assert files_of(tmp_path / "models") == before


def test_a_model_that_an_earlier_release_built_is_found_whatever_its_activation(tmp_path, monkeypatch):
    scores = nn.Sequential(Network(), nn.Sigmoid())
    monkeypatch.setattr("infer_app.build.network.validate_source.check_activation", lambda *_: None)
    former = built(tmp_path, scores, labels=None)
    monkeypatch.undo()
    assert built(tmp_path, scores, labels=None) == replace(former, reused=True)
    assert "activation=sigmoid-applied" in unproven_activation(former)
    with pytest.raises(ModelError, match="the outputs are scores already"):
        built(tmp_path, scores, labels=None, name="other")


def test_other_golden_images_for_a_model_that_is_there_are_refused(tmp_path):
    first, second = (save_photos(tmp_path / name, count) for name, count in (("first", 2), ("second", 3)))
    artifact = built(tmp_path, golden=first)
    assert built(tmp_path, golden=first).reused
    assert built(tmp_path).reused  # as before: none are given
    with pytest.raises(UsageError, match="is there already, with other golden images") as caught:
        built(tmp_path, golden=second)
    version = f"colours@{artifact.manifest.model_id[:8]}"
    assert caught.value.hint.startswith(f"`infer model remove {version}`, then build it again")


def test_building_again_repairs_a_damaged_artifact(tmp_path):
    damaged = built(tmp_path)
    (damaged.folder / "labels.txt").write_text("x\ny\nz\n")
    again = built(tmp_path)
    assert (again.reused, again.folder) == (False, damaged.folder)
    again.verify()
    assert [path.name for path in again.folder.parent.iterdir()] == [again.manifest.model_id]


def test_a_model_that_is_refused_leaves_nothing(tmp_path):
    with pytest.raises(ModelError, match="3 labels for 5 outputs"):
        built(tmp_path, Network())
    assert not (tmp_path / "models").exists()


def test_raw_outputs_keep_their_shape(tmp_path):
    artifact = built(tmp_path, nn.Conv2d(3, 2, 3), labels=None, output="raw")
    assert artifact.manifest.output.shape == (2, SIZE - 2, SIZE - 2)
    rows = build_cpu_variant(artifact)(random_pixels(1))
    (output,) = KINDS[artifact.manifest.output.kind].decode(rows, artifact.manifest.output)
    assert output is not None
    assert (json.loads(output.details), output.vector_dim) == ({"shape": [2, 14, 14]}, 2 * 14 * 14)


def test_a_failure_while_writing_leaves_nothing(tmp_path, no_space):
    asked = request(tmp_path)
    with pytest.raises(OSError, match="File too large"), no_space():
        build_model(asked, tmp_path / "models")
    assert list((tmp_path / "models" / "colours").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "../x"}, "model name '../x' is not allowed"),
        ({"input": "uint8-nhwc"}, "normalises by itself"),
        ({"mean": (127, 127, 127)}, "not on the 0-1 scale"),
        ({"std": (0, 1, 1)}, "not on the 0-1 scale"),
        ({"std": (58, 57, 57)}, "not on the 0-1 scale"),
        *(({flag: Path("nothing-here")}, "nothing-here") for flag in ("labels", "golden")),
    ],
)
def test_flags_that_make_no_sense_are_usage_errors(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        built(tmp_path, **changes)


def test_golden_images_that_are_none_are_refused(tmp_path):
    with pytest.raises(ModelError, match="no image that can be decoded"):
        built(tmp_path, golden=tmp_path)


@pytest.fixture
def user(tmp_path, monkeypatch):
    """The current folder, for modules of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("user_")]:
        del sys.modules[name]


MAKE = "import torch\nfrom user_layers import Layers\n\ndef make():\n    torch.manual_seed(0)\n    return Layers()\n"
LAYERS = """
import torch

class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 4)

    def forward(self, x):
        return self.last({})
"""


def callable_request(folder, pooled="x.mean((2, 3))"):
    """A callable in one file, whose network is defined in another."""
    (folder / "user_make.py").write_text(MAKE)
    (folder / "user_layers.py").write_text(LAYERS.format(pooled))
    for name in ("user_make", "user_layers"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    return request(folder, source="user_make:make", labels=None)


@pytest.mark.filterwarnings("ignore:torch.tensor results are registered as constants")
@pytest.mark.parametrize("pooled", ["x.amax((2, 3))", "(x + torch.tensor([0.5, 0, 0]).view(3, 1, 1)).mean((2, 3))"])
def test_a_network_that_changed_in_another_file_has_another_id(user, pooled):
    """By its operators, or by a number among them alone."""
    changed = pooled.replace("0.5", "0.25") if "0.5" in pooled else "x.mean((2, 3))"
    first, second = (build_model(callable_request(user, one), user / "models") for one in (changed, pooled))
    assert (second.reused, second.manifest.model_id != first.manifest.model_id) == (False, True)
    assert build_model(callable_request(user, changed), user / "models").folder == first.folder


def test_the_id_of_a_callable_is_that_of_another_process_and_folder(user):
    here = build_model(callable_request(user), user / "models").manifest.source_sha256
    other = user / "a" / "folder"
    other.mkdir(parents=True)
    callable_request(other)
    code = (
        "import torch; from torch import nn; from infer_app.build.network.model_source import find_source\n"
        "from infer_app.artifact.specs import InputSpec; from infer_app.base.size import Size\n"
        "torch.jit.trace(nn.Linear(2, 2), torch.rand(1, 2))\n"  # classes of the process are numbered
        f"source = find_source('user_make:make', None)\n"
        f"print([source.read(InputSpec(), Size.square({SIZE})).sha256 for _ in range(2)])"
    )
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=other, check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == str([here, here])


def test_a_build_that_gives_other_outputs_under_a_known_id_is_refused(user, monkeypatch):
    """As by another library that the id does not cover."""
    monkeypatch.setattr(model_source, "computation_sha256", lambda _: "the same")
    first = build_model(callable_request(user), user / "models")
    with pytest.raises(ModelError, match=f"colours@{first.manifest.model_id} is there already, but .* other") as caught:
        build_model(callable_request(user, "x.amax((2, 3))"), user / "models")
    assert caught.value.exit_code == 12
    assert "`infer model remove colours@" in caught.value.hint
    assert build_model(callable_request(user), user / "models").reused


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def pre(rgb):\n    from user_rest import half\n    return half(rgb)\n", "imports the local module user_rest"),
        ("from . import user_rest\n\ndef pre(rgb):\n    return rgb\n", "user_pre failed|imports the local module"),
        ("import user_parts.more\n\ndef pre(rgb):\n    return rgb\n", "imports the local module user_parts"),
        ("def pre(rgb):\n    return rgb[:8, :8]\n", "preprocess gave uint8"),
        ("def pre(rgb):\n    return 1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_preprocess_function_that_can_not_work_every_night_is_refused(user, code, message):
    (user / "user_pre.py").write_text(code)
    (user / "user_rest.py").write_text("def half(rgb):\n    return rgb[:16, :16]\n")
    (user / "user_parts").mkdir()
    (user / "user_parts" / "more.py").write_text("")
    with pytest.raises((ModelError, UsageError), match=message):
        built(user, recipe=None, preprocess="user_pre:pre")
