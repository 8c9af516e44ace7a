"""A detector of the size that users of MegaDetector run, with random weights: 1280², some 420 GMAC an image.

It has the parts of a detector of the YOLO family, written from their papers: cross stage partial stages (Wang et al.
2019) at strides 2 to 64, a path aggregation network (Liu et al. 2018), and at four strides three anchors a cell.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

SIZE = 1280
STRIDES = (8, 16, 32, 64)
NUM_CLASSES = 3
ANCHORS = ((0.5, 1.0), (1.0, 1.0), (1.0, 0.5))  # width and height of a box, in ANCHOR_STRIDES
ANCHOR_STRIDES = 3.0
WIDTHS = (80, 160, 320, 640, 960, 1280)  # channels at the strides 2, 4, 8, 16, 32, 64
DEPTHS = (4, 8, 12, 4, 4)  # blocks of the stages from stride 4 on
NECK_DEPTH = 4
RESIDUAL_SCALE = 0.3  # of each block beside its shortcut: with 1, a random network would amplify every rounding
OBJECT_SHARE = 3e-5  # of the anchors of each kind: 3 of an image, beside others that score nearly as much
# Standard deviations of the logits that move and size a box, of objectness and of the classes. None of them saturates:
# of scores that are 1 but for rounding, chance would choose the best.
SPREADS = (0.5,) * 4 + (3.0,) + (0.2,) * NUM_CLASSES
CLASS_MARGIN = 3.0  # between the logit of an anchor's own class and those of the others
DEEP_SHARE = 0.1  # of the logits, beside those of a cell's contrast: random layers amplify rounding, trained ones don't


class LargeDetector(nn.Module):
    """(n, 3, height, width) to (n, anchors, 5 + classes): x, y, width, height in pixels, objectness, class scores."""

    def __init__(self, width: float = 1.0, depth: float = 1.0) -> None:
        super().__init__()
        widths = [max(8, round(channels * width / 8) * 8) for channels in WIDTHS]
        depths = [max(1, round(count * depth)) for count in DEPTHS]
        self.stem = _conv(3, widths[0], 6, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(_conv(before, after, 3, 2), Stage(after, after, count))
            for (before, after), count in zip(pairwise(widths), depths, strict=True)
        )
        sizes, neck = widths[2:], max(1, round(NECK_DEPTH * depth))
        self.reduced = nn.ModuleList(_conv(large, small, 1) for small, large in pairwise(sizes))
        self.down = nn.ModuleList(Stage(2 * small, small, neck) for small in sizes[:-1])
        self.strided = nn.ModuleList(_conv(small, small, 3, 2) for small in sizes[:-1])
        self.up = nn.ModuleList(Stage(small + large, large, neck) for small, large in pairwise(sizes))
        self.heads = nn.ModuleList(Head(channels, stride) for channels, stride in zip(sizes, STRIDES, strict=True))

    def forward(self, pixels: Tensor) -> Tensor:
        heads = zip(self.heads, self.features(pixels), STRIDES, strict=True)
        return torch.cat([_boxes(head(features, pixels), stride) for head, features, stride in heads], 1)

    def features(self, pixels: Tensor) -> list[Tensor]:
        """Return the features at each stride that has a head."""
        features, found = self.stem(pixels), []
        for stage in self.stages:
            features = stage(features)
            found.append(features)
        found = found[-len(STRIDES) :]
        for index in reversed(range(len(found) - 1)):
            above = nn.functional.interpolate(self.reduced[index](found[index + 1]), scale_factor=2.0)
            found[index] = self.down[index](torch.cat([above, found[index]], 1))
        for index in range(len(found) - 1):
            found[index + 1] = self.up[index](torch.cat([self.strided[index](found[index]), found[index + 1]], 1))
        return found


class Stage(nn.Module):
    """Half of the channels pass through residual blocks, the other half beside them."""

    def __init__(self, channels: int, width: int, count: int) -> None:
        super().__init__()
        half = width // 2
        self.through, self.beside = _conv(channels, half, 1), _conv(channels, half, 1)
        self.blocks = nn.ModuleList(nn.Sequential(_conv(half, half, 1), _conv(half, half, 3)) for _ in range(count))
        self.joined = _conv(width, width, 1)

    def forward(self, features: Tensor) -> Tensor:
        through = self.through(features)
        for block in self.blocks:
            through = through + RESIDUAL_SCALE * block(through)
        return self.joined(torch.cat([through, self.beside(features)], 1))


class Head(nn.Module):
    """The logits of each cell: (n, anchors of a cell x (5 + classes), rows, columns)."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.deep = nn.Conv2d(channels, len(ANCHORS) * (5 + NUM_CLASSES), 1)
        self.colour = nn.Conv2d(3, len(ANCHORS) * (5 + NUM_CLASSES), 1)

    def forward(self, features: Tensor, pixels: Tensor) -> Tensor:
        return self.deep(features) + self.colour(_contrast(pixels, self.stride))

    def set_scores(self, features: Tensor, pixels: Tensor) -> None:
        """Scale and shift the logits so that they differ between places, and few anchors have an object."""
        colours, weight = _contrast(pixels, self.stride), self.colour.weight
        weight.copy_(weight.abs() * weight[:, :1].sign())  # differences of colours would amplify rounding
        for conv, inputs, share in ((self.deep, features, DEEP_SHARE), (self.colour, colours, 1.0)):
            _rescale(conv, inputs, share)
        logits = _by_anchor(self(features, pixels))
        shift = torch.zeros(logits.shape[:2])
        shift[:, 4] = logits[:, 4].sort(1).values[:, round((1 - OBJECT_SHARE) * (logits.shape[2] - 1))]
        shift[:, 5:] = CLASS_MARGIN * (0.5 - torch.eye(len(ANCHORS), NUM_CLASSES))
        self.colour.bias -= shift.flatten()


def large_detector(pixels: Tensor, width: float = 1.0, depth: float = 1.0) -> LargeDetector:
    """Return a detector that finds objects in `pixels`, (n, 3, height, width) normalised, and in others like them."""
    torch.manual_seed(0)
    network = LargeDetector(width, depth)
    with torch.no_grad():
        network.train()
        for picture in pixels:
            network.features(picture[None])
        network.eval()
        found = [network.features(picture[None]) for picture in pixels]
        for head, features in zip(network.heads, zip(*found, strict=True), strict=True):
            head.set_scores(torch.cat(features), pixels)
    return network.eval()


def _contrast(pixels: Tensor, stride: int) -> Tensor:
    """Return how far the mean colour of each cell is from that of the cells around it."""
    cells = nn.functional.avg_pool2d(pixels, stride)
    return cells - nn.functional.avg_pool2d(cells, 3, 1, 1, count_include_pad=False)


def _rescale(conv: nn.Conv2d, inputs: Tensor, share: float) -> None:
    """Give the logits a mean of 0 and their share of the spread."""
    logits = _by_anchor(conv(inputs))
    scale = share * torch.tensor(SPREADS) / logits.std(2)
    conv.weight *= scale.flatten()[:, None, None, None]
    conv.bias.copy_(((conv.bias.view_as(scale) - logits.mean(2)) * scale).flatten())


def _by_anchor(logits: Tensor) -> Tensor:
    """Return (anchors of a cell, 5 + classes, all cells of all images)."""
    return logits.view(len(logits), len(ANCHORS), 5 + NUM_CLASSES, -1).permute(1, 2, 0, 3).flatten(2)


def _boxes(outputs: Tensor, stride: int) -> Tensor:
    """Return (n, anchors, 5 + classes) of a head's outputs, (n, anchors of a cell x (5 + classes), rows, columns)."""
    num_images, _, rows, columns = outputs.shape
    outputs = outputs.view(num_images, len(ANCHORS), 5 + NUM_CLASSES, rows, columns).permute(0, 1, 3, 4, 2).sigmoid()
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    cells = torch.stack([x, y], -1).to(outputs)
    anchors = torch.tensor(ANCHORS).view(1, len(ANCHORS), 1, 1, 2) * ANCHOR_STRIDES * stride
    centres = (2 * outputs[..., :2] - 0.5 + cells) * stride
    sizes = (2 * outputs[..., 2:4]) ** 2 * anchors
    return torch.cat([centres, sizes, outputs[..., 4:]], -1).flatten(1, 3)


def _conv(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(channels, width, kernel, stride, (kernel - 1) // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return nn.Sequential(conv, nn.BatchNorm2d(width, momentum=None), nn.SiLU())
