"""A project with results of two versions of a detector and of a second network, written without a run."""

import csv
import json

from infer_app.base.domain import CropOutput, DetectedObject, ImageRef, Output, Prediction
from infer_app.tables.engine.connect import Database
from tests.support.projects import DATE, Project
from tests.support.results import broken, commit
from tests.support.second_networks import DETECTION, FILE, SPECIES, classified

AT = f"{DATE} 10:00:00.000000"
D1, D2, S1, S2 = (digit * 16 for digit in "1234")
MODELS = (("animals", D1, DETECTION), ("animals", D2, DETECTION), ("species", S1, SPECIES), ("species", S2, SPECIES))


class Stored(Project):
    def insert(self, table, **row):
        values = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
        columns = ", ".join(f'"{name}"' for name in row)
        self.write(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", *values)

    def register(self, image_id, location=None):
        self.register_images(location or f"/{image_id}.jpg", id=int(image_id))

    def use(self, *model_ids):
        """Put versions in use; the others were in use before, the first one first."""
        for number, (_, model_id, _) in enumerate(MODELS):
            column, other = ("in_use_since", "used_until")[:: 1 if model_id in model_ids else -1]
            since = AT.replace("10:00:00", f"{11 if model_id in model_ids else 10}:00:{number:02}")
            self.write(f"UPDATE infer_models SET {column} = ?, {other} = NULL WHERE id = ?", since, model_id)

    def commit(self, model_id, detector_id, *results):
        facts = {"variant": "cpu-openvino", "detector_id": detector_id}
        with Database(f"sqlite:///{self.folder / 'infer.db'}") as database:
            commit(database, *results, run_id=f"run-{model_id}", model_id=model_id, **facts)

    def predict(self, image_id, model_id, output, detector_id=None):
        good = Prediction(ImageRef(image_id, f"/{image_id}.jpg"), output, FILE)
        self.commit(model_id, detector_id, [good])

    def detect(self, image_id, model_id, score):
        height = 0.5 if model_id == D1 else 0.25
        found = (DetectedObject("animal", 0, score, 0.1, 0.1, 0.5, height),)
        self.predict(image_id, model_id, Output("animal", score, objects=found))

    def classify(self, image_id, model_id, detector_id, *best, **output):
        """Write the labels and scores of object 0, the best first, or another output of it."""
        made = Output(*best[0], details=json.dumps(output)) if output else classified(*best)
        self.predict(image_id, model_id, Output(*best[0], crops=(CropOutput(0, made),)), detector_id)

    def reject(self, image_id, model_id, detector_id=None):
        self.commit(model_id, detector_id, (), broken(image_id))

    def run_once(self, name, model_id, day=DATE):
        row = dict.fromkeys(("interval_start", "interval_end", "started_at", "heartbeat_at", "ended_at"), AT)
        row |= dict.fromkeys(("variant", "executor", "device", "host", "process"), "1@1") | {"time_zone": "UTC"}
        row |= {"id": f"run-{model_id}", "day": day, "model": name, "model_id": model_id, "versions": {}}
        row |= {"state": "done", "selected": 1, "predicted": 1, "rejected": 0, "exit_code": 0}
        self.insert("infer_runs", **row)

    def export(self, name, *flags):
        file = self.folder / f"out.{name}"
        self.told = self.infer("export", "--date", DATE, "--format", name, "--to", str(file), *flags)
        return file

    def shown(self, model="species"):
        """Return (image, label) as the view has it; the table, and what is explained of the last image, must agree."""
        view = self.rows(f"SELECT image_id, label FROM infer_shown_crops WHERE model = '{model}' ORDER BY 1, object")
        with self.export("csv", "--model", model).open(newline="") as file:
            table = [(row["image_id"], row["label"] or None) for row in csv.DictReader(file) if row["object"]]
        assert table == view
        if view:
            (one,) = self.infer_json("explain", "--image", view[-1][0], "--model", model)["models"]
            made = [found["prediction"] for found in one["prediction"]["objects"] if found["shown"]]
            assert [row["shown_label"] for row in made if row] == [row[1] for row in view if row[0] == view[-1][0]]
        return view
