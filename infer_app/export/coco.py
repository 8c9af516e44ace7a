"""COCO: a dataset of images, categories and annotations, or the list of results that goes with such a dataset.

https://cocodataset.org/#format-data and #format-results. Boxes are x, y, width, height in pixels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO

from infer_app.atomic_file import new_content
from infer_app.export.categories import Categories
from infer_app.export.exported_images import Export, ExportedImage

_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)  # up to 18 digits fit into 64 bits

NumberImage = Callable[[str], int]


class _NotANumber(Exception):
    """An image's id is not a whole number."""


def write_dataset(path: Path, export: Export) -> None:
    """Write a dataset, the score of each annotation with it."""
    with new_content(path) as file, TemporaryFile(dir=path.parent) as annotations:

        def write(number_image: NumberImage) -> None:
            _restart(file)
            _restart(annotations)
            _write_dataset(file, annotations, export, number_image)

        _with_numbers(write)


def write_results(path: Path, export: Export) -> None:
    """Write the results with the ids of images and categories that the dataset of the same images has."""
    with new_content(path) as file:

        def write(number_image: NumberImage) -> None:
            _restart(file)
            file.writelines(_list(_result_lines(export, number_image)))
            file.write(b"\n")

        _with_numbers(write)


def _restart(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


def _with_numbers(write: Callable[[NumberImage], None]) -> None:
    """Write with the images' own ids as numbers; if one of them is not, write again with 1, 2, 3 in their order."""
    with suppress(_NotANumber):
        write(_whole_number)
        return
    numbers = count(1)
    write(lambda _: next(numbers))


def _whole_number(image_id: str) -> int:
    if _WHOLE_NUMBER.fullmatch(image_id) is None:
        raise _NotANumber
    return int(image_id)


def _write_dataset(file: BinaryIO, annotations: BinaryIO, export: Export, number_image: NumberImage) -> None:
    """Write images into the file and meanwhile their annotations aside, which follow afterwards."""
    categories = Categories(export.model.labels_by_version)
    description = json.dumps(f"Predictions of {export.model.shown_name}")
    file.write(f'{{"info": {{"description": {description}}},\n"images": '.encode())
    file.writelines(_list(_image_lines(export, number_image, categories, annotations)))
    file.write(b',\n"annotations": [\n')
    annotations.seek(0)
    copyfileobj(annotations, file, 1 << 20)
    file.write(b'\n],\n"categories": ')
    named = sorted(categories.labels.items())
    file.writelines(_list(json.dumps({"id": number + 1, "name": label}) for number, label in named))
    file.write(b"}\n")


def _image_lines(
    export: Export, number_image: NumberImage, categories: Categories, annotations: BinaryIO
) -> Iterator[str]:
    first = 1  # an annotation with the id 0 would count as none in pycocotools
    for image in export.read_images():
        number = number_image(image.prediction.image_id)
        if image.objects:
            separator = ",\n" if first > 1 else ""
            lines = ",\n".join(_annotations(image, number, first, categories))
            annotations.write(f"{separator}{lines}".encode("ascii"))
            first += len(image.objects)
        yield _image(image, number)


def _image(image: ExportedImage, number: int) -> str:
    width, height = image.picture
    own = image.prediction.image_id
    source_id = "" if own == str(number) else f', "source_id": {json.dumps(own)}'
    path = json.dumps(image.path)
    return f'{{"id": {number}, "file_name": {path}, "width": {width}, "height": {height}{source_id}}}'


def _annotations(image: ExportedImage, number: int, first: int, categories: Categories) -> Iterator[str]:
    image_width, image_height = image.picture
    for annotation, (label, index, score, x, y, width, height) in enumerate(image.objects, first):
        width, height = width * image_width, height * image_height
        yield (
            f'{{"id": {annotation}, "image_id": {number}, "category_id": {categories[index, label] + 1}, '
            f'"bbox": [{x * image_width}, {y * image_height}, {width}, {height}], "area": {width * height}, '
            f'"iscrowd": 0, "score": {score}}}'
        )


def _result_lines(export: Export, number_image: NumberImage) -> Iterator[str]:
    categories = Categories(export.model.labels_by_version)
    for image in export.read_images():
        number = number_image(image.prediction.image_id)
        image_width, image_height = image.picture
        for label, index, score, x, y, width, height in image.objects:
            yield (
                f'{{"image_id": {number}, "category_id": {categories[index, label] + 1}, '
                f'"bbox": [{x * image_width}, {y * image_height}, {width * image_width}, {height * image_height}], '
                f'"score": {score}}}'
            )


def _list(lines: Iterator[str]) -> Iterator[bytes]:
    """Return a JSON array with one element a line."""
    separator = "[\n"
    for line in lines:
        yield f"{separator}{line}".encode("ascii")
        separator = ",\n"
    yield b"[]" if separator == "[\n" else b"\n]"
