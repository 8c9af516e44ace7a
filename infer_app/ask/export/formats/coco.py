"""COCO: a dataset of images, categories and annotations, https://cocodataset.org/#format-data.

Boxes are x, y, width, height in pixels. Each annotation has a score, as a list of results has.
Of a second network each annotation has `attributes` with its label and score.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO

from infer_app.ask.export.exported_images import Export, ExportedImage
from infer_app.ask.export.formats.categories import Categories
from infer_app.base.atomic_file import new_content
from infer_app.tables.shown_labels import ShownCrop


def write_dataset(path: Path, export: Export) -> None:
    """Write a dataset."""
    with new_content(path) as file, TemporaryFile(dir=path.parent) as annotations:
        _write_dataset(file, annotations, export)


def _write_dataset(file: BinaryIO, annotations: BinaryIO, export: Export) -> None:
    """Write images into the file and meanwhile their annotations aside, which follow afterwards."""
    categories = Categories(export.of_boxes.model.labels_by_version)
    description = json.dumps(f"Predictions of {export.model.shown_name}")
    file.write(f'{{"info": {{"description": {description}}},\n"licenses": [],\n"images": '.encode())
    file.writelines(_list(_image_lines(export, categories, annotations)))
    file.write(b',\n"annotations": [\n')
    annotations.seek(0)
    copyfileobj(annotations, file, 1 << 20)
    file.write(b'\n],\n"categories": ')
    named = sorted(categories.labels.items())
    file.writelines(_list(json.dumps({"id": number + 1, "name": label}) for number, label in named))
    file.write(b"}\n")


def _image_lines(export: Export, categories: Categories, annotations: BinaryIO) -> Iterator[str]:
    first = 1  # an annotation with the id 0 would count as none in pycocotools
    for image in export.read_images():
        number = image.prediction.picture
        if image.objects:
            separator = ",\n" if first > 1 else ""
            lines = ",\n".join(_annotations(image, number, first, categories, export.model.name))
            annotations.write(f"{separator}{lines}".encode("ascii"))
            first += len(image.objects)
        yield _image(image, number)


def _image(image: ExportedImage, number: int) -> str:
    width, height = image.picture
    own = image.prediction.image_id
    source_id = "" if own == str(number) else f', "source_id": {json.dumps(own)}'
    path = json.dumps(image.path)
    return f'{{"id": {number}, "file_name": {path}, "width": {width}, "height": {height}{source_id}}}'


def _annotations(image: ExportedImage, number: int, first: int, categories: Categories, model: str) -> Iterator[str]:
    image_width, image_height = image.picture
    found = zip(image.objects, image.crops, strict=True)
    for annotation, ((label, index, score, x, y, width, height), crop) in enumerate(found, first):
        width, height = width * image_width, height * image_height
        yield (
            f'{{"id": {annotation}, "image_id": {number}, "category_id": {categories[index, label] + 1}, '
            f'"bbox": [{x * image_width}, {y * image_height}, {width}, {height}], "area": {width * height}, '
            f'"iscrowd": 0, "score": {score}{_attributes(crop, model) if crop else ""}}}'
        )


def _attributes(crop: ShownCrop, model: str) -> str:
    """Return what else an object's line has: the label that is shown of a second network, if one is."""
    if crop.label is None:
        return ""
    return f', "attributes": {json.dumps({model: crop.label, f"{model}_score": crop.score})}'


def _list(lines: Iterator[str]) -> Iterator[bytes]:
    """Return a JSON array with one element a line."""
    separator = "[\n"
    for line in lines:
        yield f"{separator}{line}".encode("ascii")
        separator = ",\n"
    yield b"[]" if separator == "[\n" else b"\n]"
