"""Which differences of a stored row from a new prediction count, for each kind of output."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from infer_app.artifact.specs import DetectionSpec
from infer_app.ask.compare.replay_audit import Amount, ReplayAudit, choose
from infer_app.ask.compare.row_comparison import RowComparison
from infer_app.base.domain import Broken, CropOutput, DetectedObject, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.tables.rows.image_history import ModelHistory, StoredObject
from infer_app.tables.rows.results import PredictedCrop, StoredOutput
from tests.support.exports import detected

REF = ImageRef("1", "/photos/1.jpg")
FOX = DetectedObject("fox", 0, 0.9, 0.1, 0.1, 0.4, 0.4)
CLASSES = ("cat", "dog", "fox")
FAINT = FOX._replace(score=0.105, x=0.6)
LAST, OTHER = FOX._replace(score=0.5, x=0.5), FOX._replace(label="dog", score=0.495, x=0.3)


def entries(scores):
    return [{"label": one, "index": CLASSES.index(one), "score": value} for one, value in scores.items()]


def classes(label, score, **others):
    return Output(label, score, json.dumps({"top": entries({label: score, **others})}))


def labels(label, score, **over):
    return Output(label, score, json.dumps({"labels": entries(over), "threshold": 0.5}))


def vector(*numbers):
    return Output(vector=np.array(numbers, "<f4").tobytes(), vector_dtype="float32", vector_dim=len(numbers))


def numbers(*values):
    return Output(details=json.dumps({"values": values}))


def found(*objects):
    return Output(objects=objects)


def crops(**outputs):
    """What a second network gives for some of three objects: crops(o0=classes("cat", 0.9), o2=…)."""
    found = tuple(CropOutput(int(key[1:]), output) for key, output in outputs.items())
    best = max((one.output for one in found), key=lambda one: one.score or 0, default=Output())
    return Output(best.label, best.score, crops=found)


ONE_CAT = crops(o0=classes("cat", 0.9))


def rows_of(output):
    """The objects of a stored prediction, as `read_history` has them."""
    if output.crops is None:
        return None if output.objects is None else [StoredObject(0, one, is_shown=True) for one in output.objects]
    made = {one.object: PredictedCrop(*values(one.output)) for one in output.crops}
    return [StoredObject(number, FOX, is_shown=True, made=made.get(number)) for number in range(3)]


def values(output):
    stored = StoredOutput(output.details, output.vector, output.vector_dtype, output.vector_dim)
    return output.label, output.score, stored


@pytest.fixture
def comparison():
    golden = io.BytesIO()
    np.save(golden, np.array([[-50.0, 100.0]]))
    output = SimpleNamespace(detection=DetectionSpec(min_score=0.1, max_objects=2))
    tolerance = SimpleNamespace(relative=0.001, cosine=0.9999)
    manifest = SimpleNamespace(
        output=output, tolerance_of=lambda variant: tolerance, variant_sha256=lambda variant: "files"
    )
    artifact = SimpleNamespace(manifest=manifest, read=lambda file: golden.getvalue())
    return RowComparison(SimpleNamespace(artifact=artifact, variant="cpu", instead_of=None), "cpu")


def stored(output, sha256="a", run=None):
    """The prediction and its history."""
    label, score, found = values(output)
    row = replace(detected(), label=label, score=score, output=found, sha256=sha256, width=None, height=None)
    return row, ModelHistory("pets", "m", row, None, run, objects=rows_of(output))


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (classes("cat", 0.9, dog=0.1), classes("cat", 0.899, dog=0.101)),
        (classes("cat", 0.5, dog=0.499), classes("dog", 0.5, cat=0.499)),  # alike: either may be the best
        (classes("cat", 0.9, dog=0.05), classes("cat", 0.9, fox=0.051)),  # the last of those that are listed
        (labels("cat", 0.502, cat=0.502), labels("cat", 0.498)),  # at the threshold
        (labels("cat", 0.3), labels("cat", 0.304)),  # below it, where only the best label is stored
        (vector(1, 2, 3), vector(1, 2, 3.001)),
        (numbers(10, -50), numbers(10.5, -50.2)),  # 1 % of the largest golden output
        (found(FOX, FAINT), found(FOX._replace(score=0.895))),  # near the score from which objects are stored
        (found(FOX, LAST), found(FOX, OTHER)),  # either may be the last of as many as are stored
        (found(), found()),
        (crops(o0=classes("cat", 0.9), o2=vector(1, 2)), crops(o0=classes("cat", 0.899), o2=vector(1, 2.001))),
        (crops(), crops()),
    ],
)
def test_what_rounding_and_another_machine_may_change_is_no_difference(comparison, then, now):
    assert comparison.find(*stored(then), Prediction(REF, now, FileFacts(sha256="a"))) is None


@pytest.mark.parametrize(
    ("then", "now", "detail"),
    [
        (classes("cat", 0.9, dog=0.1), classes("dog", 0.9, cat=0.1), "stored cat 0.9, now dog 0.9"),
        (classes("cat", 0.9), classes("cat", 0.8), "stored cat 0.9, now cat 0.8"),
        (classes("cat", 0.6, dog=0.3), classes("cat", 0.6, dog=0.2), "stored dog 0.3, now 0.2"),
        (labels("cat", 0.9, cat=0.9), labels("cat", 0.9, cat=0.9, dog=0.7), "stored dog 0.5, now 0.7"),
        (Output("cat", None), classes("cat", 0.9), "stored cat without a score, now cat 0.9"),
        (vector(1, 2, 3), vector(1, 2, 4), "the vectors are 0.218 of their length apart"),
        (Output(), vector(1, 2, 3), "stored 0 None, now 3 float32"),
        (vector(1, 2, 3), vector(1.1, 2.2, 3.3), "the vectors are 0.0909 of their length apart"),
        (numbers(10, -50), numbers(10, -53), "stored [10, -50], now [10, -53]"),
        (found(FOX), found(), "an object 'fox' with score 0.900 is not found any more"),
        (found(), found(FOX), "an object 'fox' with score 0.900 is not stored"),
        (found(FOX, LAST), found(FOX, OTHER._replace(score=0.3)), "an object 'fox' with score 0.500 is not found"),
        (found(FOX, LAST._replace(score=0.3)), found(FOX, OTHER), "an object 'dog' with score 0.495 is not stored"),
        (found(FOX._replace(score=0.105)), found(FOX), "an object 'fox' with score 0.900 is not stored"),
        (found(FOX), found(FOX._replace(x=0.3)), "an object 'fox' with score 0.900 is not found any more"),
        (found(FOX), found(FOX._replace(score=0.8)), "an object 'fox' with score 0.900 is not found any more"),
        (found(FOX), found(FOX._replace(label="dog")), "an object 'fox' with score 0.900 is not found any more"),
        (crops(o1=classes("cat", 0.9)), crops(o1=classes("dog", 0.9)), "object 1: stored cat 0.9, now dog 0.9"),
        (crops(o1=vector(1, 2, 3)), crops(o1=vector(1, 2, 4)), "object 1: the vectors are 0.218 of their length apart"),
        (crops(o0=numbers(1), o1=numbers(2)), crops(o0=numbers(1)), "object 1 is not taken any more"),
        (crops(), crops(o2=numbers(1)), "object 2 is not stored"),
        (replace(ONE_CAT, label="dog"), ONE_CAT, "stored dog 0.9, its best object is cat"),
    ],
)
def test_another_answer_is_told(comparison, then, now, detail):
    cause, told = comparison.find(*stored(then), Prediction(REF, now, FileFacts(sha256="a")))
    assert cause == "answer"
    assert told.startswith(detail)


def test_other_bytes_come_before_another_answer(comparison):
    then = stored(classes("cat", 0.9))
    now = FileFacts(sha256="b")
    assert comparison.find(*then, Prediction(REF, classes("dog", 0.9), now))[0] == "picture"
    assert comparison.find(*then, Broken(REF, Reason.CORRUPT, "cut", "decode", now))[0] == "picture"
    rejected = comparison.find(*then, Broken(REF, Reason.CORRUPT, "cut", "decode", FileFacts(sha256="a")))
    assert (rejected[0], rejected[1].startswith("rejected now, corrupt: cut")) == ("answer", True)


@pytest.mark.parametrize(("files", "cause"), [(None, "answer"), ("files", "answer"), ("other", "network")])
def test_another_answer_of_a_variant_that_was_built_anew_is_the_networks(comparison, files, cause):
    then = stored(classes("cat", 0.9), run={"versions": {}, "variant_sha256": files})
    now = Prediction(REF, classes("dog", 0.9), FileFacts(sha256="a"))
    assert comparison.find(*then, now)[0] == cause


@pytest.mark.parametrize(
    ("text", "num_rows", "least", "most"),
    [("30", 1000, 30, 30), ("5000", 1000, 1000, 1000), ("10%", 1000, 40, 180), ("0.001%", 1, 1, 1), ("50%", 0, 0, 0)],
)
def test_rows_are_chosen_at_random_and_counted(text, num_rows, least, most):
    keys = [(str(number), "m") for number in range(num_rows)]
    chosen, num_keys = choose(iter(keys), Amount.parse(text))
    assert num_keys == num_rows
    assert least <= len(set(chosen)) == len(chosen) <= most
    assert set(chosen) <= set(keys)


@pytest.mark.parametrize("amount", ["0", "0%", "101%", "-1", "many", ""])
def test_an_amount_that_is_none_is_refused(amount):
    with pytest.raises(ValueError, match="neither a share|not above 0"):
        Amount.parse(amount)


@pytest.mark.parametrize(("compared", "share"), [(0, None), (100, 0.045), (458, 0.01), (1000, 0.0)])
def test_the_share_that_a_sample_finds(compared, share):
    found = ReplayAudit(num_rows=1000, num_chosen=compared, num_compared=compared).undetected_share
    assert found == (None if share is None else pytest.approx(share, abs=1e-3))
