"""Exports made by hand, without a database."""

import json
from dataclasses import replace
from datetime import date, datetime
from zlib import crc32

import numpy as np

from infer_app.ask.export.exported_images import Export
from infer_app.ask.export.exported_model import ModelVersions
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.base.domain import DetectedObject
from infer_app.base.size import Size
from infer_app.tables.cameras.captures import Capture
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod
from infer_app.tables.rows.results import Rejection, Result, StoredOutput
from infer_app.tables.shown_labels import ShownLabels

DATE = date(2026, 11, 20)
CREATED_AT = datetime(2026, 11, 21, 3, 0, 0, 500)
TAKEN_AT = datetime(2026, 11, 20, 6, 30)
ID = "0123456789abcdef"
CAT = DetectedObject("cat", 0, 0.75, 0.25, 0.5, 0.125, 0.25)
DOG = DetectedObject("dog", 2, 0.5, 0.0, 0.0, 1.0, 1.0)
LOW = DetectedObject("cat", 0, 0.25, 0.5, 0.5, 0.5, 0.5)
PICTURE = Size(640, 480)
FP32 = "cpu-openvino-fp32"
HOSTILE = 'a "quoted", <b>label</b>\n& two lines\r\x07'
HOSTILE_PATH = "/srv/photos/a, \"b\"\n'c'/\udcff Ä 猫.jpg"


def detected(image_id="1", *objects, location=None, picture=PICTURE, model_id=ID):
    best = (objects[0].label, objects[0].score) if objects else (None, None)
    location = f"/srv/photos/{image_id}.jpg" if location is None else location
    size = picture or (None, None)
    return Result(
        *_key(location, model_id),
        FP32,
        *best,
        None,
        CREATED_AT,
        *size,
        len(objects),
        None,
        image_id,
        location,
        objects=objects,
        places=tuple(range(len(objects))),
    )


def with_output(image_id="1", label=None, score=None, details=None, vector=None, dtype="float32"):
    data = None if vector is None else np.asarray(vector, dtype).tobytes()
    output = StoredOutput(json.dumps(details or {}), data, vector and dtype)
    location = f"/srv/photos/{image_id}.jpg"
    found = label, score, "ab" * 32, CREATED_AT, *PICTURE, None, None
    return Result(*_key(location), FP32, *found, image_id, location, output)


def _key(location, model_id=ID):
    """Return the first columns of a result: the number of its picture and the version."""
    return crc32(location.encode("utf-8", "surrogateescape")), model_id


def classified(image_id="1", **scores):
    """A softmax classification, the best label first."""
    top = [{"label": label, "index": index, "score": score} for index, (label, score) in enumerate(scores.items())]
    return with_output(image_id, top[0]["label"], top[0]["score"], {"top": top})


def tagged(image_id="1", **scores):
    """A multi-label classification."""
    listed = [{"label": label, "index": index, "score": score} for index, (label, score) in enumerate(scores.items())]
    best = listed[0] if listed else {"label": "none", "score": 0.1}
    return with_output(image_id, best["label"], best["score"], {"threshold": 0.2, "labels": listed})


def rejected(image_id="9", reason="corrupt", location=None):
    location = location or f"/srv/photos/{image_id}.jpg"
    of_file = None, None, None, "", CREATED_AT, None
    return Rejection(*_key(location), "run", reason, "no JPEG", "decode", 1, *of_file, image_id, location)


def export_of(*images, kind="detection", thresholds=None, paths=None, rejections=()):
    model = ModelVersions("animals", (ID,), (ID,), kind)
    dated = [(DATE, image) for image in images]
    return Export(model, ShownLabels(thresholds or {}), paths or ImagePaths(), lambda: dated, lambda: rejections)


def written(write, path, *images, **options):
    """The JSON that `write` has written."""
    write(path, export_of(*images, **options))
    return json.loads(path.read_text("ascii"))


class KnownCaptures:
    """One camera with coordinates has taken all pictures."""

    zone = "UTC"
    periods = (CameraPeriod(camera="north", latitude=47.5, longitude=8.25),)
    clocks = CameraClocks(periods)
    ends = {("north", periods[0]): (TAKEN_AT, TAKEN_AT)}  # noqa: RUF012

    def __init__(self, events=()):
        self.events = dict(events)  # by the number of the picture

    def read(self, numbers):
        return {one: Capture("north", TAKEN_AT, None, self.events.get(one), TAKEN_AT) for one in numbers}


def made_for(name, export):
    """The export with what a format needs besides predictions."""
    needs_cameras = name == "camtrap-dp"
    return replace(export, captures=KnownCaptures(), paths=ImagePaths("/")) if needs_cameras else export
