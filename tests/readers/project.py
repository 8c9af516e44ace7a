"""A project of three models and two cameras, what its rows say, and every export of it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from tests.support.networks import ChannelMeans, save
from tests.support.pasted_photos import FLAGS, Pasted, paste, save_detector
from tests.support.patches import COLORS, build
from tests.support.projects import PLAIN, Project

DATES = ("--date", "2026-11-20", "--until", "2026-11-21")
FORMATS = {
    "coco": "coco.json",
    "megadetector": "megadetector.json",
    "label-studio": "tasks.json",
    "camtrap-dp": "camtrap-dp",
    "yolo": "yolo",
    "csv": "rows.csv",
    "jsonl": "rows.jsonl",
    "parquet": "rows.parquet",
}
MODELS = ("detector", "species", "colors")
# By the alphabet the classes of both have other numbers. Class 0 of `save_detector` is that of the first cell.
DETECTED, SPECIES = ("truck", "animal"), ("Vulpes vulpes", "lion", "badger")
PARENTS = {"lion": "leo", "leo": "panthera", "panthera": "felidae", "felidae": "carnivora", "badger": "carnivora"}
PARENTS |= {"carnivora": "mammalia"}
THRESHOLDS = {"truck": 0.8, "animal": 0.4}
SPECIES_THRESHOLD = 0.7
WIDE, HIGH = (320, 240), (240, 320)
# path: size, orientation, EXIF's time and offset, and the colours of the objects, the best first
PHOTOS: dict[str, tuple[tuple[int, int], int, str, str | None, str]] = {
    "cam1/a b.jpg": (WIDE, 1, "20 05:00:00", "+02:00", "red green blue green red blue green red red green"),
    "cam2/a b.jpg": (HIGH, 6, "20 23:59:50", None, "blue red green"),
    "cam2/DCIM/höhle #2 & 50%.jpg": (HIGH, 1, "21 00:00:10", None, "green #825a1e red #a09628 #506450 blue"),
    "cam1/empty.jpg": (WIDE, 1, "20 05:00:20", "+02:00", ""),
    "cam1/next.jpg": (WIDE, 8, "20 05:00:40", "+02:00", "red green red green blue #823c3c"),
    "cam1/cut.jpg": (WIDE, 1, "20 12:00:00", "+02:00", "red"),
}
REJECTED = "cam1/cut.jpg"
CAMERAS = "camera,latitude,longitude\ncam1,52.5,13.25\ncam2,-33.875,151.5\n"
SETTINGS = {
    "images": {"watch": ["photos"], "day": "taken"},
    "source": {"camera": "folder:1"},
    "events": {"gap": "60s"},
    "run": {"time_zone": "Europe/Berlin"},
}


def make_exports(folder: Path) -> None:
    """Predict a project of two days; write its exports to FOLDER/MODEL, and to FOLDER/images.json what rows say."""
    shutil.rmtree(folder, ignore_errors=True)
    project = Project(folder / "project")
    build_models(project.folder)
    for path, (size, orientation, taken, offset, colors) in PHOTOS.items():
        take(project.photos / path, size, orientation, f"2026:11:{taken}", offset, colors)
    cut = project.photos / REJECTED
    cut.write_bytes(cut.read_bytes()[:-400])
    for section, values in SETTINGS.items():
        project.set(section, **values)
    for photo in project.photos.rglob("*.jpg"):
        os.utime(photo, (1e9, 1e9))  # younger ones may still be written
    project.infer("run", "--max-rejected", "50%")
    (project.folder / "cameras.csv").write_text(CAMERAS)
    project.infer("cameras", "set", "cameras.csv")
    project.infer("threshold", "set", "detector", *(f"{label}={score}" for label, score in THRESHOLDS.items()))
    project.infer("threshold", "set", "species", "--default", str(SPECIES_THRESHOLD))
    taxonomy = "".join(f"{label},{parent}\n" for label, parent in PARENTS.items())
    (project.folder / "taxa.csv").write_text(f"label,parent\n{taxonomy}")
    project.infer("labels", "set", "species", "--taxonomy", "taxa.csv")
    (folder / "images.json").write_text(json.dumps(list(read_images(project))))
    for model in MODELS:
        (folder / model).mkdir()
        for name, file in FORMATS.items():
            if model == "colors" and name in ("coco", "megadetector", "yolo"):  # formats of objects alone
                continue
            where = ("--to", f"../{model}/{file}", "--relative-to", "photos")
            project.infer("export", *DATES, "--model", model, "--format", name, *where)


def build_models(folder: Path) -> None:
    save_detector(folder)
    save(ChannelMeans(), folder / "colors.ts")
    for name, labels in (("detected", DETECTED), ("species", SPECIES), ("colors", COLORS)):
        (folder / f"{name}.txt").write_text("".join(f"{label}\n" for label in labels))
    of = ("--set", "of=detector", "--set", "of_labels=animal", "--set", "crop=box")
    build(
        folder,
        ("cells.ts", "--name", "detector", "--size", "128", *FLAGS),
        ("colors.ts", "--name", "species", "--labels", "species.txt", *of, *PLAIN),
        ("colors.ts", "--name", "colors", "--labels", "colors.txt", *PLAIN),
    )


def take(
    path: Path, size: tuple[int, int], orientation: int, taken: str, offset: str | None, colors: str
) -> list[Pasted]:
    """Save a photo as a camera does, with objects of these colours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    patches = [Image.new("RGB", (40, 32), COLORS.get(color, color)) for color in colors.split()]
    pasted = paste(path, patches, size, orientation)
    with Image.open(path) as photo:
        exif = photo.getexif()
        details = exif.get_ifd(ExifTags.IFD.Exif)
        details[ExifTags.Base.DateTimeOriginal] = taken
        if offset:
            details[ExifTags.Base.OffsetTimeOriginal] = offset
        photo.save(path, quality=95, exif=exif)
    return pasted


def read_images(project: Project) -> Iterator[dict[str, Any]]:
    """Yield what the rows say of each picture. Objects are those over their thresholds, the best first."""
    rejected = dict(project.rows("SELECT picture, reason FROM infer_rejections"))
    sizes = {picture: size for picture, *size in project.rows("SELECT picture, width, height FROM infer_predictions")}
    best = {picture: json.loads(output)["top"] for picture, output in project.rows(CLASSIFIED)}
    objects = [(picture, read_object(*row)) for picture, *row in project.rows(OBJECTS)]
    for number, location, *captured in project.rows(PICTURES):
        yield {
            "id": number,
            "path": str(Path(location).relative_to(project.photos)),
            **dict(zip(("camera", "taken_at", "offset", "event"), captured, strict=True)),
            "rejected": rejected.get(number),
            "size": sizes.get(number),
            "labels": best.get(number),
            "objects": [one for picture, one in objects if picture == number and is_shown(one)],
        }


def read_object(number: int, label: str, score: float, *more: Any) -> dict[str, Any]:
    *box, output, shown, shown_score = more
    labels = json.loads(output)["top"] if output else []
    found = {"class": number, "label": label, "score": score, "box": box, "labels": labels}
    return found | {"shown": shown, "shown_score": shown_score}


def is_shown(one: dict[str, Any]) -> bool:
    return bool(one["score"] >= THRESHOLDS[one["label"]])


PICTURES = """
    SELECT id, location, camera, captured_at, taken_offset, event FROM infer_pictures ORDER BY date(captured_at), id
"""
CLASSIFIED = """
    SELECT picture, output FROM infer_predictions p JOIN infer_models m ON m.id = p.model_id WHERE m.name = 'colors'
"""
OBJECTS = """
    SELECT o.picture, o.class_index, o.label, o.score, o.x, o.y, o.width, o.height, c.output, s.label, s.score
    FROM infer_objects o LEFT JOIN infer_object_predictions c ON c.object_id = o.id
    LEFT JOIN infer_shown_crops s ON s.object_id = o.id ORDER BY o.picture, o.object
"""
