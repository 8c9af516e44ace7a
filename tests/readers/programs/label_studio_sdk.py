"""label-studio-sdk: what Label Studio asks of predictions that are imported, and its own exports of them."""

import json
from urllib.parse import unquote

from tests.readers.reader import rounded, same

PACKAGES = ("label-studio-sdk==2.1.2",)
SERVED = "/data/local-files/?d="
GROUP = "carnivora"  # has no class: its number follows those of classes


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
        if model == "colors":
            chosen = [task["predictions"][0]["result"][0]["value"]["choices"] for task in tasks]
            same(chosen, [[image["labels"][0]["label"]] for image in exports.predicted])
        else:
            converter = Converter(config, project_dir=None, download_resources=False)
            compare_converted(exports, model, tasks, converter)
    return exports.figure


def compare_converted(exports, model, tasks, converter):
    """Convert the predictions, taken over as annotations, as Label Studio does."""
    folder = exports.scratch(model)
    annotated = [task | {"id": number, "annotations": task["predictions"]} for number, task in enumerate(tasks)]
    (folder / "tasks.json").write_text(json.dumps(annotated))
    converter.convert_to_coco(folder / "tasks.json", folder / "coco", is_dir=False)
    converter.convert_to_yolo(folder / "tasks.json", folder / "yolo", is_dir=False)
    coco = json.loads((folder / "coco" / "result.json").read_text())
    same([(one["id"], one["name"]) for one in coco["categories"]], list(enumerate(classes_of(exports, model))))
    same(read_coco(coco), expected(exports, model))
    same((folder / "yolo" / "classes.txt").read_text().splitlines(), classes_of(exports, model))
    # It names labels by the last part of a URL: of photos with one name the last is left, and "%20" stays.
    last = {path.rpartition("/")[2]: boxes for path, boxes in expected(exports, model).items()}
    same(read_yolo(exports, folder / "yolo" / "labels"), last)


def classes_of(exports, model):
    """Return the classes by their numbers: those of the YOLO export, so that data sets of both can be joined."""
    classes = (exports.folder / model / "yolo" / "classes.txt").read_text().splitlines()
    return classes if model == "detector" else [*classes, GROUP]


def read_coco(found):
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
    numbers = {label: number for number, label in enumerate(classes_of(exports, model))}
    return {
        path: rounded((numbers[next(filter(None, row[: len(keys)]))], *row[len(keys) :]) for row in rows)
        for path, rows in exports.boxes(*keys).items()
    }
