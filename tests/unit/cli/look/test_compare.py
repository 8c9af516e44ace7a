"""`infer compare` over a small database, as a person and as a script see it."""

import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from infer_app.base.domain import CropOutput, DetectedObject, Output
from infer_app.base.errors import UsageError
from infer_app.cli.look.compare import compare
from tests.conftest import DAY
from tests.support.results import commit, predicted
from tests.support.second_networks import DETECTOR, SECOND, StoredModel

AT = datetime(2026, 11, 21, 3)
D = DETECTOR.model_id


@pytest.fixture
def seen(database, register, add_model, monkeypatch, tmp_path):
    """seen("cats", "id-1", {"1": ("cat", 0.9)}) registers a model and what it predicted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    register(*(f"/p/{number}.jpg" for number in range(1, 7)))

    def one(name, model_id, results, kind="classification", at=AT):
        add_model(name, model_id, at, kind, used_until=at)
        good = [one for image_id, what in results.items() for one in predicted(image_id, **as_output(what))]
        commit(database, good, model_id=model_id)

    return one


def as_output(what):
    if isinstance(what, np.ndarray):
        vector = {"vector": what.tobytes(), "vector_dtype": str(what.dtype), "vector_dim": what.size}
        return {"label": None, "score": None} | vector
    if isinstance(what, list):
        return {"label": None, "score": None, "details": json.dumps({"values": what})}
    label, score = what if isinstance(what, tuple) else (None, what)
    return {"label": label, "score": score}


def compared(capsys, *names, limit=10):
    compare(str(DAY), names, limit, True, None)
    return json.loads(capsys.readouterr().out)


def test_labels(seen, capsys):
    a = {"1": ("cat", 0.9), "2": ("cat", 0.6), "3": ("dog", 0.8), "4": ("cat", 0.99), "5": ("cat", 0.5)}
    b = {"1": ("dog", 0.7), "2": ("dog", 0.95), "3": ("dog", 0.5), "4": ("\x1b[2JCat", 0.2), "6": ("cat", 0.5)}
    seen("a", "id-a", a)
    seen("b", "id-b", b)
    found = compared(capsys, "a", "b")
    counts = {key: found[key] for key in ("both", "agree", "disagree", "only_a", "only_b", "neither")}
    assert counts == {"both": 4, "agree": 1, "disagree": 3, "only_a": 1, "only_b": 1, "neither": 0}
    assert [(one["a"], one["b"], one["images"]) for one in found["confusions"]] == [
        ("cat", "dog", 2),
        ("cat", "\x1b[2JCat", 1),
    ]
    assert [one["image_id"] for one in found["images"]] == ["1", "2", "4"]
    assert len(compared(capsys, "a", "b", limit=1)["images"]) == 1
    compare(str(DAY), ("a", "b"), 10, False, None)
    told = capsys.readouterr().out
    assert "both predicted 4: agree 1 (25.0%), disagree 3; only A 1, only B 1, neither 0" in told
    assert "\x1b" not in told


def test_the_newest_version_that_has_the_day_or_the_one_of_an_id(seen, capsys):
    seen("a", "old", {"1": ("cat", 0.9)}, at=datetime(2026, 11, 1))
    seen("a", "new", {"1": ("dog", 0.9)}, at=datetime(2026, 11, 2))
    seen("a", "newest", {"99": ("dog", 0.9)}, at=datetime(2026, 11, 3))  # of no image of the day
    seen("b", "id-b", {"1": ("dog", 0.9)})
    found = compared(capsys, "a", "b")
    assert (found["a"]["model_id"], found["agree"]) == ("new", 1)
    assert compared(capsys, "old", "a")["disagree"] == 1
    with pytest.raises(UsageError, match="the same version"):
        compared(capsys, "a", "new")


def test_numbers(seen, capsys):
    seen("a", "id-a", {"1": 1.0, "2": -2.0, "3": [1.0, 2.0], "4": [1.0]}, "regression")
    seen("b", "id-b", {"1": 1.5, "2": -2.0, "3": [2.0, 4.0], "4": [1.0, 2.0]}, "regression")
    found = compared(capsys, "a", "b", limit=2)
    assert found["mean_absolute_difference"] == pytest.approx((0.5 + 0 + 1.5) / 3)
    assert (found["max_absolute_difference"], found["incomparable"]) == (1.5, 1)
    assert [one["image_id"] for one in found["images"]] == ["3", "1"]


def test_vectors(seen, capsys):
    one, other = np.array([1, 0], "<f4"), np.array([0, 2], "<f2")
    seen("a", "id-a", {"1": one, "2": one, "3": one}, "embedding")
    seen("b", "id-b", {"1": 2 * one, "2": other, "3": 0 * one}, "embedding")
    found = compared(capsys, "a", "b")
    assert (found["mean_cosine"], found["min_cosine"], found["incomparable"]) == (0.5, 0.0, 1)
    assert [image["image_id"] for image in found["images"]] == ["2", "1"]
    seen("c", "id-c", {"4": one}, "embedding")
    compare(str(DAY), ("a", "c"), 10, False, None)
    assert capsys.readouterr().out.splitlines()[-1].startswith("both predicted 0")  # and no mean of nothing


def test_what_cannot_be_compared(seen, capsys):
    seen("labels", "id-1", {"1": ("cat", 0.9)})
    seen("short", "id-2", {"1": np.ones(2, "<f4")}, "embedding")
    seen("long", "id-3", {"1": np.ones(3, "<f4")}, "embedding")
    seen("idle", "id-4", {"99": ("cat", 0.9)})
    for names, message in (
        (("labels", "short"), "labels gives classification, short gives embedding"),
        (("short", "long"), "their lengths differ"),
        (("labels", "idle"), "idle has predicted no image of 2026-11-20"),
        (("labels", "nine"), "no model 'nine' has run"),
    ):
        with pytest.raises(UsageError, match=message):
            compared(capsys, *names)


@pytest.fixture
def seconds(database, register, add_model, monkeypatch, tmp_path):
    """seconds("a", {"1": {0: ("fox", 0.9)}}, detector) commits what a second network of a name gives for objects."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    register(*(f"/{number}.jpg" for number in range(1, 5)))

    def one(name, results, detector=D, kind="classification", of="animals"):
        manifest = {"output": {"kind": kind}, "crop": {"of": of, "min_score": 0.2, "rule": {}}}
        add_model(name, f"id-{name}", AT, manifest=manifest, used_until=AT)
        second = StoredModel(database, replace(SECOND, name=name, model_id=f"id-{name}", manifest=manifest), detector)
        for image_id, crops in results.items():
            outputs = (CropOutput(number, Output(**as_output(what))) for number, what in crops.items())
            second.predict(image_id, Output(crops=tuple(outputs)))

    return one


@pytest.fixture
def detected(database, seconds):
    """Four objects of image 1, in rows from the left, and one of image 2."""
    detector = StoredModel(database, DETECTOR)
    detector.predict("1", Output("animal", 0.9, objects=tuple(animal(x) for x in (0.0, 0.25, 0.5, 0.75))))
    detector.predict("2", Output("animal", 0.9, objects=(animal(0.0),)))


def animal(x):
    return DetectedObject("animal", 0, 0.9, x, 0.0, 0.25, 0.5)


def test_labels_of_objects(detected, seconds, capsys):
    seconds("a", {"1": {0: ("fox", 0.9), 1: ("fox", 0.8), 2: ("hare", 0.7)}, "2": {0: ("fox", 0.6)}, "3": {}})
    seconds("b", {"1": {0: ("fox", 0.9), 1: ("hare", 0.6), 3: ("hare", 0.5)}, "2": {0: ("hare", 0.9)}})
    found = compared(capsys, "a", "b")
    assert (found["both"], found["only_a"], found["neither"]) == (2, 1, 1)
    assert found["objects"] == {"both": 3, "only_a": 1, "only_b": 1}
    assert (found["agree"], found["disagree"]) == (1, 2)
    assert found["confusions"] == [{"a": "fox", "b": "hare", "objects": 2}]
    surest = [(one["image_id"], one["object"], one["score_a"], one["score_b"]) for one in found["images"]]
    assert surest == [("1", 1, 0.8, 0.6), ("2", 0, 0.6, 0.9)]
    compare(str(DAY), ("a", "b"), 10, False, None)
    told = capsys.readouterr().out
    assert "both predicted 2; only A 1, only B 0, neither 1" in told
    assert "objects of animals that both took 3: agree 1 (33.3%), disagree 2; only A 1, only B 1" in told


def test_vectors_of_objects(detected, seconds, capsys):
    one, other = np.array([1, 0], "<f4"), np.array([0, 2], "<f4")
    seconds("a", {"1": {0: one, 1: one, 2: one}}, kind="embedding")
    seconds("b", {"1": {0: one, 1: other}}, kind="embedding")
    found = compared(capsys, "a", "b")
    assert (found["mean_cosine"], found["min_cosine"], found["objects"]["only_a"]) == (0.5, 0.0, 1)
    assert [(image["object"], image["value"]) for image in found["images"]] == [(1, 0.0), (0, 1.0)]


def test_objects_of_two_versions_of_the_detector_are_matched_by_their_boxes(detected, database, seconds, capsys):
    newer = StoredModel(database, replace(DETECTOR, model_id="e" * 16))
    newer.predict("1", Output("animal", 0.9, objects=tuple(animal(x) for x in (0.51, 0.9, 0.01))))
    seconds("a", {"1": {0: ("fox", 0.9), 2: ("hare", 0.8), 3: ("fox", 0.7)}})
    seconds("b", {"1": {0: ("hare", 0.9), 1: ("fox", 0.8), 2: ("hare", 0.7)}}, detector="e" * 16)
    found = compared(capsys, "a", "b")
    assert found["objects"] == {"both": 2, "only_a": 1, "only_b": 1}
    assert [(one["object"], one["label_a"], one["label_b"]) for one in found["images"]] == [(0, "fox", "hare")]


def test_a_second_network_is_compared_with_one_that_takes_the_same(seen, detected, seconds, capsys):
    seen("whole", "id-whole", {"1": ("cat", 0.9)})
    seconds("a", {"1": {0: ("fox", 0.9)}})
    with pytest.raises(UsageError, match="whole takes whole pictures and a takes objects of animals"):
        compared(capsys, "whole", "a")
