"""Tables as CSV and JSON lines: a row for each object of a detector or of a second network, or for each image.

An image without an object has a row too, in which the object's columns are empty.
"""

import json
from collections.abc import Iterator
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from infer_app.ask.export.exported_images import Export, ExportedImage
from infer_app.ask.figures.similarity import vector_of
from infer_app.base.atomic_file import new_content
from infer_app.base.printing import csv_line, csv_lines
from infer_app.tables.rows.results import Part, Result, StoredOutput

IMAGE = ("image_id", "location", "date", "model", "model_id", "variant", "image_width", "image_height")
CAPTURE = ("camera", "taken_at", "event")  # if cameras are recorded; the time is by the camera's clock, put right
OBJECT = ("object", "label", "class_index", "score", "x", "y", "width", "height", "xmin", "ymin", "xmax", "ymax")
OUTPUT = ("label", "score", "output", "vector", "sha256", "created_at")
OF_DETECTOR = tuple(f"detected_{name}" if name in OUTPUT or name == "class_index" else name for name in OBJECT)
OF_CROP = ("object_id", *OUTPUT)  # what a second network predicted, with the object's number of infer_objects
_NAMES = {  # of Arrow's types
    "string": ("image_id", "location", "model", "model_id", "variant", "camera", "label", "output", "sha256"),
    "int32": ("image_width", "image_height", "object", "class_index"),
    "int64": ("object_id", "event"),
    "float64": ("score", "x", "y", "width", "height", "xmin", "ymin", "xmax", "ymax"),
    "date32": ("date",),
    "timestamp": ("taken_at", "created_at"),
    "list_": ("vector",),
}
TYPES = {name: kind for kind, names in _NAMES.items() for name in names}
_NO_OBJECT, _NO_OUTPUT = (None,) * len(OBJECT), (None,) * len(OF_CROP)

Row = tuple[Any, ...]


def columns_of(export: Export) -> tuple[str, ...]:
    if export.detector:
        return _image_columns(export) + OF_DETECTOR + OF_CROP
    return _image_columns(export) + (OBJECT if export.model.has_objects else OUTPUT)


def _image_columns(export: Export) -> tuple[str, ...]:
    return IMAGE + CAPTURE if export.captures else IMAGE


def write_csv(path: Path, export: Export) -> None:
    """Write CSV in UTF-8. `output` and `vector` are JSON; undecodable bytes of a file name are written as `\\udcff`."""
    lines = _object_csv(export) if export.model.part is Part.OBJECTS else csv_lines(_text_rows(export))
    with new_content(path) as file:
        file.write(csv_line(columns_of(export)).encode())
        file.writelines(line.encode("utf-8", "backslashreplace") for line in lines)


def write_jsonl(path: Path, export: Export) -> None:
    """Write one JSON object a line."""
    lines = _object_json(export) if export.model.part is Part.OBJECTS else _output_json(export)
    with new_content(path) as file:
        file.writelines(line.encode("ascii") for line in lines)


def read_rows(export: Export) -> Iterator[Row]:
    """Yield the values of `columns_of`; `output` is JSON, a vector a float32 array, and a time has a zone."""
    of_images = _crop_rows if export.detector else _object_rows if export.model.has_objects else _output_rows
    for image in export.read_images():
        yield from of_images(image, _image_values(image, export))


def _image_values(image: ExportedImage, export: Export) -> Row:
    prediction = image.prediction
    size = prediction.upright or (None, None)
    model = (export.model.name, prediction.model_id, prediction.variant)
    capture = image.capture
    of_camera = (capture.camera, capture.taken_at and capture.taken_at.isoformat(), capture.event) if capture else ()
    return (prediction.image_id, image.path, image.date, *model, *size, *of_camera)


def _object_rows(image: ExportedImage, shared: Row) -> Iterator[Row]:
    for values in _object_values(image):
        yield shared + values


def _object_values(image: ExportedImage) -> list[Row]:
    """Return the values of OBJECT of each object; `object` is its place in the image, whatever is left out."""
    if not image.objects:
        return [_NO_OBJECT]
    image_width, image_height = image.picture
    rows, places = [], zip(image.prediction.objects, image.prediction.places, strict=True)
    for one in image.objects:
        number = next(place for found, place in places if found is one)
        label, index, score, x, y, width, height = one
        x1, y1 = x * image_width, y * image_height
        x2, y2 = (x + width) * image_width, (y + height) * image_height
        rows.append((number, label, index, score, x, y, width, height, x1, y1, x2, y2))
    return rows


def _output_rows(image: ExportedImage, shared: Row) -> Iterator[Row]:
    prediction = image.prediction
    output = prediction.output
    text, label, score = output.text, prediction.label, prediction.score
    if image.shown and image.shown.thresholds:  # what is under its threshold is left out here too
        details, labels = dict(output.details), list(image.listed)
        for key in details.keys() & {"labels", "top"}:
            details[key] = labels
            best = labels[0] if labels else {"label": None, "score": None}
            text, label, score = json.dumps(details), best["label"], best["score"]
    yield (*shared, label, score, text, *_stored_values(output, prediction))


def _crop_rows(image: ExportedImage, shared: Row) -> Iterator[Row]:
    for values, crop in zip(_object_values(image), image.crops or (None,), strict=True):
        if crop is None:
            yield shared + values + _NO_OUTPUT
            continue
        stored = _stored_values(crop.output, image.prediction)
        yield (*shared, *values, crop.object_id, crop.label, crop.score, crop.output.text, *stored)


def _stored_values(output: StoredOutput, prediction: Result) -> Row:
    vector = None if output.vector is None else vector_of(output.vector, output.vector_dtype).astype(np.float32)
    return vector, prediction.sha256, prediction.created_at.replace(tzinfo=UTC)


def _numbers(vector: np.ndarray) -> str:
    """Return all numbers as JSON: nine digits identify a float32."""
    return f"[{', '.join(['%.9g'] * len(vector))}]" % tuple(vector.tolist())


def _text_rows(export: Export) -> Iterator[Row]:
    first = len(columns_of(export)) - len(OUTPUT)
    for row in read_rows(export):
        label, score, details, vector, sha256, created_at = row[first:]
        if created_at is None:  # no object
            yield row
            continue
        numbers = None if vector is None else _numbers(vector)
        yield (*row[:first], label, score, details, numbers, sha256, created_at.isoformat())


def _output_json(export: Export) -> Iterator[str]:
    names = columns_of(export)
    for row in read_rows(export):
        values = dict(zip(names, row, strict=True))
        at = values["created_at"]
        values["date"], values["created_at"] = str(values["date"]), at and at.isoformat()
        values["output"] = values["output"] and json.loads(values["output"])
        vector = values.pop("vector")
        yield f'{json.dumps(values)[:-1]}, "vector": {"null" if vector is None else _numbers(vector)}}}\n'


# The lines of objects are put together by hand: twice as fast as by `csv` and three times as fast as by `json`. What an
# image's lines have in common, and each label, are encoded once.


def _object_csv(export: Export) -> Iterator[str]:
    encoded = cache(lambda label: csv_line((label,))[:-2])
    no_object = "," * len(OBJECT) + "\r\n"
    for image in export.read_images():
        shared = csv_line(_image_values(image, export))[:-2]
        if not image.objects:
            yield shared + no_object
            continue
        yield "".join(
            [
                f"{shared},{number},{encoded(label)},{index},{score},{x},{y},{width},{height},{x1},{y1},{x2},{y2}\r\n"
                for number, label, index, score, x, y, width, height, x1, y1, x2, y2 in _object_values(image)
            ]
        )


def _object_json(export: Export) -> Iterator[str]:
    encoded = cache(json.dumps)
    no_object = json.dumps(dict.fromkeys(OBJECT))[1:]
    for image in export.read_images():
        values = dict(zip(_image_columns(export), _image_values(image, export), strict=True))
        shared = json.dumps(values | {"date": str(image.date)})[:-1]
        if not image.objects:
            yield f"{shared}, {no_object}\n"
            continue
        yield "".join(
            [
                f'{shared}, "object": {number}, "label": {encoded(label)}, "class_index": {index}, "score": {score}, '
                f'"x": {x}, "y": {y}, "width": {width}, "height": {height}, '
                f'"xmin": {x1}, "ymin": {y1}, "xmax": {x2}, "ymax": {y2}}}\n'
                for number, label, index, score, x, y, width, height, x1, y1, x2, y2 in _object_values(image)
            ]
        )
