"""A project whose rows are written by SQL: of two versions of a detector and of a second network."""

import csv
import json

from tests.support.projects import DATE, Project

AT = f"{DATE} 10:00:00.000000"
D1, D2, S1, S2 = (digit * 16 for digit in "1234")
DETECTION = {"output": {"kind": "detection"}, "labels": ["animal"]}
CROP = {"of": "animals", "min_score": 0.2, "rule": {}}
SPECIES = {
    "output": {"kind": "classification", "activation": "softmax", "top_k": 5},
    "labels": ["lion", "tiger", "dog"],
    "crop": CROP,
}
MODELS = (("animals", D1, DETECTION), ("animals", D2, DETECTION), ("species", S1, SPECIES), ("species", S2, SPECIES))


class Stored(Project):
    """A project whose rows are written by SQL."""

    def insert(self, table, **row):
        values = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
        columns = ", ".join(f'"{name}"' for name in row)
        self.write(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", *values)

    def register(self, image_id, location=None):
        self.insert("infer_images", id=int(image_id), location=location or f"/{image_id}.jpg", added_at=AT)

    def use(self, *model_ids):
        """Put versions in use; the others were in use before, the first one first."""
        for number, (_, model_id, _) in enumerate(MODELS):
            column, other = ("in_use_since", "used_until")[:: 1 if model_id in model_ids else -1]
            since = AT.replace("10:00:00", f"{11 if model_id in model_ids else 10}:00:{number:02}")
            self.write(f"UPDATE infer_models SET {column} = ?, {other} = NULL WHERE id = ?", since, model_id)

    def predict(self, image_id, model_id, label=None, score=None, detector_id=None, num_objects=None, output=None):
        facts = {"run_id": f"run-{model_id}", "variant": "cpu-openvino", "sha256": "0" * 64, "created_at": AT}
        picture = {"width": 100, "height": 100, "location": f"/{image_id}.jpg", "size": 9, "modified": 1.0}
        own = {"label": label, "score": score, "output": output or {}, "num_objects": num_objects}
        self.insert(
            "infer_predictions",
            image_id=image_id,
            model_id=model_id,
            **own,
            detector_id=detector_id,
            **facts,
            **picture,
        )

    def detect(self, image_id, model_id, *scores, label="animal"):
        self.predict(image_id, model_id, label if scores else None, scores[0] if scores else None, None, len(scores))
        for number, score in enumerate(scores):
            box = {"x": 0.1, "y": 0.1, "width": 0.5, "height": 0.5 if model_id == D1 else 0.25}
            row = {"object": number, "label": label, "class_index": 0, "score": score}
            self.insert("infer_objects", image_id=image_id, model_id=model_id, **row, **box)

    def classify(self, image_id, model_id, detector_id, *best, **output):
        """Write the labels and scores of object 0, the best first."""
        listed = [{"label": label, "index": index, "score": score} for index, (label, score) in enumerate(best)]
        label, score = best[0]
        self.predict(image_id, model_id, label, score, detector_id, 1)
        row = {"object": 0, "label": label, "score": score, "output": output or {"top": listed}}
        self.insert("infer_object_predictions", image_id=image_id, model_id=model_id, **row)

    def run_once(self, name, model_id, day=DATE, source_id=None):
        row = dict.fromkeys(("interval_start", "interval_end", "started_at", "heartbeat_at", "ended_at"), AT)
        row |= dict.fromkeys(("variant", "executor", "device", "host", "process"), "1@1") | {"time_zone": "UTC"}
        row |= {"id": f"run-{model_id}", "day": day, "model": name, "model_id": model_id, "versions": {}}
        row |= {"state": "done", "selected": 1, "predicted": 1, "rejected": 0, "exit_code": 0}
        self.insert("infer_runs", **row, source_id=source_id)

    def reject(self, image_id, model_id, detector_id=None):
        facts = {"run_id": f"run-{model_id}", "detail": "", "stage": "decode", "attempts": 1, "decoder": "d"}
        file = {"location": f"/{image_id}.jpg", "size": 1, "modified": 2.0, "sha256": "f" * 64, "created_at": AT}
        row = {"reason": "corrupt", "detector_id": detector_id}
        self.insert("infer_rejections", image_id=image_id, model_id=model_id, **row, **facts, **file)

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
