"""What pycocotools and programs with its interface read; imported in their own environments."""

import json

from tests.readers.reader import rounded, same


def compare(exports, coco_type, evaluation):
    """Compare the boxes of both networks, and expect an AP of 1 of the file against its own annotations as results."""
    for model in ("detector", "species"):
        path = exports.folder / model / "coco.json"
        coco = coco_type(str(path))
        same(boxes(coco), exports.boxes("label", "score", of=model))
        results = coco.loadRes(json.loads(path.read_text())["annotations"])
        judged = evaluation(coco, results, "bbox")
        for step in (judged.evaluate, judged.accumulate, judged.summarize):
            step()
        same(round(float(judged.stats[0]), 6), 1.0)
    return coco, results


def boxes(coco):
    read = {}
    for image in coco.loadImgs(coco.getImgIds()):
        objects = coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]]))
        rows = ((coco.loadCats([one["category_id"]])[0]["name"], one["score"], *one["bbox"]) for one in objects)
        read[image["file_name"]] = rounded(rows)
    return read


def without_objects(exports):
    """Write the same file as of a night without objects."""
    found = json.loads((exports.folder / "detector" / "coco.json").read_text())
    path = exports.scratch("without-objects") / "coco.json"
    path.write_text(json.dumps(found | {"annotations": []}))
    return path
