"""label-studio-sdk: what Label Studio asks of predictions that are imported, and its own exports of them."""

import json
from urllib.parse import unquote

from tests.readers.reader import rounded, same

PACKAGES = ("label-studio-sdk==2.1.2",)
SERVED = "/data/local-files/?d="
NUMBERS = {"truck": 0, "animal": 1, "Vulpes vulpes": 2, "lion": 3, "badger": 4, "carnivora": 5}  # of classes.txt


def read(exports):
    from label_studio_sdk.converter import Converter
    from label_studio_sdk.label_interface import LabelInterface

    for model in ("detector", "species", "colors"):
        config = (exports.folder / model / "tasks-config.xml").read_text()
        tasks = json.loads((exports.folder / model / "tasks.json").read_text())
        same([unquote(task["data"]["image"]) for task in tasks], [SERVED + one["path"] for one in exports.predicted])
        interface = LabelInterface(config)
        problems = [interface.validate_prediction(task["predictions"][0], return_errors=True) for task in tasks]
        same(problems, [[]] * len(tasks))
        if model != "colors":
            converter = Converter(config, project_dir=None, download_resources=False)
            compare_converted(exports, model, tasks, converter)
    return exports.figure


def compare_converted(exports, model, tasks, converter):
    """Convert the predictions, taken over as annotations, as Label Studio does."""
    folder = exports.scratch(f"label-studio-{model}")
    annotated = [task | {"id": number, "annotations": task["predictions"]} for number, task in enumerate(tasks)]
    (folder / "tasks.json").write_text(json.dumps(annotated))
    converter.convert_to_coco(folder / "tasks.json", folder / "coco", is_dir=False)
    converter.convert_to_yolo(folder / "tasks.json", folder / "yolo", is_dir=False)
    same(read_coco(json.loads((folder / "coco" / "result.json").read_text())), expected(exports, model))
    classes = (folder / "yolo" / "classes.txt").read_text().splitlines()
    same(classes, list(NUMBERS)[: len(classes)])
    # It names labels by the last part of a URL: of photos with one name the last is left, and "%20" stays.
    last = {path.rpartition("/")[2]: boxes for path, boxes in expected(exports, model).items()}
    same(read_yolo(exports, folder / "yolo" / "labels"), last)


def read_coco(found):
    categories = {one["id"]: one["name"] for one in found["categories"]}
    same(categories, {number: name for name, number in NUMBERS.items() if number in categories})
    boxes = {one["id"]: (unquote(one["file_name"]).removeprefix(SERVED), []) for one in found["images"]}
    for one in found["annotations"]:
        boxes[one["image_id"]][1].append((one["category_id"], *one["bbox"]))
    return {path: rounded(rows) for path, rows in boxes.values()}


def read_yolo(exports, labels):
    sizes = {one["path"].rpartition("/")[2]: one["size"] for one in exports.predicted}
    read = {}
    for path in labels.iterdir():
        name = f"{unquote(path.stem)}.jpg"
        (width, height), rows = sizes[name], []
        for line in path.read_text().splitlines():
            number, x, y, w, h = map(float, line.split())
            rows.append((int(number), (x - w / 2) * width, (y - h / 2) * height, w * width, h * height))
        read[name] = rounded(rows)
    return read


def expected(exports, model):
    """Return the boxes with the class of what is shown: of `species`, where it shows something, else the detector's."""
    keys = ("label",) if model == "detector" else ("shown", "label")
    found = exports.boxes(*keys)
    return {
        path: rounded((NUMBERS[next(filter(None, row[: len(keys)]))], *row[len(keys) :]) for row in rows)
        for path, rows in found.items()
    }
