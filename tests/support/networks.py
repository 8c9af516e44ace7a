"""Modules of two lines, and what a test needs to build an artifact of one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.description import Description
from infer_app.artifact.recipe import Recipe
from infer_app.build.build_model import build_model
from infer_app.build.network.golden_set import load_pixels
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.torchscript import load_torchscript, source_rows
from infer_app.predict.verification.golden import predict_all
from tests.support.photos import jpeg

SIZE = 16
RECIPE = Recipe("crop-resize", SIZE, crop=0.875)
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


class Means(nn.Module):
    """(n, 3): each channel's mean, seen through a matrix so that the three differ in scale."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)
        with torch.no_grad():
            self.mix.weight.copy_(torch.tensor([[1.0, 0.2, 0.0], [0.0, 2.0, 0.3], [0.4, 0.0, 3.0]]))
            self.mix.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.mix(x.mean((2, 3)))
        return mixed


class ChannelMeans(nn.Module):
    """Three scores for an image: how red, green and blue it is."""

    def forward(self, pixels: Tensor) -> Tensor:
        return 8.0 * pixels.mean((2, 3))


class Tiles(nn.Module):
    """(n, 36): the mean of each channel in 3 rows of 4 tiles, which shows where in a picture each colour is."""

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(pixels, (3, 4)).flatten(1)


class NotANumberForWhite(nn.Module):
    """NaN for an image that is all white, the channel means of any other."""

    def forward(self, pixels: Tensor) -> Tensor:
        means = pixels.mean((2, 3))
        return torch.where(means.amin(1, True) > 0.999, torch.full_like(means, torch.nan), 8.0 * means)


class NeedsMemoryForWhite(nn.Module):
    """Asks torch for more memory than there is, for a white image in a batch of too many images."""

    def __init__(self, num_images_that_fit: int) -> None:
        super().__init__()
        self.num_images_that_fit = num_images_that_fit

    def forward(self, pixels: Tensor) -> Tensor:
        means = pixels.mean((2, 3))
        if pixels.shape[0] > self.num_images_that_fit:  # the size is no constant, which OpenVINO would try to fold
            means = means + torch.empty([int((means.amin(1) > 0.999).sum()) << 45]).sum()
        return 8.0 * means


class Network(nn.Module):
    """Padding of TensorFlow's kind, a grouped convolution, BatchNorm, ReLU6: (n, 5)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.Conv2d(3, 8, 3, stride=2, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.ZeroPad2d(1),
            nn.Conv2d(8, 8, 3, groups=8),
            nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layers(x)
        return outputs


class PixelMeans(nn.Module):
    """Takes uint8 (n, H, W, 3) as decoded and normalises by itself: (n, 3)."""

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels.float().mean((1, 2)) / 32.0


class NoSuchOperator(nn.Module):
    """Calls what TorchScript has and OpenVINO lacks."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.i1(x).mean((2, 3))


def traced(
    module: nn.Module, batch: int = 2, *, train: bool = False, shape: tuple[int, int] = (SIZE, SIZE)
) -> torch.jit.ScriptModule:
    module.train(train)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # BatchNorm in training mode looks at the batch
        return torch.jit.trace(module, torch.rand(batch, 3, *shape), check_trace=False)


def save(module: nn.Module, path: Path) -> Path:
    """As a user does: a TorchScript file."""
    script = module if isinstance(module, torch.jit.ScriptModule) else traced(module)
    torch.jit.save(script, str(path))
    return path


def request(folder: Path, module: nn.Module | None = None, **changes: object) -> Description:
    """To build `module` (Means) with three labels; saved once, as no two saves are the same bytes."""
    folder.mkdir(exist_ok=True)
    module = module or Means()
    source = folder / f"{type(module).__name__}.pt"
    if not source.exists():
        save(module, source)
    labels = folder / "labels.txt"
    labels.write_text("red\ngreen\nblue\n", encoding="utf-8")
    plain = {"source": str(source), "name": "colours", "labels": labels, "recipe": "crop-resize", "size": SIZE}
    return Description(**{**plain, "mean": MEAN, "std": STD, **changes})


def built(folder: Path, module: nn.Module | None = None, **changes: object) -> Artifact:
    return build_model(request(folder, module, **changes), folder / "models")


def built_colors(folder: Path, module: nn.Module | None = None, **changes: object) -> Artifact:
    """Build `module` (ChannelMeans) for pixels as they are, stretched."""
    plain = {"name": "colors", "recipe": "stretch", "mean": (0, 0, 0), "std": (1, 1, 1)}
    return built(folder, module or ChannelMeans(), **(plain | changes))


def save_photos(folder: Path, num_images: int = 24) -> Path:
    """A folder of photos, each of a colour of its own."""
    folder.mkdir()
    random = np.random.default_rng(5)
    for number, color in enumerate(random.integers(0, 256, (num_images, 3)).tolist()):
        (folder / f"{number:02}.jpg").write_bytes(jpeg(30 + number, 24, tuple(color)))
    return folder


def random_pixels(num_images: int, size: int = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (num_images, size, size, 3), dtype=np.uint8)


def run_artifact(artifact: Artifact, pixels: np.ndarray) -> np.ndarray:
    """(n, D) float32: the outputs of the model as it was given, neither frozen nor fused."""
    module = load_torchscript(artifact.read(artifact.manifest.model_file))
    return source_rows(module, artifact.manifest.input_spec, pixels)


def predict_rows(model: FixedBatch, pixels: np.ndarray) -> np.ndarray:
    """(n, D) float32: the outputs of a variant that was opened, for any number of pictures."""
    return predict_all(model, pixels, model.batch_size)


def loader_of(artifact: Artifact, **changed: object) -> Callable[[bytes], np.ndarray]:
    """Return what makes pixels of an image as runs of a model do, or as they would with another recipe."""
    return partial(load_pixels, recipe=replace(artifact.manifest.recipe, **changed))  # type: ignore[arg-type]
