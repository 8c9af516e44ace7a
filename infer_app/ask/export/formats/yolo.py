"""YOLO: a text file for each image below `labels`, with the image's own folders; `classes.txt` and `data.yaml`.

A line is the class and the box as centre x, centre y, width, height: shares of the upright picture. It has no score:
programs that train on such files refuse a sixth number. All objects of a detector that are shown are in it, also those
that a second network did not take: what is not listed is background to such programs.
"""

import json
import re
from pathlib import Path, PurePosixPath

from infer_app.ask.export.exported_images import Export, ExportedImage
from infer_app.ask.export.formats.categories import Categories
from infer_app.base.atomic_file import new_folder
from infer_app.base.domain import MAX_CLASS
from infer_app.base.errors import UsageError
from infer_app.base.locations import HIDDEN_QUERY
from infer_app.tables.shown_labels import ShownCrop

_SCHEME = re.compile(r"^[a-z0-9+.-]+://", re.IGNORECASE)
_PLAIN = re.compile(r"[^\W\d_][\w-]*( [\w-]+)*")
_NO_TEXT = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")


def write_yolo(path: Path, export: Export) -> None:
    """Write the folder. Raises UsageError if two images would have one file, or the folder holds something."""
    with new_folder(path) as folder:
        _write_labels(folder, export)


def _write_labels(folder: Path, export: Export) -> None:
    categories, made = Categories(export.model.labels_of_objects), set[Path]()
    labels = folder / "labels"
    labels.mkdir()
    for image in export.read_images(all_objects=True):
        file = labels / label_file(image.path)
        try:
            if file.parent not in made:  # asking the file system for each image takes longer than the rest
                file.parent.mkdir(parents=True, exist_ok=True)
                made.add(file.parent)
            with file.open("x", encoding="ascii") as lines:
                lines.write(_lines(image, categories))
        except FileExistsError:
            raise UsageError(
                f"two images would have the labels {label_file(image.path)}, one of them is {image.path}",
                "YOLO knows an image by its name without the suffix: rename one, or write COCO",
            ) from None
    number_of_classes = max(categories.labels, default=-1) + 1
    if number_of_classes > MAX_CLASS + 1:
        raise UsageError(
            f"class {number_of_classes - MAX_CLASS - 2} has a label in no version of the model",
            "YOLO has no number for it that stays: export the days of one version, or write COCO",
        )
    names = [categories.labels.get(number, str(number)) for number in range(number_of_classes)]
    classes = "".join(f"{_UNPRINTABLE.sub(' ', name)}\n" for name in names)
    (folder / "classes.txt").write_bytes(classes.encode())
    (folder / "data.yaml").write_bytes(_data_yaml(names).encode())


def label_file(path: str) -> PurePosixPath:
    """Return the relative path of an image's labels, inside whatever folder: `..` in a location leads nowhere.

    Raises UsageError where no trainer would find it: they replace the last folder `images` of a photo's path.
    """
    parts = [part for part in _SCHEME.sub("", path).replace("\0", "").split("/") if part not in ("", ".")]
    safe = ["%2E%2E" if part == ".." else part for part in parts] or ["image"]
    if "images" in safe[:-1]:
        raise UsageError(
            f"{path} is in a folder named images, beside which YOLO trainers look for its labels",
            "name that folder, or one in it, by --relative-to; or write COCO",
        )
    name, _, picture = safe[-1].partition(HIDDEN_QUERY)
    return PurePosixPath(*safe[:-1], f"{PurePosixPath(name).stem}{picture and '-'}{picture}.txt")


def _lines(image: ExportedImage, categories: Categories) -> str:
    return "".join(
        [
            f"{_number(label, index, crop, categories)} {x + width / 2} {y + height / 2} {width} {height}\n"
            for (label, index, _, x, y, width, height), crop in zip(image.objects, image.crops, strict=True)
        ]
    )


def _number(label: str, index: int, crop: ShownCrop | None, categories: Categories) -> int:
    """Return the class of an object: that of a second network, or the detector's where it shows none of its classes."""
    if crop is None or crop.label is None:
        return categories[index, label]
    if crop.class_index is None:
        found = (number for number, known in categories.labels.items() if known == crop.label)
        return next(found, categories[index, label])
    return categories[crop.class_index, crop.label]


def _data_yaml(names: list[str]) -> str:
    listed = "".join(f"  {number}: {_yaml(name)}\n" for number, name in enumerate(names)) or "  {}\n"
    return f"train: images\nval: images\nnames:\n{listed}"


def _yaml(text: str) -> str:
    """Return a plain scalar, as programs read that split lines, or where YAML would take it for another a quoted one.

    A double-quoted scalar is JSON's but for the characters that YAML does not print.
    """
    if _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\U{ord(found[0]):08X}", quoted)
