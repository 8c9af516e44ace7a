"""MegaDetector's output format, version 1.6: https://lila.science/megadetector-output-format.

Boxes are x, y, width, height as shares of the upright picture, as ours are.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from infer_app.artifact.model_names import short_name
from infer_app.ask.export.exported_images import Export, ExportedImage
from infer_app.ask.export.formats.categories import Categories
from infer_app.ask.export.species import SCIENTIFIC_NAME
from infer_app.base.atomic_file import new_content
from infer_app.tables.results.schema import ALL_LABELS
from infer_app.tables.rows.results import Rejection
from infer_app.tables.shown_labels import ShownCrop

VERSION = "1.6"
MAX_CLASSIFICATIONS = 5  # of an object
RANKS = 5  # class, order, family, genus, species
NO_RANK = ";" * (RANKS + 1)  # what the description of a label begins with of which none is known


def write_megadetector(path: Path, export: Export) -> None:
    """Write all images: an empty list of detections means that nothing was found, null that the image was rejected.

    The rejected are read first, and of an image that a run predicts meanwhile the prediction is written: none is in
    neither list, and none in both. Of an image that only the second network has rejected the objects are written.
    """
    with new_content(path) as file:
        file.writelines(text.encode("ascii") for text in _pieces(export))


def _pieces(export: Export) -> Iterator[str]:
    categories = Categories(export.of_boxes.model.labels_by_version)
    classes = Categories(export.model.labels_by_version if export.detector else ())
    yield '{"images": ['
    separator, made_by = "\n", set[str]()
    for entry in _entries(export, categories, classes, made_by):
        yield f"{separator}{entry}"
        separator = ",\n"
    yield f'],\n"detection_categories": {json.dumps(_named(categories))}'
    if export.detector:
        yield f',\n"classification_categories": {json.dumps(_named(classes))}'
        described = {key: _description(label, export) for key, label in _named(classes).items()}
        if not all(text.startswith(NO_RANK) for text in described.values()):  # each would count as "animal"
            yield f',\n"classification_category_descriptions": {json.dumps(described)}'
    yield f',\n"info": {json.dumps(_info(export, made_by))}}}\n'


def _entries(export: Export, categories: Categories, classes: Categories, made_by: set[str]) -> Iterator[str]:
    """Yield the lines of images, and add the versions whose predictions they are of."""
    failures = {rejected.picture: _failure(rejected, export) for rejected in export.read_rejected()}
    for image in export.read_images(all_objects=True):
        failures.pop(image.prediction.picture, None)
        made_by.add(image.prediction.model_id)
        yield _image(image, export, categories, classes)
    export.counts.num_rejected, export.counts.num_detected = len(failures), 0
    for image in export.detector.read_images() if export.detector and failures else ():
        if failures.pop(image.prediction.picture, None):  # the second network alone has failed
            export.counts.num_detected += 1
            export.counts.num_objects += len(image.objects)
            yield _image(image, export, categories, classes)
    yield from (json.dumps(failure) for failure in failures.values())


def _named(categories: Categories) -> dict[str, str]:
    """Return the names by id: a blank one is not allowed, and 0 is reserved for images without an object."""
    return {
        str(number + 1): label if label.strip() else str(number) for number, label in sorted(categories.labels.items())
    }


def _description(label: str, export: Export) -> str:
    """Return `;class;order;family;genus;species;label` in lower case: what readers take for a taxonomy, or refuse.

    Ranks are known of a taxonomy with five groups, and of a label whose scientific name has two words or three.
    """
    *groups, _ = export.shown.chain(label)
    if len(groups) != RANKS:
        name = export.species.name_of(label) or ""
        groups = ["", "", "", *name.split(" ", 1)] if SCIENTIFIC_NAME.fullmatch(name) else [""] * RANKS
    return ";".join(one.replace(";", ",") for one in ("", *groups, label)).lower()


def _info(export: Export, made_by: set[str]) -> dict[str, object]:
    """Return what the file says of itself; several versions of a model are all named."""
    model = export.model
    versions = ", ".join(short_name(model.name, one) for one in model.model_ids if one in made_by) or model.shown_name
    detector = export.detector.model.shown_name if export.detector else versions
    info: dict[str, object] = {"format_version": VERSION, "detector": detector}
    boxes = export.of_boxes
    # Stated also where none is set: readers would guess it by the detector's name.
    threshold = boxes.shown.thresholds.get(ALL_LABELS, boxes.model.min_score)
    info["detector_metadata"] = {"typical_detection_threshold": threshold}
    if export.detector:
        info["classifier"] = versions
        if ALL_LABELS in export.shown.thresholds:
            info["classifier_metadata"] = {"typical_classification_threshold": export.shown.thresholds[ALL_LABELS]}
    return info


def _image(image: ExportedImage, export: Export, categories: Categories, classes: Categories) -> str:
    detections = ", ".join(
        [
            f'{{"category": "{categories[index, label] + 1}", "conf": {score}, "bbox": [{x}, {y}, {width}, {height}]'
            f"{_classifications(crop, export, classes) if crop else ''}}}"
            for (label, index, score, x, y, width, height), crop in zip(image.objects, image.crops, strict=True)
        ]
    )
    return f'{{"file": {json.dumps(image.path)}, "detections": [{detections}]}}'


def _classifications(crop: ShownCrop, export: Export, classes: Categories) -> str:
    best = export.shown.allowed(crop.output)[:MAX_CLASSIFICATIONS]
    listed = [[str(classes[one["index"], one["label"]] + 1), one["score"]] for one in best]
    return f', "classifications": {json.dumps(listed)}'


def _failure(rejected: Rejection, export: Export) -> dict[str, object]:
    path = export.paths.find_or_shown(rejected.location, rejected.picture)
    return {"file": path, "failure": rejected.reason, "detections": None}
