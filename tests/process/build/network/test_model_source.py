import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.size import Size
from infer_app.build.network.model_source import find_source
from infer_app.build.sources.callables import source_code
from infer_app.predict.runtimes.torchscript import load_torchscript
from tests.support.networks import SIZE, Network, save

CODE = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 14 * 14, 5))

def seeded():
    torch.manual_seed(1)
    return make()

def expanded():
    module = seeded()
    module.register_buffer("scale", torch.tensor(2.0).expand(1))
    return module

class Head(nn.Module):
    def __init__(self, batch, wrap=None):
        super().__init__()
        torch.manual_seed(1)
        self.batch, self.wrap, self.linear = batch, wrap, nn.Linear(768, 4)

    def forward(self, x):
        scores = self.linear(x.reshape(self.batch, 768))
        return self.wrap(scores) if self.wrap else scores

def one_at_a_time():
    return Head(1)

def in_a_dict():
    return Head(-1, lambda scores: {"logits": scores})

def untraceable():
    return Head(-1, lambda scores: 1 / 0 if torch.jit.is_tracing() else scores)

def number():
    return 3

def broken():
    raise OSError("no weights here")
"""


def make():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 14 * 14, 5))


@pytest.fixture
def user(tmp_path, monkeypatch):
    """The current folder, with user_net.py in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "user_net.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop("user_net", None)


def read(source, weights=None):
    return find_source(source, weights).read(InputSpec(), Size.square(SIZE))


def test_the_hash_of_a_callable_is_that_of_its_code_and_weights(user):
    once = read("user_net:seeded").sha256
    assert read("user_net:seeded").sha256 == once
    path = user / "weights.pt"
    torch.save(make().state_dict(), path)
    weighted = read("user_net:make", path).sha256
    assert weighted != once
    state = torch.load(path)
    state["3.bias"][0] += 1e-6
    torch.save(state, path)
    assert read("user_net:make", path).sha256 != weighted
    (user / "user_net.py").write_text(CODE + "# another line\n")
    sys.modules.pop("user_net")
    assert read("user_net:seeded").sha256 != once


def test_a_buffer_that_is_a_view_is_hashed_alike_each_time(user):
    assert read("user_net:expanded").sha256 == read("user_net:expanded").sha256


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_weights_reach_the_module_that_is_traced_in_eval_mode(user, name):
    torch.manual_seed(5)
    module = make().eval()
    (save_file if name.endswith("safetensors") else torch.save)(module.state_dict(), user / name)
    pictures = torch.rand(2, 3, SIZE, SIZE)
    with torch.no_grad():
        traced = load_torchscript(read("user_net:make", user / name).model)
        torch.testing.assert_close(traced(pictures), module(pictures))


@pytest.mark.parametrize(
    ("source", "message", "hint", "unsaid"),
    [
        ("one_at_a_time", r"^the module runs on 1 at a time but not on 2: shape '\[1", "any batch", "--size"),
        ("in_a_dict", "^the module returns a dict, not a tensor$", "wrap it", "--size"),
        ("untraceable", "can't trace the module.*division by zero", "", "--size"),
        ("make", "other weights at each call", "--weights", "--size"),
    ],
)
def test_a_module_that_can_not_be_used_is_refused_with_what_to_do(user, source, message, hint, unsaid):
    with pytest.raises(ModelError, match=message) as caught:
        read(f"user_net:{source}")
    assert hint in caught.value.hint
    assert unsaid not in caught.value.hint


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (lambda state: state | {"head.weight": torch.ones(1)}, "unexpected head.weight", "the network"),
        (lambda state: {key: state[key] for key in list(state)[1:]}, "missing 0.weight", "the network"),
        (lambda state: {}, "missing 0.bias, 0.weight, 1.bias and 5 more", "the network"),
        (lambda state: {"model": state, "ema": state}, "unexpected ema, model", "one of 'model', 'ema' on its own"),
        (lambda state: {1: torch.ones(1), "a": torch.ones(1)}, "unexpected 1, a", "the network"),
        (lambda state: state | {"3.bias": torch.ones(7)}, "size mismatch for 3.bias", "number of classes"),
        (lambda state: [1, 2], "holds a list", "state_dict"),
    ],
)
def test_weights_of_another_module_are_refused_with_what_differs(user, change, message, hint):
    torch.save(change(make().state_dict()), user / "weights.pt")
    with pytest.raises(ModelError) as caught:
        read("user_net:make", user / "weights.pt")
    assert message in caught.value.message
    assert hint in caught.value.hint


def parallel(state):
    return {f"module.{key}": value for key, value in state.items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: {key: state[key] for key in state if not key.endswith("num_batches_tracked")}, []),
        (lambda state: {"net": state, "epoch": 3, "optimizer": {"lr": 0.1}}, ["its entry 'net' is taken"]),
        (parallel, ["its names are taken without 'module.'"]),
        (lambda state: {"state_dict": parallel(state)}, ["its entry 'state_dict'", "without 'module.'"]),
    ],
)
def test_weights_are_taken_as_training_saves_them_and_it_is_said(user, caplog, change, said):
    torch.save(make().state_dict(), user / "plain.pt")
    torch.save(change(torch.load(user / "plain.pt")), user / "weights.pt")
    assert read("user_net:make", user / "weights.pt").sha256 == read("user_net:make", user / "plain.pt").sha256
    assert [text in message for text, message in zip(said, caplog.messages, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(
    ("source", "weights", "error", "message"),
    [
        ("user_net:make", "garbage.pt", ModelError, "no weights can be read"),
        ("user_net:make", "garbage.safetensors", ModelError, "no weights can be read"),
        ("user_net:make", "whole.pt", ModelError, "no weights can be read"),  # a pickle that would run code
        ("user_net:make", "gone.pt", UsageError, "No such file"),
        ("network.pt", "whole.pt", UsageError, "--weights belongs to a callable"),
        ("user_net:number", None, ModelError, "returned a int"),
        ("user_net:broken", None, ModelError, "OSError: no weights here"),
        ("user_net:mak", None, UsageError, "has no 'mak'"),
        ("no/such/file.pt", None, UsageError, "no file no/such/file.pt"),
        ("my-vit", None, UsageError, "my-vit is a folder without config.json"),
        ("network.onnx", None, ModelError, "not a whole ONNX file"),
        ("state.pt", None, ModelError, "a state dict of 2 tensors, by its keys of a torchvision or timm ResNet"),
        ("checkpoint.pt", None, ModelError, "a state dict of 2 tensors, by its keys of a torchvision or timm ResNet"),
    ],
)
def test_what_is_no_source_and_what_are_no_weights_is_refused(user, source, weights, error, message):
    (user / "my-vit").mkdir()
    (user / "network.onnx").write_bytes(b"\x08\x09")
    save(Network(), user / "network.pt")
    torch.save(make(), user / "whole.pt")
    state = {"layer1.0.conv1.weight": torch.zeros(3), "fc.bias": torch.zeros(3)}
    torch.save(state, user / "state.pt")
    torch.save({"state_dict": state, "epoch": 3}, user / "checkpoint.pt")
    for name in ("garbage.pt", "garbage.safetensors"):
        (user / name).write_bytes(b"garbage")
    with pytest.raises(error, match=message) as caught:
        read(source, weights and user / weights)
    assert caught.value.hint


def test_a_function_without_a_file_is_refused():
    with pytest.raises(UsageError, match="has no source file"):
        source_code(len)
