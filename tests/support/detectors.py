"""Small detectors whose objects are known."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Quadrants(nn.Module):
    """(n, 8, 6), for the head `boxes`: the four quarters of the input, with the share of red as the score of class 0,
    and the four halves with that of green as the score of class 1. A quarter without red is no object.
    """

    quarters: Tensor
    halves: Tensor

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        half = size / 2
        self.register_buffer(
            "quarters",
            torch.tensor([[x, y, x + half, y + half] for y in (0, half) for x in (0, half)]),
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
