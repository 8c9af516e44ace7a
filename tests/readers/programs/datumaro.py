"""datumaro: COCO, where it lies in a data set's folders as it expects them."""

import logging
import shutil

from tests.readers.reader import refusal, rounded, same

PACKAGES = ("datumaro==1.13.12",)


def read(exports):
    from datumaro import Dataset
    from datumaro.components.errors import DatasetImportError, ItemImportError

    logging.disable()  # a warning for each box, that it has no segmentation
    for model in ("detector", "species"):
        folder = exports.scratch(model)
        shutil.copytree(exports.photos, folder / "images" / "week")
        (folder / "annotations").mkdir()
        shutil.copy(exports.folder / model / "coco.json", folder / "annotations" / "instances_week.json")
        dataset = Dataset.import_from(str(folder), "coco")
        same(boxes(dataset), exports.boxes("label", of=model, decimals=2))
    # Of YOLO it takes the folders of cameras for its subsets, and looks for their photos elsewhere.
    yolo = str(exports.folder / model / "yolo")
    same(refusal(Dataset.import_from, yolo, "yolo_ultralytics"), DatasetImportError)
    same(refusal(len, Dataset.import_from(yolo, "yolo")), ItemImportError)
    return exports.figure


def boxes(dataset):
    from datumaro import AnnotationType

    labels = [label.name for label in dataset.categories()[AnnotationType.label]]
    rows = ((f"{item.id}.jpg", [(labels[one.label], *one.get_bbox()) for one in item.annotations]) for item in dataset)
    return {path: rounded(found, 2) for path, found in rows}
