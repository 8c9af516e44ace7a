"""What is shown of stored rows is the same in the views, in every export and in what commands print and count."""

import csv
import json

import pytest

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
        """Return (image, label) as the view, the table and the file of MegaDetector's rows have it; they must agree."""
        view = self.rows(f"SELECT image_id, label FROM infer_shown_crops WHERE model = '{model}' ORDER BY 1, object")
        with self.export("csv", "--model", model).open(newline="") as file:
            table = [(row["image_id"], row["label"] or None) for row in csv.DictReader(file) if row["object"]]
        assert table == view
        return view


@pytest.fixture
def stored(tmp_path):
    project = Stored(tmp_path / "project")
    project.init()
    project.upgrade()
    for name, model_id, manifest in MODELS:
        project.insert("infer_models", id=model_id, name=name, manifest=manifest, created_at=AT)
    project.use(D1, S1)
    return project


def test_results_of_objects_of_another_version_of_the_detector_are_shown_nowhere(stored):
    for image_id in "12":
        stored.register(image_id)
        stored.detect(image_id, D1, 0.9)
    stored.classify("1", S1, D1, ("lion", 0.8))
    stored.detect("2", D2, 0.7)
    stored.classify("2", S1, D2, ("dog", 0.6))
    for detector, image_id, label in ((D1, "1", "lion"), (D2, "2", "dog")):
        stored.use(detector, S1)
        assert stored.shown() == [(image_id, label)]
        assert "1 image is pending" in stored.told
        current = "SELECT image_id, label FROM infer_current_predictions WHERE model_id = '{}'"
        listed = stored.infer_json("predictions", "--date", DATE, "--model", "species")["predictions"]
        assert [(one["image_id"], one["label"]) for one in listed] == stored.rows(current.format(S1))
        assert [one["image_id"] for one in listed] == [image_id]
        found = json.loads(stored.export("megadetector", "--model", "species").read_text())
        assert (found["info"]["detector"], len(found["images"])) == (f"animals@{detector[:8]}", 1)


def test_a_version_that_rejected_an_image_hides_the_answer_of_the_version_before_it(stored):
    """Which may be of a former file; and a file names the versions that its rows are of."""
    for image_id in "123":
        stored.register(image_id)
        stored.detect(image_id, D1, 0.9)
    for image_id in "12":
        stored.classify(image_id, S1, D1, ("lion", 0.8))
    stored.use(D1, S2)
    stored.reject("1", S2, D1)
    stored.classify("3", S2, D1, ("dog", 0.6))
    assert stored.shown() == [("2", "lion"), ("3", "dog")]
    assert "1 rejected image is not in" in stored.told
    listed = stored.infer_json("predictions", "--date", DATE, "--model", "species")["predictions"]
    assert [one["image_id"] for one in listed] == ["2", "3"]
    found = json.loads(stored.export("megadetector", "--model", "species").read_text())
    assert found["info"]["classifier"] == f"species@{S2[:8]}, species@{S1[:8]}"
    assert ["classifications" in one["detections"][0] for one in found["images"]] == [True, True, False]


LOW = {"labels": [], "threshold": 0.5}  # male 0.3 is the best, and is not listed
EQUAL = [("lion", 0.5), ("dog", 0.5)]  # lion is the network's best


@pytest.mark.parametrize(
    ("best", "output", "labels", "thresholds", "shown"),
    [
        ([("lion", 0.3)], LOW, SPECIES["labels"], [], None),
        ([("lion", 0.3)], LOW, SPECIES["labels"], ["--default", "0.2"], None),
        (EQUAL, {}, SPECIES["labels"], [], "lion"),
        (EQUAL, {}, SPECIES["labels"], ["lion=0.6"], "dog"),
        (EQUAL, {}, SPECIES["labels"], ["lion=0.6", "dog=0.6"], None),
        ([("lion", 0.4), ("lion", 0.35)], {}, ["lion", "lion", "dog"], ["--default", "0.7"], "lion"),
    ],
)
def test_one_label_of_an_object_is_shown_everywhere(stored, best, output, labels, thresholds, shown):
    stored.register("1")
    stored.detect("1", D1, 0.9)
    stored.classify("1", S1, D1, *best, **output)
    activation = "sigmoid" if output else "softmax"
    manifest = SPECIES | {"labels": labels, "output": SPECIES["output"] | {"activation": activation, "threshold": 0.5}}
    stored.write("UPDATE infer_models SET manifest = ? WHERE id = ?", json.dumps(manifest), S1)
    if thresholds:
        stored.infer("threshold", "set", "species", *thresholds)
    assert stored.shown() == [("1", shown)]
    stored.infer_json("report", "--date", DATE, "--model", "species")
    page = json.loads((stored.folder / f"reports/{DATE}-species.json").read_text())
    counted = page["labels"] and [(one["label"], one["count"]) for one in page["labels"]["most"]]
    assert counted == ([(shown, 1)] if shown else None)
