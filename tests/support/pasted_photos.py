"""Pictures with photos pasted on grey at known places, and a detector that finds them there by construction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from tests.support.networks import save, traced

GRID = 4  # rows and columns of the detector's input, an object at most in each cell
NUM_CELLS = GRID * GRID
GREY = 114  # of the background, and of what a letterbox adds
LABELS = ("animal", "vehicle")  # by turns, as the squares of a chessboard
FLAGS = ("--output", "detection", "--labels", "detected.txt", "--set", "golden=golden", "--set", "head=boxes")


class Cells(nn.Module):
    """(n, 16, 6), for the head `boxes`: in each cell the bounds of what is not grey; see `score_of`."""

    ends: Tensor
    scores: Tensor
    classes: Tensor

    def __init__(self, size: int = 128, factor: float = 1.0) -> None:
        super().__init__()
        numbers, self.size, self.cell = range(NUM_CELLS), size, size // GRID
        starts = torch.tensor([divmod(number, GRID) for number in numbers]) * float(self.cell)
        self.register_buffer("ends", starts.T.unsqueeze(2) + torch.arange(1.0, self.cell + 1))
        self.register_buffer("scores", torch.tensor([score_of(number) for number in numbers]) * factor)
        self.register_buffer("classes", torch.tensor([float(LABELS.index(label_of(number))) for number in numbers]))

    def forward(self, pixels: Tensor) -> Tensor:
        cell, other = self.cell, ((pixels - GREY / 255).abs().amax(1) > 0.08).float()
        cells = other.reshape(-1, GRID, cell, GRID, cell).transpose(2, 3).reshape(-1, NUM_CELLS, cell, cell)
        columns, rows = cells.amax(2), cells.amax(3)
        # Whole coordinates are the weights: OpenVINO loses an offset that is added to what `amax` gives.
        left = self.size - (columns * (self.size + 1 - self.ends[1])).amax(2)
        top = self.size - (rows * (self.size + 1 - self.ends[0])).amax(2)
        right, bottom = (columns * self.ends[1]).amax(2), (rows * self.ends[0]).amax(2)
        found = cells.amax((2, 3))
        return torch.stack([left, top, right, bottom, found * self.scores, self.classes + 0 * found], 2)


def score_of(cell: int) -> float:
    """0.96 of the first cell, 0.06 of the last."""
    return 0.96 - 0.06 * cell


def label_of(cell: int) -> str:
    return LABELS[(cell // GRID + cell % GRID) % 2]


def save_detector(folder: Path, size: int = 128, factor: float = 1.0) -> None:
    """Write cells.ts, its labels and golden images, for `infer model build cells.ts`; `factor` changes its scores."""
    save(traced(Cells(size, factor), shape=(size, size)), folder / "cells.ts")
    (folder / "detected.txt").write_text("".join(f"{label}\n" for label in LABELS))
    (folder / "golden").mkdir(exist_ok=True)
    patches = [Image.new("RGB", (20 + 3 * number, 30), (220, 10 * number, 30)) for number in range(NUM_CELLS)]
    for step in (1, -1):
        paste(folder / "golden" / f"{step + 1}.png", patches[::step], (size, size))


class Pasted(NamedTuple):
    """Where a photo lies in an upright picture, in pixels, and what the detector says of it."""

    left: int
    top: int
    width: int
    height: int
    label: str
    score: float


def paste(path: Path, photos: Sequence[Image.Image], size: tuple[int, int], orientation: int = 1) -> list[Pasted]:
    """Save a picture of this upright size with a photo in each cell that it reaches into, the best cell first.

    Those at the picture's edge touch it, and all are shrunk to leave a gap to the next cell.
    """
    picture = Image.new("RGB", size, (GREY,) * 3)
    gap = max(size) // GRID // 16
    pasted = []
    for (cell, area), photo in zip(_areas(*size), photos, strict=False):
        left, top, right, bottom = area
        photo = ImageOps.contain(photo.convert("RGB"), (right - left - 2 * gap, bottom - top - 2 * gap))
        x = 0 if left == 0 else size[0] - photo.width if right == size[0] else left + gap
        y = 0 if top == 0 else size[1] - photo.height if bottom == size[1] else top + gap
        picture.paste(photo, (x, y))
        pasted.append(Pasted(x, y, *photo.size, label_of(cell), score_of(cell)))
    exif = Image.Exif()
    exif[274] = orientation
    _turned(picture, orientation).save(path, quality=95, exif=exif)
    return pasted


def _areas(width: int, height: int) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """Each cell that the picture reaches at least half into, and its part of the picture in pixels."""
    side = max(width, height)
    x, y, cell = (side - width) // 2, (side - height) // 2, side // GRID
    for number in range(NUM_CELLS):
        left, top = number % GRID * cell - x, number // GRID * cell - y
        area = max(0, left), max(0, top), min(width, left + cell), min(height, top + cell)
        if min(area[2] - area[0], area[3] - area[1]) >= cell // 2:
            yield number, area


def _turned(picture: Image.Image, orientation: int) -> Image.Image:
    """Return the pixels as a camera with this orientation stores them."""
    undone = {6: 8, 8: 6}.get(orientation, orientation)
    exif = picture.getexif()
    exif[274] = undone
    upright = ImageOps.exif_transpose(picture)
    del exif[274]
    return upright
