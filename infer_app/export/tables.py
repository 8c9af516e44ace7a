"""Tables as CSV and JSON lines: a row for each object of a detector, or for each image of another model.

An image without an object has a row too, in which the object's columns are empty.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from infer_app.atomic_file import new_content
from infer_app.export.exported_images import Export, ExportedImage

IMAGE = ("image_id", "location", "date", "model", "model_id", "variant", "image_width", "image_height")
OBJECT = ("object", "label", "class_index", "score", "x", "y", "width", "height", "xmin", "ymin", "xmax", "ymax")
OUTPUT = ("label", "score", "output", "vector", "sha256", "created_at")
_NO_OBJECT = (None,) * len(OBJECT)

Row = tuple[Any, ...]


def columns_of(export: Export) -> tuple[str, ...]:
    return IMAGE + (OBJECT if export.has_objects else OUTPUT)


def write_csv(path: Path, export: Export) -> None:
    """Write CSV in UTF-8. `output` and `vector` are JSON; bytes of a name that are no text are written as `\\udcff`."""
    with new_content(path) as file:
        text = io.TextIOWrapper(file, "utf-8", "backslashreplace", newline="")
        writer = csv.writer(text)
        writer.writerow(columns_of(export))
        writer.writerows(_text_rows(export))
        text.detach()


def write_jsonl(path: Path, export: Export) -> None:
    """Write one JSON object a line."""
    names = columns_of(export)
    with new_content(path) as file:
        if export.has_objects:
            file.writelines(_object_lines(export))
            return
        for row in read_rows(export):
            values = dict(zip(names, row, strict=True))
            values["date"], values["created_at"] = str(values["date"]), values["created_at"].isoformat()
            vector = values.pop("vector")
            line = json.dumps(values)[:-1]
            file.write(f'{line}, "vector": {"null" if vector is None else _numbers(vector)}}}\n'.encode("ascii"))


def read_rows(export: Export) -> Iterator[Row]:
    """Yield the values of `columns_of`; a vector is a float32 array, and a time has a zone."""
    of_images = _object_rows if export.has_objects else _output_rows
    for image in export.read_images():
        yield from of_images(image, _image_values(image, export))


def _image_values(image: ExportedImage, export: Export) -> Row:
    prediction = image.prediction
    size = prediction.picture or (None, None)
    model = (export.model.name, prediction.model_id, prediction.variant)
    return (prediction.image_id, image.path, image.date, *model, *size)


def _object_rows(image: ExportedImage, shared: Row) -> Iterator[Row]:
    for values in _object_values(image):
        yield shared + values


def _object_values(image: ExportedImage) -> list[Row]:
    """Return the values of OBJECT of each object; `object` is its number in infer_objects, whatever is left out."""
    if not image.objects:
        return [_NO_OBJECT]
    image_width, image_height = image.picture
    rows, found = [], image.prediction.objects
    number = -1
    for one in image.objects:
        number += 1
        while found[number] is not one:
            number += 1
        label, index, score, x, y, width, height = one
        x1, y1 = x * image_width, y * image_height
        x2, y2 = (x + width) * image_width, (y + height) * image_height
        rows.append((number, label, index, score, x, y, width, height, x1, y1, x2, y2))
    return rows


def _output_rows(image: ExportedImage, shared: Row) -> Iterator[Row]:
    prediction = image.prediction
    output = prediction.output
    assert output is not None  # an export of another kind than objects reads it
    details = dict(output.details)
    label, score = prediction.label, prediction.score
    for key in ("labels", "top"):  # what is under its threshold is left out here too
        if key in details:
            details[key] = list(image.labels)
            best = image.labels[0] if image.labels else {"label": None, "score": None}
            label, score = best["label"], best["score"]
    vector = _vector(output.vector, output.vector_dtype)
    yield (*shared, label, score, details, vector, output.sha256, output.created_at.replace(tzinfo=UTC))


def _vector(data: bytes | None, dtype: str | None) -> np.ndarray | None:
    return None if data is None else np.frombuffer(data, "<f2" if dtype == "float16" else "<f4").astype(np.float32)


def _numbers(vector: np.ndarray) -> str:
    """Return all numbers as JSON: nine digits identify a float32."""
    return f"[{', '.join(['%.9g'] * len(vector))}]" % tuple(vector.tolist())


def _text_rows(export: Export) -> Iterator[Row]:
    if export.has_objects:
        yield from read_rows(export)
        return
    first = len(IMAGE)
    for row in read_rows(export):
        label, score, details, vector, sha256, created_at = row[first:]
        numbers = None if vector is None else _numbers(vector)
        yield (*row[:first], label, score, json.dumps(details), numbers, sha256, created_at.isoformat())


def _object_lines(export: Export) -> Iterator[bytes]:
    """Yield the lines of each image, whose own values are encoded once."""
    labels: dict[str | None, str] = {}
    for image in export.read_images():
        values = dict(zip(IMAGE, _image_values(image, export), strict=True))
        shared = json.dumps(values | {"date": str(image.date)})[:-1]
        lines = []
        for number, label, *rest in _object_values(image):
            shown = labels.get(label)
            if shown is None:
                shown = labels[label] = json.dumps(label)
            index, score, x, y, width, height, x1, y1, x2, y2 = ("null" if one is None else one for one in rest)
            lines.append(
                f'{shared}, "object": {"null" if number is None else number}, "label": {shown}, '
                f'"class_index": {index}, "score": {score}, '
                f'"x": {x}, "y": {y}, "width": {width}, "height": {height}, '
                f'"xmin": {x1}, "ymin": {y1}, "xmax": {x2}, "ymax": {y2}}}\n'
            )
        yield "".join(lines).encode("ascii")
