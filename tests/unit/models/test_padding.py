import pytest
import torch
from small_models import Network
from torch import nn

from infer_app.models.runtimes.padding import fold_padding


def frozen(module, example):
    with torch.no_grad():
        return torch.jit.freeze(torch.jit.trace(module.eval(), example, check_trace=False))


def num_pads(script):
    return str(script.graph).count("aten::pad(") + str(script.graph).count("aten::constant_pad_nd(")


@pytest.mark.parametrize("sides", [(1, 1, 1, 1), (0, 1, 0, 1), (2, 1, 0, 3), (1, 2, 1, 2), (0, 0, 2, 2)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 4])
def test_zero_padding_before_a_convolution_is_folded_and_changes_nothing(sides, stride, groups):
    module = nn.Sequential(nn.ZeroPad2d(sides), nn.Conv2d(4, 8, (3, 5), stride=stride, groups=groups))
    pictures = torch.rand(2, 4, 13, 17)
    script, expected = frozen(module, pictures), module(pictures)
    assert fold_padding(script.graph) == 1
    assert num_pads(script) == 0
    with torch.no_grad():
        torch.testing.assert_close(script(pictures), expected.detach(), rtol=1e-5, atol=1e-6)


def test_padding_adds_to_the_convolution_s_own():
    module = nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(3, 4, 3, padding=2, dilation=2))
    pictures = torch.rand(1, 3, 9, 9)
    script, expected = frozen(module, pictures), module(pictures)
    assert fold_padding(script.graph) == 1
    with torch.no_grad():
        torch.testing.assert_close(script(pictures), expected.detach())


class _Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)

    def forward(self, x):
        padded = nn.functional.pad(x, (1, 1, 1, 1))
        return self.conv(padded) + padded[:, :, 1:-1, 1:-1]


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.ConstantPad2d(1, 0.5), nn.Conv2d(3, 4, 3)),
        nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3)),
        nn.Sequential(nn.ZeroPad2d(-1), nn.Conv2d(3, 4, 3)),
        nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 3, dilation=2)),
        nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 3, padding=1)),
        nn.Sequential(nn.ZeroPad2d(1), nn.ConvTranspose2d(3, 4, 3)),
        nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(3)),
        _Twice(),
    ],
)
def test_what_is_not_plain_zero_padding_of_one_convolution_stays(module):
    script = frozen(module, torch.rand(1, 3, 9, 9))
    before = str(script.graph)
    assert fold_padding(script.graph) == 0
    assert str(script.graph) == before


def test_all_padding_of_a_network_is_folded():
    pictures = torch.rand(2, 3, 16, 16)
    module = Network()
    script, expected = frozen(module, pictures), module(pictures)
    assert fold_padding(script.graph) == 2
    with torch.no_grad():
        torch.testing.assert_close(script(pictures), expected.detach(), rtol=1e-5, atol=1e-6)
