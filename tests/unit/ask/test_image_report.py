"""One image's story: what a second scoring is held against, and a file that can't be looked at."""

import numpy as np
import pytest

from infer_app.ask.compare import predict_again
from infer_app.ask.compare.predict_again import Replay
from infer_app.ask.image_report import FileNow, is_same_file
from infer_app.base.domain import CropOutput, DetectedObject, FileFacts, ImageRef, Output, Prediction
from infer_app.tables.queries.image_history import ModelHistory, StoredObject

REF = ImageRef("1", "/p/1.jpg")


def compared(now, /, **stored):
    row = dict.fromkeys(("label", "score", "vector", "vector_dtype")) | {"output": {}} | stored
    return predict_again._compared(Replay("cpu-torchscript"), Prediction(REF, now), row)


THREE_FOUR, FOUR_THREE = np.array([3, 4], "<f4").tobytes(), np.array([4, 3], "<f2").tobytes()
VECTOR = Output(vector=THREE_FOUR, vector_dtype="float32", vector_dim=2)


@pytest.mark.parametrize(
    ("now", "stored", "expected"),
    [
        (Output("dog", 0.75), {"label": "cat", "score": 0.5}, (False, 0.25, None)),
        (Output(details='{"values": [1.0, 4.0]}'), {"output": {"values": [1.0, 2.0]}}, (None, 1.0, None)),
        (VECTOR, {"vector": FOUR_THREE, "vector_dtype": "float16"}, (None, None, pytest.approx(0.96))),
        (VECTOR, {"vector": THREE_FOUR * 2, "vector_dtype": "float32"}, (None, None, None)),
    ],
    ids=["label and score", "numbers", "vectors", "vectors of two lengths"],
)
def test_outputs_are_compared_by_their_kind(now, stored, expected):
    found = compared(now, **stored)
    assert (found.same_label, found.score_difference, found.cosine) == expected


def test_objects_by_label_and_box():
    cat, dog = DetectedObject("cat", 0, 0.9, 0.1, 0.1, 0.4, 0.4), DetectedObject("dog", 1, 0.8, 0.5, 0.5, 0.5, 0.5)
    stored = [StoredObject(one, is_shown=True) for one in (cat, dog, dog._replace(x=0.0))]
    output = Output("cat", 0.7, objects=(cat._replace(score=0.7, x=0.101), dog._replace(label="cow")))
    found = compared(output, label="cat", score=0.9, objects=stored)
    assert (found.num_objects, found.num_stored, found.num_matched) == (2, 3, 1)
    assert found.score_difference == pytest.approx(-0.2)


def test_nothing_found_twice_is_the_same():
    found = compared(Output(objects=()), objects=[])
    assert (found.num_objects, found.num_stored, found.num_matched, found.score_difference) == (0, 0, 0, None)
    assert compared(Output(objects=()), objects=None).num_stored is None  # stored by a classifier


def test_of_a_second_network_each_object_with_what_is_stored_of_it():
    """Two of three that were taken are taken again, one of them with its label."""
    box = DetectedObject("animal", 0, 0.9, 0.1, 0.1, 0.4, 0.4)
    rows = [{"label": label, "vector": THREE_FOUR, "vector_dtype": "float32"} for label in ("cat", "dog", "fox")]
    stored = [StoredObject(box, is_shown=True, made=row) for row in [rows[0], None, *rows[1:]]]
    near = Output("cat", 0.7, vector=THREE_FOUR, vector_dtype="float32")
    other = Output("cow", 0.6, vector=FOUR_THREE, vector_dtype="float16")
    output = Output("cat", 0.7, crops=(CropOutput(0, near), CropOutput(1, near), CropOutput(2, other)))
    found = compared(output, label="cat", score=0.9, objects=stored)
    assert (found.num_objects, found.num_stored, found.num_matched) == (3, 3, 1)
    assert (found.same_label, found.score_difference) == (True, pytest.approx(-0.2))
    assert found.cosine == pytest.approx(0.96)


NOW = FileNow(FileFacts(7, 1.5, "a"))


@pytest.mark.parametrize(
    ("stored", "now", "same"),
    [
        ({"sha256": "a"}, NOW, True),
        ({"sha256": "b"}, NOW, False),
        ({"sha256": None, "size": 7, "modified": 1.5}, NOW, True),
        ({"sha256": None, "size": 7, "modified": 2.5}, NOW, False),
        ({"sha256": None, "size": None, "modified": None}, NOW, None),
        ({"sha256": None}, NOW, None),  # a prediction has neither size nor time
        ({"sha256": "a"}, FileNow(FileFacts()), None),  # which nobody can see
        ({"sha256": "a"}, None, None),
        (None, FileNow(FileFacts()), None),
    ],
)
def test_whether_the_file_is_the_one_that_was_looked_at(stored, now, same):
    assert is_same_file(now, ModelHistory("cats", "id", stored, None, None)) is same
