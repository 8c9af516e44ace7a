"""A detector of coloured patches and two second networks on what it finds, built by the command; and their rows."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from tests.support import pasted_photos
from tests.support.networks import ChannelMeans, save
from tests.support.pasted_photos import Pasted, paste, save_detector
from tests.support.preloaded import run_infer
from tests.support.projects import PLAIN, Project

COLORS = {"red": (220, 30, 30), "green": (30, 220, 30), "blue": (30, 30, 220)}
GATE = 0.85  # of `species`, which takes animals alone
# Golden images, and what fills up a batch, have something in all cells; no picture of a day has.
CODE = '''
import os
import signal
import time


def head(boxes):
    """Take 20 ms for each image, and count those of a day, line by line, in the file that DETECTED names."""
    for image in boxes:
        if "DETECTED" in os.environ and (image[:, 4] == 0).any():
            with open(os.environ["DETECTED"], "a") as file:
                file.write("an image\\n")
    time.sleep(0.02 * len(boxes))
    return list(boxes)


def slowly(rgb, box):
    """Take 5 ms for each object, no black one, no cyan one by a crash, and forever for a yellow one."""
    time.sleep(0.005)
    height, width = rgb.shape[:2]
    left, top = int(box[0] * width), int(box[1] * height)
    crop = rgb[top : top + int(box[3] * height), left : left + int(box[2] * width)]
    if crop.max() < 9:
        raise ValueError("it is too dark")
    if (crop.min(0).min(0) == (0, 255, 255)).all():
        os.kill(os.getpid(), signal.SIGSEGV)
    if (crop.min(0).min(0) == (255, 255, 0)).all():
        time.sleep(1000)
    return crop
'''
NAMES = ("cells", "species", "vectors")
DETECTOR = ("cells.ts", "--name", "cells", "--size", "128", *pasted_photos.FLAGS, "--set", "head=own:head")
SPECIES = (
    *("colors.ts", "--name", "species", "--labels", "colors.txt", "--set", "of=cells", "--set", "of_labels=animal"),
    *("--set", f"min_score={GATE}", "--set", "crop=own:slowly", *PLAIN),
)
VECTORS = ("colors.ts", "--name", "vectors", "--set", "of=cells", "--output", "embedding", *PLAIN)


def write_sources(folder: Path) -> None:
    """Write what the models are built from."""
    save_detector(folder)
    save(ChannelMeans(), folder / "colors.ts")
    (folder / "colors.txt").write_text("".join(f"{color}\n" for color in COLORS))
    (folder / "own.py").write_text(CODE)


def build(folder: Path, *models: Sequence[str]) -> None:
    for arguments in models:
        built = run_infer("model", "build", *arguments, cwd=folder)
        assert built.returncode == 0, built.stdout + built.stderr


def build_all(folder: Path) -> Path:
    """Build the detector and both second networks, and return the folder of the models."""
    write_sources(folder)
    build(folder, DETECTOR, SPECIES, VECTORS)
    return folder / "models"


class Patch(NamedTuple):
    """An object of a picture, by what made it."""

    place: Pasted
    color: str


def add_pictures(project: Project, count: int, **day: str) -> dict[str, list[Patch]]:
    """Add pictures with up to four patches and return these by image id; every fifth has none."""
    added = {}
    for number in range(count):
        colors = list(islice(cycle(COLORS), number, number + number % 5))
        added[str(number + 1)] = draw(project.photos / f"{number:03}.png", colors)
    project.add("photos", **day)
    return added


def draw(path: Path, colors: Sequence[str]) -> list[Patch]:
    """Save a picture of 128x96 with a patch of each color, or of any color by its name, the surest object first."""
    patches = [Image.new("RGB", (20, 16), COLORS.get(color, color)) for color in colors]
    return [Patch(place, color) for place, color in zip(paste(path, patches, (128, 96)), colors, strict=True)]


def is_species(patch: Patch, gate: float = GATE) -> bool:
    return patch.place.label == "animal" and patch.place.score >= gate


def taken(
    pictures: dict[str, list[Patch]], takes: Callable[[Patch], bool] = lambda _: True
) -> list[tuple[str, int, str]]:
    """Return (image, object, color) of all that a second network takes."""
    return sorted(
        (image_id, number, patch.color)
        for image_id, patches in pictures.items()
        for number, patch in enumerate(patches)
        if takes(patch)
    )


_OUTPUT = "output, vector, vector_dtype, vector_dim"
_ROWS = {
    "infer_objects": "SELECT picture, model_id, object, label, score, x, y, width, height FROM infer_objects",
    "infer_object_predictions": f"SELECT picture, made.model_id, made.label, made.score, {_OUTPUT}, object"
    " FROM infer_object_predictions made JOIN infer_objects found ON found.id = object_id",
    "infer_predictions": f"SELECT picture, model_id, label, score, {_OUTPUT}, detector_id, num_objects, sha256, width,"
    " height FROM infer_predictions",
    "infer_rejections": "SELECT picture, model_id, detector_id, reason, detail, stage, size, sha256, attempts"
    " FROM infer_rejections",
}


def rows_of(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that results say of images, to the last bit."""
    found = {}
    for table, wanted in _ROWS.items():
        rows = project.rows(wanted)
        plain = [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in rows]
        found[table] = sorted(plain, key=repr)
    return found


def count_detected(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def check_whole(rows: dict[str, list[tuple[Any, ...]]]) -> None:
    """Check that no result of a second network lacks an object, or the objects' own rows, as they are after a kill."""
    predicted = {row[:2] for row in rows["infer_predictions"]}
    crops = Counter(row[:2] for row in rows["infer_object_predictions"])
    boxes = Counter(row[:2] for row in rows["infer_objects"])
    counted = {row[:2]: row[9] for row in rows["infer_predictions"] if row[9]}
    assert crops + boxes == counted
    of_seconds = [row for row in rows["infer_predictions"] if row[8]]
    assert {(row[0], row[8]) for row in of_seconds} <= predicted
