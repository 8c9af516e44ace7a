"""Cards of two cameras, and networks in the manner of MegaDetector and of a classifier on its crops."""

import os
import time
from pathlib import Path

import torch
from PIL import ExifTags, Image, ImageDraw
from torch import Tensor, nn

from tests.support.networks import ChannelMeans, save, traced

SIZE = 1280


class Quarters(nn.Module):
    """(n, 16, 8), for the head `yolo5`: the quarters of the input; where one is red, an animal. The rest is nothing."""

    boxes: Tensor
    classes: Tensor

    def __init__(self) -> None:
        super().__init__()
        half = SIZE / 2
        centres = [[x, y, half, half] for y in (half / 2, 3 * half / 2) for x in (half / 2, 3 * half / 2)]
        self.register_buffer("boxes", torch.tensor(centres))
        self.register_buffer("classes", torch.tensor([[0.95, 0.02, 0.01]] * 4))

    def forward(self, pixels: Tensor) -> Tensor:
        means = torch.nn.functional.adaptive_avg_pool2d(pixels, (2, 2)).flatten(2)
        is_red = (8 * (means[:, 0] - means[:, 1])).clamp(0, 0.9).unsqueeze(2)
        fixed = torch.cat([self.boxes, self.classes], 1).expand(pixels.shape[0], 4, 7)
        found = torch.cat([fixed[:, :, :4], is_red, fixed[:, :, 4:]], 2)
        return torch.cat([found, torch.zeros(1, 12, 8).expand(pixels.shape[0], 12, 8)], 1)


def make_cards(folder: Path) -> None:
    """Write the networks with their labels, and of each camera a photo with a fox and a blank, taken on two days."""
    save(traced(Quarters(), shape=(SIZE, SIZE)), folder / "md_v5a.0.1.torchscript")
    (folder / "labels.txt").write_text("animal\nperson\nvehicle\n")
    save(traced(ChannelMeans(), shape=(224, 224)), folder / "species.ts")
    (folder / "species.txt").write_text("fox\nbadger\nroe deer\n")
    (folder / "here.txt").write_text("fox\nbadger\n")
    for camera, day in (("cam01", 3), ("cam02", 4)):
        card = folder / "cards" / camera / "DCIM"
        card.mkdir(parents=True)
        for number in (1, 2):
            exif = Image.Exif()
            taken = f"2026:11:{day:02} 06:1{number}:00"
            exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = taken
            photo = Image.new("RGB", (640, 480), (90, 90, 90))
            if number == 1:
                ImageDraw.Draw(photo).rectangle((20, 20, 300, 220), (230, 60, 20))
            photo.save(card / f"IMG_000{number}.JPG", exif=exif)
            make_old(card / f"IMG_000{number}.JPG")


def make_old(file: Path) -> None:
    """Let a file be of a minute ago: younger ones may still be written, and without a terminal a run leaves them."""
    a_minute_ago = time.time() - 60
    os.utime(file, (a_minute_ago, a_minute_ago))
