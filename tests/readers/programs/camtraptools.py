"""camtraptools: labels of a Camtrap DP package, its events, and MegaDetector's file beside the same package."""

import shutil
from collections import Counter

from tests.readers.reader import refusal, rounded, same

PACKAGES = ("camtraptools==0.8.1",)
TAXA = {
    "lion": ";mammalia;carnivora;felidae;panthera;leo;lion",
    "Vulpes vulpes": ";;;;vulpes;vulpes;vulpes vulpes",
    "badger": ";;;;;;badger",
}


def read(exports):
    from camtraptools import check, detect, events, importer, labels

    for model in ("detector", "species"):
        package = exports.folder / model / "camtrap-dp"
        found = labels.read_camtrap_dp(package)
        same(Counter(zip(found["path"], found["label"], strict=True)), Counter(told(exports, model)))
        same(refusal(check.run, package), TypeError)  # times with an offset
    copy = exports.scratch("imported") / "package"
    shutil.copytree(package, copy)
    same(importer.run(copy, exports.folder / "species" / "megadetector.json"), (len(exports.images), 0))
    found = detect.load_detections(copy / "speciesnet.json").to_dict("records")
    same(rounded(map(detection, found)), rounded(detections(exports)))
    same(detect.failed_images(copy / "speciesnet.json"), [one["path"] for one in exports.images if one["rejected"]])
    same(refusal(events.run, copy), ValueError)  # of two offsets, as a package has them over a change of the clocks
    return exports.figure


def told(exports, model):
    """Yield each label of a picture that it knows, and those of an event for all pictures of it."""
    for images in exports.by_event().values():
        own = {one["path"]: list(names_in(one, model)) for one in images if not one["rejected"]}
        yield from ((path, name) for path, names in own.items() for name in names)
        seen = {name for names in own.values() for name in names if name != "blank"}
        yield from ((one["path"], name) for one in images for name in seen)


def names_in(image, model):
    if not image["objects"]:
        yield "blank"
    for one in image["objects"]:
        if one["label"] == "truck":
            yield "vehicle"
        elif model == "species" and one["shown"] == "Vulpes vulpes":  # of others no scientific name is known
            yield one["shown"]


def detections(exports):
    for image in exports.predicted:
        for number, one in enumerate(image["objects"]):
            best = one["labels"][0] if one["labels"] else {"label": None, "score": 0.0}
            what = (image["path"], number, one["label"], one["score"], *one["box"])
            yield (*what, TAXA.get(best["label"], ""), best["score"])


def detection(row):
    *values, label, score = row.values()
    return (*values, label, score) if isinstance(label, str) else (*values, "", 0.0)
