"""Small detectors whose objects are known."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from infer_app.artifact.artifact import Artifact
from tests.support.networks import built_colors

SIZE = 64


class Quadrants(nn.Module):
    """(n, 8, 6), for the head `boxes`: the four quarters of the input, with the share of red as the score of class 0,
    and the four halves with that of green as the score of class 1. A quarter without red is no object.
    """

    quarters: Tensor
    halves: Tensor

    def __init__(self, size: int = SIZE) -> None:
        super().__init__()
        half = size / 2
        self.register_buffer(
            "quarters", torch.tensor([[x, y, x + half, y + half] for y in (0, half) for x in (0, half)])
        )
        self.register_buffer(
            "halves",
            torch.tensor([[0, 0, size, half], [0, half, size, size], [0, 0, half, size], [half, 0, size, size]]),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        quarters = torch.nn.functional.adaptive_avg_pool2d(pixels, (2, 2))
        red = quarters[:, 0].flatten(1)
        green = quarters[:, 1]
        halves = torch.cat([green.mean(2), green.mean(1)], 1)
        boxes = torch.cat([self.quarters, self.halves]).expand(pixels.shape[0], 8, 4)
        classes = torch.cat([torch.zeros_like(red), torch.ones_like(halves)], 1)
        return torch.cat([boxes, torch.cat([red, halves], 1).unsqueeze(2), classes.unsqueeze(2)], 2)


class Pair(nn.Module):
    """Logits (n, 4, 3) and boxes (n, 4, 4), for the head `detr`: two classes, and one for no object."""

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        quarters = torch.nn.functional.adaptive_avg_pool2d(pixels, (2, 2)).flatten(2)
        logits = 8 * quarters.transpose(1, 2)
        size = 0.25 + 0.5 * quarters[:, :2].transpose(1, 2)
        return logits, torch.cat([torch.full_like(size, 0.5), size], 2)


class Cells(nn.Module):
    """(n, 6, 16), for the head `yolo`: a box for each of 4 x 4 cells, and how bright and how red it is."""

    centres: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        step = torch.arange(16)
        self.register_buffer("centres", torch.stack([step % 4, step // 4]).float() * 16 + 8)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        cells = torch.nn.functional.adaptive_avg_pool2d(pixels, (4, 4)).flatten(2)
        sizes = 12 + 4 * cells[:, :2]
        scores = torch.stack([cells.mean(1), cells[:, 0] - cells[:, 2]], 1).clamp(0, 1)
        return torch.cat([self.centres.expand(pixels.shape[0], 2, 16), sizes, scores], 1)


class Faint(nn.Module):
    """(n, 12, 6), for the head `boxes`: long boxes of three classes whose scores stay below 0.25, best first."""

    rows: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        step = torch.arange(12.0)
        boxes = torch.stack([step, 3 * step, step + 30, 3 * step + 8], 1)
        self.register_buffer("rows", torch.cat([boxes, 0.2 - step[:, None] / 80, (step % 3)[:, None]], 1))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        brightness = 0.5 + 0.5 * pixels.mean((1, 2, 3))
        scale = torch.tensor([1.0, 1, 1, 1, 0, 1]) + brightness[:, None, None] * torch.tensor([0.0, 0, 0, 0, 1, 0])
        return self.rows * scale


class OneBox(Faint):
    """One of these boxes in each image, as of a network with a minimum score of its own."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rows = super().forward(pixels)
        return torch.cat([rows[:, :1], torch.zeros_like(rows[:, 1:])], 1)


def built_detector(folder: Path, module: nn.Module | None = None, head: str = "", **changes: object) -> Artifact:
    """Build a detector for pixels of 64x64 as they are, stretched; one of the above with its head."""
    head = head or {Pair: "detr", Cells: "yolo"}.get(type(module), "boxes")
    plain = {"labels": None, "output": "detection", "head": head, "size": SIZE}
    return built_colors(folder, module, **(plain | changes))
