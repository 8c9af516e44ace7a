"""Label Studio: tasks with predictions, and the labelling configuration that they fit, in a file beside them.

https://labelstud.io/guide/predictions. Boxes are in percent, 0-100, of the upright picture.
Those of a second network have its labels, and the detector's where it shows none.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from infer_app.artifact.model_names import short_name
from infer_app.ask.export.exported_images import Export, ExportedImage
from infer_app.ask.export.formats.categories import Categories
from infer_app.base.atomic_file import new_content
from infer_app.base.domain import MAX_CLASS, ROW
from infer_app.base.errors import UsageError
from infer_app.base.locations import is_local, path_of_uri
from infer_app.tables.shown_labels import ShownCrop

LOCAL_FILES = "/data/local-files/?d="  # where Label Studio serves the files of its host
BOXES, CHOICES = "label", "choice"  # names of the controls, as in Label Studio's own templates
IMAGE = "image"
_NOT_IN_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def config_path(path: Path) -> Path:
    """Return the file of the labelling configuration that belongs to a file of tasks."""
    return path.with_name(f"{path.stem}-config.xml")


def write_tasks(path: Path, export: Export) -> None:
    """Write the tasks, and the labelling configuration with all labels, since people correct to any of them."""
    categories, groups = Categories(export.model.labels_of_objects), set[str]()
    with new_content(path) as file, new_content(config_path(path)) as config:
        separator = "[\n"
        for image in export.read_images(all_objects=True):
            for index, label in _labels(image):
                if index is None:
                    groups.add(label)
                else:
                    categories[index, label]
            file.write(f"{separator}{json.dumps(_task(image, export))}".encode("ascii"))
            separator = ",\n"
        file.write(b"[]\n" if separator == "[\n" else b"\n]\n")
        file.flush()
        os.fsync(file.fileno())  # before either file is replaced: a disk that is full leaves both as they were
        config.write(_config(categories, groups, export).encode("utf-8", "replace"))


def _labels(image: ExportedImage) -> Iterator[tuple[int | None, str]]:
    """Yield the class and the label of what is found in an image; a group has no class."""
    yield from ((one.class_index, one.label) for one in image.prediction.objects)
    yield from ((one["index"], one["label"]) for one in image.listed)
    yield from ((crop.class_index, crop.label) for crop in image.crops if crop and crop.label is not None)


def _task(image: ExportedImage, export: Export) -> dict[str, object]:
    result = _boxes(image) if export.model.has_objects else _choices(image)
    version = short_name(export.model.name, image.prediction.model_id)
    score = max((one["score"] for one in result), default=0.0)
    data = {IMAGE: _url(image), "image_id": image.prediction.image_id}
    if taken := image.capture:
        data |= {"camera": taken.camera, "taken_at": taken.taken_at.isoformat() if taken.taken_at else ""}
    return {"data": data, "predictions": [{"model_version": version, "score": score, "result": result}]}


def _url(image: ExportedImage) -> str:
    path = image.path
    if image.prediction.location.startswith(ROW):
        raise UsageError(
            "the images are in a column of the database, where Label Studio can't read them",
            "choose another format; a sample with --copy-to writes them as files",
        )
    if not is_local(path):
        return path
    return f"{LOCAL_FILES}{quote(path_of_uri(path).lstrip('/'), errors='surrogateescape')}"


def _boxes(image: ExportedImage) -> list[dict[str, Any]]:
    if not image.objects:
        return []
    size = {"original_width": image.picture.width, "original_height": image.picture.height, "image_rotation": 0}
    boxes = []
    found = zip(image.objects, image.crops, strict=True)
    for number, ((label, _, score, x, y, width, height), crop) in enumerate(found):
        box = {
            "id": str(number),
            "from_name": BOXES,
            "to_name": IMAGE,
            "type": "rectanglelabels",
            **size,
            "value": {
                "x": 100 * x,
                "y": 100 * y,
                "width": 100 * width,
                "height": 100 * height,
                "rotation": 0,
                "rectanglelabels": [label],
            },
            "score": score,
        }
        boxes.append(box if crop is None or crop.label is None else _relabelled(box, crop))
    return boxes


def _relabelled(box: dict[str, Any], crop: ShownCrop) -> dict[str, Any]:
    """Return a box with the label of a second network; that of the detector becomes a note."""
    [label] = box["value"]["rectanglelabels"]
    value = box["value"] | {"rectanglelabels": [crop.label]}
    return box | {"value": value, "score": crop.score, "meta": {"text": [f"{label} {box['score']:.2f}"]}}


def _choices(image: ExportedImage) -> list[dict[str, Any]]:
    chosen = image.labels
    if not chosen:
        return []
    value = {"choices": [one["label"] for one in chosen]}
    choice = {"id": "0", "from_name": CHOICES, "to_name": IMAGE, "type": "choices", "value": value}
    return [choice | {"score": chosen[0]["score"]}]


def _config(categories: Categories, groups: set[str], export: Export) -> str:
    """Return the labelling interface; Label Studio's own exports number classes by `category`, else by the alphabet."""
    image = f'  <Image name="{IMAGE}" value="${IMAGE}"/>\n'
    if export.model.has_objects:
        control, element = f'RectangleLabels name="{BOXES}" toName="{IMAGE}"', "Label"
    else:
        control, element = f'Choices name="{CHOICES}" toName="{IMAGE}" choice="multiple"', "Choice"
    numbers: dict[str, str] = {}
    for number, label in sorted(categories.labels.items()):
        numbers.setdefault(label, f' category="{number}"' if number <= MAX_CLASS else "")
    numbers |= dict.fromkeys(sorted(groups - numbers.keys()), "")
    listed = "".join(
        f"    <{element} value={quoteattr(_NOT_IN_XML.sub(chr(0xFFFD), label))}{number}/>\n"
        for label, number in numbers.items()
    )
    return f"<View>\n{image}  <{control}>\n{listed}  </{control.split()[0]}>\n</View>\n"
