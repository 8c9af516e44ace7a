"""What is stored beside what is given now, of an image or of each of its objects."""

import json

import pytest

from infer_app.ask.compare.row_comparison import pair_answers
from infer_app.base.domain import Broken, CropOutput, DetectedObject, ImageRef, Output, Prediction, Reason
from infer_app.tables.rows.image_history import StoredObject
from infer_app.tables.rows.results import PredictedCrop, StoredOutput

REF = ImageRef("1", "/p/1.jpg")
CAT, DOG = DetectedObject("cat", 0, 0.9, 0.1, 0.1, 0.4, 0.4), DetectedObject("dog", 1, 0.8, 0.5, 0.5, 0.5, 0.5)
VECTOR = Output(vector=b"12345678", vector_dtype="float32", vector_dim=2)


def row(label=None, score=None, output=None, vector_dim=None):
    return PredictedCrop(label, score, StoredOutput(json.dumps(output or {}), None, None, vector_dim))


def made(label, score):
    return StoredObject(0, CAT, is_shown=True, made=row(label, score))


BOX, AT = "0.100 0.400 0.400", "at 0.500 0.500 0.500 0.500"
FOUND = [StoredObject(0, one, is_shown=True) for one in (CAT, DOG)]
AGAIN = Output("cat", 0.7, objects=(CAT._replace(score=0.7, x=0.101), DOG._replace(label="cow")))
TAKEN = [made("fox", 0.5), StoredObject(0, CAT, is_shown=True), made("owl", 0.6)]
GIVEN = Output("fox", 0.5, crops=(CropOutput(0, Output("fox", 0.5)), CropOutput(1, Output("cow", 0.75))))


@pytest.mark.parametrize(
    ("stored", "objects", "now", "pairs"),
    [
        (row("cat", 0.5), (), Output("dog", 0.75), [("cat 0.5", "dog 0.75")]),
        (row(score=3.5), (), Output(score=3.25), [("3.5", "3.25")]),
        (row(output={"values": [1.0, 2.0]}), (), Output(details='{"values": [1.0, 4.0]}'), [("1 2", "1 4")]),
        (row(vector_dim=2), (), VECTOR, [("a vector of 2", "a vector of 2")]),
        (
            row("cat", 0.9),
            FOUND,
            AGAIN,
            [
                (f"object 0: cat 0.9 at 0.100 {BOX}", f"cat 0.7 at 0.101 {BOX}"),
                (f"object 1: dog 0.8 {AT}", "none"),
                ("nothing", f"cow 0.8 {AT}"),
            ],
        ),
        (row(), [], Output(objects=()), []),
        (
            row("owl", 0.6),
            TAKEN,
            GIVEN,
            [("object 0: fox 0.5", "fox 0.5"), ("object 1: nothing", "cow 0.75"), ("object 2: owl 0.6", "not taken")],
        ),
    ],
    ids=["label", "number", "numbers", "vector", "objects", "no object", "objects of a second network"],
)
def test_both_answers_of_an_image_or_of_each_object(stored, objects, now, pairs):
    assert list(pair_answers(stored, objects, Prediction(REF, now))) == pairs


def test_a_picture_that_is_rejected_now():
    broken = Broken(REF, Reason.CORRUPT, "no end", "decode")
    assert list(pair_answers(row("cat", 0.5), (), broken)) == [("cat 0.5", "rejected, corrupt: no end")]
