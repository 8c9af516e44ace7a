"""supervision: data sets of COCO and YOLO."""

from pathlib import Path

from tests.readers.reader import rounded, same

PACKAGES = ("supervision==0.31.2",)


def read(exports):
    import supervision

    for model in ("detector", "species"):
        coco = supervision.DetectionDataset.from_coco(str(exports.photos), f"{exports.folder / model}/coco.json")
        same(boxes(coco, exports.photos), expected(exports, model))
    # Its YOLO looks into one folder: one with photos right in it is read, one of cameras gives no image and no error.
    same(len(yolo(supervision, exports.photos, exports.folder / "detector" / "yolo")), 0)
    camera = exports.folder / "detector" / "yolo" / "labels" / "cam1"
    one = yolo(supervision, exports.photos / "cam1", exports.folder / "detector" / "yolo", camera)
    same(
        {f"cam1/{name}": rows for name, rows in boxes(one, exports.photos / "cam1").items() if name != "cut.jpg"},
        {path: rows for path, rows in expected(exports, "detector").items() if path.startswith("cam1/")},
    )
    return exports.figure


def yolo(supervision, photos, folder, labels=None):
    return supervision.DetectionDataset.from_yolo(
        str(photos), str(labels or folder / "labels"), str(folder / "data.yaml")
    )


def boxes(dataset, folder):
    read = {}
    for path, found in dataset.annotations.items():
        corners = zip(found.class_id, found.xyxy.tolist(), strict=True)
        rows = ((dataset.classes[number], x, y, right - x, bottom - y) for number, (x, y, right, bottom) in corners)
        read[str(Path(path).relative_to(folder))] = rounded(rows, 2)  # float32
    return read


def expected(exports, model):
    return exports.boxes("label", of=model, decimals=2)
