"""The labels of crops are those of photos cropped by hand, by each rule, for a real network on real photos."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from infer_app.cli.project import quickstart
from tests.support.networks import save, traced
from tests.support.pasted_photos import FLAGS, paste_real_photos, save_detector
from tests.support.patches import build
from tests.support.projects import Project
from tests.support.skips import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OWN = """
def mirrored(rgb, box):
    height, width = rgb.shape[:2]
    x, y, wide, high = (round(share * side) for share, side in zip(box, (width, height) * 2))
    return rgb[y : y + high, x : x + wide][:, ::-1]
"""
RULES = {
    "box": (),
    "nearest": ("--crop-rounding", "nearest"),
    "margin": ("--crop-margin", "0.1"),
    "square": ("--crop", "square"),
    "square-pad": ("--crop", "square-pad"),
    "least": ("--crop", "square-pad", "--crop-margin", "30px", "--crop-min", "224px"),
    "own": ("--crop", "own:mirrored"),
}


def by_hand(rule: str, picture: Image.Image, shares: tuple[float, ...]) -> Image.Image:
    """Crop as programs that such networks are trained with do, each from its formula."""
    exact = np.multiply(shares, picture.size * 2)
    left, top, width, height = map(int, exact)
    if rule == "box":
        return picture.crop((left, top, left + width, top + height))
    if rule == "nearest":
        return picture.crop(tuple(map(round, (*exact[:2], *(exact[:2] + exact[2:])))))
    if rule == "own":
        left, top, width, height = map(round, exact)
        return ImageOps.mirror(picture.crop((left, top, left + width, top + height)))
    if rule == "margin":
        more_x, more_y = int(0.1 * width), int(0.1 * height)
        left, top = left - more_x // 2, top - more_y // 2
        edges = (left, top, left + width + more_x, top + height + more_y)
        return picture.crop(tuple(np.clip(edges, 0, picture.size * 2).tolist()))
    side = max(width, height)
    if rule == "least":
        side = max(side + 30, 224)
    if rule == "square":
        side_x, side_y = min(side, picture.width), min(side, picture.height)
        left = min(max(left - (side - width) // 2, 0), picture.width - side_x)
        top = min(max(top - (side - height) // 2, 0), picture.height - side_y)
        return picture.crop((left, top, left + side_x, top + side_y))
    left = max(0, min(left - (side - width) // 2, picture.width - width))
    top = max(0, min(top - (side - height) // 2, picture.height - height))
    cut = picture.crop((left, top, left + min(side, picture.width), top + min(side, picture.height)))
    return ImageOps.pad(cut, (side, side))


def as_input(crop: Image.Image) -> np.ndarray:
    """EfficientNet's own preprocessing: a square of 7/8 of the shorter side, bicubic, (x - 127) / 128."""
    side = int(0.875 * min(crop.size))
    left, top = ((length - side + 1) // 2 for length in crop.size)
    resized = crop.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
    return (np.asarray(resized, np.float32) - 127) / 128


@pytest.mark.parametrize(
    ("count", "rules"),
    [pytest.param(24, ("box",), marks=pytest.mark.always), pytest.param(200, tuple(RULES))],
    ids=["quick", "each rule"],
)
def test_the_label_of_a_crop_is_that_of_the_photo_cropped_by_hand(tmp_path: Path, count: int, rules: list[str]) -> None:
    need(*quickstart.PACKAGES)
    project = Project(tmp_path / "project")
    project.init()
    project.upgrade()
    pasted = paste_real_photos(project.photos, count)
    project.add("photos")
    save_detector(project.folder, 512)
    network = quickstart.efficientnet_lite0().eval()
    save(traced(network, shape=(224, 224)), project.folder / "lite0.ts")
    build(project.folder, ("cells.ts", "--name", "cells", "--size", "512", *FLAGS))
    (project.folder / "own.py").write_text(OWN)
    quickstart.write_labels(project.folder / "labels.txt")
    for rule in rules:
        build_species(project, rule)
        assert project.run_day("--model", rule)["day"]["predicted"] == len(pasted)
    labels = (project.folder / "labels.txt").read_text().splitlines()
    for rule in rules:
        crops, given = crops_by_hand(project, rule)
        assert len(crops) == len(given) == count
        with torch.inference_mode():
            batches = torch.from_numpy(np.stack(list(map(as_input, crops)))).permute(0, 3, 1, 2).split(25)
            found = torch.cat([network(batch) for batch in batches]).argmax(1)
        same = sum(labels[index] == label for index, label in zip(found.tolist(), given, strict=True))
        print(f"{rule}: {same} of {count}, {len(set(given))} labels")
        assert len(set(given)) > count // 3
        assert same >= 0.995 * count, rule


def build_species(project: Project, rule: str) -> None:
    mean, std = (",".join([str(level / 255)] * 3) for level in (127, 128))
    arguments = ("lite0.ts", "--name", rule, "--of", "cells", "--labels", "labels.txt", "--recipe", "crop-resize")
    build(project.folder, (*arguments, "--mean", mean, "--std", std, "--no-tune", *RULES[rule]))


def crops_by_hand(project: Project, rule: str) -> tuple[list[Image.Image], list[str]]:
    """Return the crops of all stored boxes, by the rule's own formula, and the labels that the run gave them."""
    rows = project.rows(
        "SELECT location, x, y, width, height, label FROM infer_current_crops"
        f" WHERE model = '{rule}' ORDER BY image_id, object"
    )
    boxes = defaultdict(list)
    for location, *shares, label in rows:
        boxes[location].append((shares, label))
    crops, labels = [], []
    for location, objects in boxes.items():
        upright = ImageOps.exif_transpose(Image.open(location)).convert("RGB")
        crops += [by_hand(rule, upright, tuple(shares)) for shares, _ in objects]
        labels += [label for _, label in objects]
    return crops, labels
