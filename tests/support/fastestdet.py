"""A real detection network, FastestDet: its head, and the plainest program that runs it, as a user has it."""

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.photos import DATA

FOLDER = DATA / "networks" / "fastestdet"
NETWORK, LABELS, OBJECTS = FOLDER / "FastestDet.onnx", FOLDER / "coco.names", FOLDER / "objects.csv"
PHOTOS = (DATA / "photos", FOLDER / "photos")
BUILD = (
    str(NETWORK),
    *("--output", "detection", "--set", "head=fastest:head", "--labels", str(LABELS)),
    *("--recipe", "stretch", "--set", "channels=bgr", "--set", "interpolation=bilinear"),
)

HEAD = """
import numpy as np


def head(output):
    rows, columns = np.mgrid[: output.shape[2], : output.shape[3]]
    x = 352 * (columns + np.tanh(output[:, 1])) / output.shape[3]
    y = 352 * (rows + np.tanh(output[:, 2])) / output.shape[2]
    width, height = (352 / (1 + np.exp(-output[:, channel])) for channel in (3, 4))
    score = output[:, 0] ** 0.6 * output[:, 5:].max(1) ** 0.4
    corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    found = np.stack([*corners, score, output[:, 5:].argmax(1)], -1)
    return list(found.reshape(len(output), -1, 6))
"""

SCRIPT = f"""
import numpy as np
import onnxruntime
from PIL import Image, ImageOps

from fastest import head

NAMES = open({str(LABELS)!r}).read().split("\\n")
session = onnxruntime.InferenceSession({str(NETWORK)!r}, providers=["CPUExecutionProvider"])


def detect(path):
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    small = np.asarray(picture.resize((352, 352), Image.Resampling.BILINEAR), np.float32)
    pixels = np.ascontiguousarray(small[None, :, :, ::-1].transpose(0, 3, 1, 2)) / 255
    (rows,) = head(session.run(None, {{session.get_inputs()[0].name: pixels}})[0])
    kept = []
    for row in sorted(rows[rows[:, 4] >= 0.4].tolist(), key=lambda row: -row[4]):
        if all(other[5] != row[5] or overlap(other, row) <= 0.45 for other in kept):
            kept.append(row)
    x, y = picture.width / 352, picture.height / 352
    return [(x1 * x, y1 * y, x2 * x, y2 * y, score, NAMES[int(label)]) for x1, y1, x2, y2, score, label in kept]


def overlap(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)
"""

# file: label, score, and x1 y1 x2 y2 as shares of the picture
Found = dict[str, list[tuple[str, float, tuple[float, float, float, float]]]]


def need_fastestdet() -> None:
    """Skip where the network or its photos are absent."""
    for needed in (NETWORK, OBJECTS, *PHOTOS):
        if not needed.exists():
            pytest.skip("needs a detector: set TEST_DATA to a folder with networks/fastestdet and photos")


def write_scripts(folder: Path) -> None:
    """Write what the user has: fastest.py with the head, and script.py with the function `detect`."""
    (folder / "fastest.py").write_text(HEAD)
    (folder / "script.py").write_text(SCRIPT)


def reference_objects() -> Found:
    """Return the objects over 0.3 of the reference, computed by another program."""
    found: Found = defaultdict(list)
    with OBJECTS.open(newline="") as file:
        for row in csv.DictReader(file):
            x, y, width, height = (float(row[key]) for key in ("x", "y", "width", "height"))
            found[row["file"]].append((row["label"], float(row["score"]), (x, y, x + width, y + height)))
    return found
