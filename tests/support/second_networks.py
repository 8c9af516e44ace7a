"""Results of a detector and of second networks on it, as runs commit them."""

import json
from dataclasses import replace

from sqlalchemy import select

from infer_app.base.domain import CropOutput, DetectedObject, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.base.size import Size
from infer_app.tables.results.runs import RunModel, RunStore
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections
from tests.conftest import DAY
from tests.support.results import broken, commit

FILE = FileFacts(7, 1.5, "cd" * 32, Size(640, 480))
DETECTION = {"output": {"kind": "detection"}, "labels": ["animal"]}
SPECIES = {
    "output": {"kind": "classification", "activation": "softmax"},
    "labels": ["lion", "tiger", "dog"],
    "crop": {"of": "animals", "min_score": 0.2, "rule": {}},
}
VECTORS = {"output": {"kind": "embedding"}, "labels": [], "num_outputs": 2, "crop": SPECIES["crop"]}
DETECTOR = RunModel("animals", "d" * 16, "cpu-openvino", DETECTION)
SECOND = RunModel("species", "5" * 16, "cpu-openvino", SPECIES)
OTHER = replace(SECOND, name="sexes", model_id="6" * 16)
D, S = DETECTOR.model_id, SECOND.model_id
LION, DOG = [("lion", 0.75), ("tiger", 0.25)], [("dog", 0.5), ("lion", 0.25)]


class StoredModel:
    """A model with a run of the day, which commits what it is given."""

    def __init__(self, database, model=SECOND, detector_id=None):
        self._database, self._model = database, model
        self._run_id = RunStore(database).open_run(DAY, model)
        self.detector_id = detector_id

    def end_run(self):
        """End the run: what it writes from now on fails at the end of its transaction."""
        RunStore(self._database).fail_run(self._run_id, 1, "")

    def predict(self, image_id, output):
        return self._commit([Prediction(ImageRef(image_id, f"/{image_id}.jpg"), output, FILE)])

    def detect(self, image_id, *scores):
        """Commit an image with an object of each score."""
        objects = tuple(DetectedObject("animal", 0, score, 0.25, 0.5, 0.125, 0.0625) for score in scores)
        label, best = ("animal", scores[0]) if scores else (None, None)
        self.predict(image_id, Output(label, best, objects=objects))

    def classify(self, image_id, crops, **output):
        """Commit the best labels of some objects of an image, by their numbers."""
        found = tuple(CropOutput(number, classified(*best, **output)) for number, best in crops.items())
        best = max((crop.output for crop in found), key=lambda one: one.score or 0, default=Output())
        self.predict(image_id, Output(best.label, best.score, crops=found))

    def reject(self, image_id, reason=Reason.CORRUPT):
        self._commit((), broken(image_id, reason=reason))

    def _commit(self, *results):
        model = {"model_id": self._model.model_id, "variant": self._model.variant, "detector_id": self.detector_id}
        return commit(self._database, *results, run_id=self._run_id, **model)


def classified(*best, key="top", **output):
    """Return the output of a classifier, as verification/outputs.py makes it."""
    entries = [{"label": label, "index": index, "score": score} for index, (label, score) in enumerate(best)]
    return Output(*best[0], details=json.dumps({key: entries}), **output)


def keys(database, *tables):
    """By what all rows of tables are found: image, model, and the object's place in the image; sorted."""
    found = {
        object_predictions: select(objects.c.picture, object_predictions.c.model_id, objects.c.object).join(
            objects, objects.c.id == object_predictions.c.object_id
        ),
        objects: select(objects.c.picture, objects.c.model_id, objects.c.object),
        pictures: select(pictures.c.id),
    }
    wanted = [found[table] if table in found else select(table.c.picture, table.c.model_id) for table in tables]
    with database.read() as connection:
        return [sorted((str(row[0]), *row[1:]) for row in connection.execute(one)) for one in wanted]


def made(database):
    """What second networks have written, as `keys` has it."""
    is_made = (table.c.detector_id.is_not(None) for table in (predictions, rejections))
    with database.read() as connection:
        rows = [
            sorted(
                (str(row[0]), row[1])
                for row in connection.execute(select(table.c.picture, table.c.model_id).where(is_so))
            )
            for table, is_so in zip((predictions, rejections), is_made, strict=True)
        ]
    return [*rows, *keys(database, object_predictions)]
