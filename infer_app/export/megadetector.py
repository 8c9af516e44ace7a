"""MegaDetector's output format, version 1.6: https://lila.science/megadetector-output-format.

Boxes are x, y, width, height as shares of the upright picture, as ours are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from infer_app.atomic_file import new_content
from infer_app.database.figures.figures import RejectedImage
from infer_app.database.queries.thresholds import ALL_LABELS
from infer_app.export.categories import Categories
from infer_app.export.exported_images import Export, ExportedImage

VERSION = "1.6"


def write_megadetector(path: Path, export: Export) -> None:
    """Write all images: an empty list of detections means that nothing was found, null that the image was rejected.

    The rejected are read first, and of an image that a run predicts meanwhile the prediction is written: none is in
    neither list, and none in both.
    """
    with new_content(path) as file:
        file.writelines(text.encode("ascii") for text in _pieces(export))


def _pieces(export: Export) -> Iterator[str]:
    categories = Categories(export.model.labels_by_version)
    yield f'{{"info": {json.dumps(_info(export))},\n"images": ['
    separator = "\n"
    failures = {rejected.image_id: _failure(rejected, export) for rejected in export.read_rejected()}
    for image in export.read_images():
        failures.pop(image.prediction.image_id, None)
        yield f'{separator}{{"file": {json.dumps(image.path)}, "detections": [{_detections(image, categories)}]}}'
        separator = ",\n"
    for failure in failures.values():
        yield f"{separator}{json.dumps(failure)}"
        separator = ",\n"
    export.counts.num_rejected = len(failures)
    # A blank name is not allowed, and 0 is reserved for images without an object.
    named = {
        str(number + 1): label if label.strip() else str(number) for number, label in sorted(categories.labels.items())
    }
    yield f'],\n"detection_categories": {json.dumps(named)}}}\n'


def _info(export: Export) -> dict[str, object]:
    info: dict[str, object] = {"format_version": VERSION, "detector": export.model.shown_name}
    if ALL_LABELS in export.thresholds:
        info["detector_metadata"] = {"typical_detection_threshold": export.thresholds[ALL_LABELS]}
    return info


def _detections(image: ExportedImage, categories: Categories) -> str:
    return ", ".join(
        [
            f'{{"category": "{categories[index, label] + 1}", "conf": {score}, "bbox": [{x}, {y}, {width}, {height}]}}'
            for label, index, score, x, y, width, height in image.objects
        ]
    )


def _failure(rejected: RejectedImage, export: Export) -> dict[str, object]:
    return {"file": export.paths.find_or_shown(rejected.location), "failure": rejected.reason, "detections": None}
