"""Thresholds hide objects and labels in the views, and as Python shows them; what is stored stays as it is."""

import json
import random
import struct
from dataclasses import replace

import pytest
from sqlalchemy import text

from infer_app.base.domain import DetectedObject, ImageRef, Output, Prediction
from infer_app.tables.engine.connect import Database
from infer_app.tables.queries.thresholds import change_thresholds, describe_unset, read_thresholds
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import ALL_LABELS
from infer_app.tables.shown_labels import ShownLabels
from tests.conftest import DAY, MODEL
from tests.support import exports
from tests.support.results import ODD_TEXTS, commit, of_objects

ODD_LABELS = [*ODD_TEXTS, "x" * 512]
NUM_IMAGES = 100


def detected(label, score):
    return DetectedObject(label, 0, score, 0.25, 0.5, 0.125, 0.0625)


def of_labels(image_id, *labels):
    """A prediction of a multi-label classifier, as verification/outputs.py writes it."""
    entries = [{"label": label, "index": index, "score": score} for index, (label, score) in enumerate(labels)]
    return Prediction(ImageRef(image_id, ""), Output(details=json.dumps({"labels": entries, "threshold": 0.05})))


def used(database, *names, model_id=MODEL.model_id):
    """The model is in use by these names."""
    for name in names:
        RunStore(database).open_run(DAY, replace(MODEL, name=name, model_id=model_id))


def shown(database, view="infer_shown_objects", columns="model, image_id, label, score"):
    with database.read() as connection:
        return sorted(tuple(row) for row in connection.execute(text(f"SELECT {columns} FROM {view}")))


def test_the_views_show_rows_computed_by_hand(database):
    used(database, "m")
    used(database, "other", model_id="f" * 16)
    objects = [detected("cat", 0.9), detected("dog", 0.5), detected("cat", 0.49), detected("fox", 0.05)]
    commit(database, [of_objects("1", *objects), of_objects("2"), of_labels("3", ("cat", 0.9), ("dog", 0.5))])
    commit(database, [of_objects("1", detected("dog", 0.2))], model_id="f" * 16)
    change_thresholds(database, "m", {ALL_LABELS: 0.5, "cat": 0.91, "fox": 0.01})
    assert shown(database) == [("m", "1", "dog", 0.5), ("m", "1", "fox", 0.05), ("other", "1", "dog", 0.2)]
    assert shown(database, "infer_shown_labels") == [("m", "3", "dog", 0.5)]
    change_thresholds(database, "m", {ALL_LABELS: None, "cat": None})
    assert shown(database) == [
        ("m", "1", "cat", 0.49),
        ("m", "1", "cat", 0.9),
        ("m", "1", "dog", 0.5),
        ("m", "1", "fox", 0.05),
        ("other", "1", "dog", 0.2),
    ]
    assert shown(database, "infer_shown_labels") == [("m", "3", "cat", 0.9), ("m", "3", "dog", 0.5)]
    columns = "image_id, model_id, object, label, class_index, score, x, y, width, height"
    expected = [("1", MODEL.model_id, number, *one) for number, one in enumerate(objects)]
    expected.append(("1", "f" * 16, 0, *detected("dog", 0.2)))
    assert shown(database, "infer_current_objects", columns) == sorted(expected)


def test_the_views_follow_the_version_in_use_and_thresholds_hold_for_all_versions(database):
    used(database, "m", model_id="1" * 16)
    commit(database, [of_objects("1", detected("cat", 0.9)), of_objects("2", detected("cat", 0.6))], model_id="1" * 16)
    used(database, "m", model_id="2" * 16)  # is only tried
    commit(database, [of_objects("1", detected("cat", 0.8)), of_objects("2")], model_id="2" * 16)
    assert shown(database) == [("m", "1", "cat", 0.9), ("m", "2", "cat", 0.6)]
    change_thresholds(database, "m", {"cat": 0.7})
    assert shown(database) == [("m", "1", "cat", 0.9)]
    switch_version(database, "m", "2" * 16, {})
    assert shown(database) == [("m", "1", "cat", 0.8)]  # image 2 has none by the version in use


def test_names_of_models_are_compared_by_bytes(database):
    """As folders of models they are different; MariaDB's default would give both one threshold."""
    change_thresholds(database, "m", {"cat": 0.5})
    change_thresholds(database, "M", {"cat": 0.7})
    change_thresholds(database, "M", {ALL_LABELS: 0.1})
    assert (read_thresholds(database, "m"), read_thresholds(database, "M")) == ({"cat": 0.5}, {"": 0.1, "cat": 0.7})
    used(database, "m")
    commit(database, [of_objects("1", detected("cat", 0.6), detected("dog", 0.05)), of_labels("2", ("cat", 0.4))])
    assert shown(database) == [("m", "1", "cat", 0.6), ("m", "1", "dog", 0.05)]
    assert shown(database, "infer_shown_labels") == []


@pytest.mark.parametrize("hidden", range(len(ODD_LABELS)))
def test_a_label_is_hidden_alone_whatever_it_looks_like(odd, hidden):
    """One label's own threshold goes before that of all: first it is higher, then lower."""
    label, others = ODD_LABELS[hidden], {one for one in ODD_LABELS if one != ODD_LABELS[hidden]}
    before = read_thresholds(odd, "m")
    change_thresholds(odd, "m", dict.fromkeys(before) | {label: 0.75})
    assert read_thresholds(odd, "m") == {label: 0.75}
    for view in ("infer_shown_objects", "infer_shown_labels"):
        assert {row[0] for row in shown(odd, view, "label")} == others
    change_thresholds(odd, "m", {label: 0.25, ALL_LABELS: 0.75})
    for view in ("infer_shown_objects", "infer_shown_labels"):
        assert {row[0] for row in shown(odd, view, "label")} == {label}


@pytest.fixture(scope="module")
def odd(kind, new_database):
    """A database with an object and a label of each odd label, score 0.5."""
    with new_database(kind) as url, Database(url) as database:
        upgrade(database)
        used(database, "m")
        objects = of_objects("1", *(detected(label, 0.5) for label in ODD_LABELS))
        commit(database, [objects, of_labels("2", *((label, 0.5) for label in ODD_LABELS))])
        yield database


@pytest.fixture(scope="module")
def random_rows(kind, new_database):
    """A database with objects and labels whose scores are as a network gives them, in 32 bits; and the images."""
    chance = random.Random(20)
    labels = ODD_LABELS[:6]

    def some():
        return sorted(
            ((chance.choice(labels), score(chance)) for _ in range(chance.randrange(6))), key=lambda one: -one[1]
        )

    with new_database(kind) as url, Database(url) as database:
        upgrade(database)
        used(database, "m")
        rows = {str(number): some() for number in range(NUM_IMAGES)}
        objects = [of_objects(image_id, *(detected(*one) for one in found)) for image_id, found in rows.items()]
        labelled = [of_labels(f"labels of {image_id}", *found) for image_id, found in rows.items()]
        commit(database, [*objects, *labelled], registered=False)
        yield database, [exports.detected(one.ref.image_id, *one.output.objects) for one in objects]


def score(chance):
    (value,) = struct.unpack("f", struct.pack("f", chance.random()))
    return chance.choice([value, value, chance.random(), 0.0, 1.0, 0.1 + 0.2])


def test_the_views_show_what_python_shows_and_a_higher_threshold_never_more(random_rows):
    """Thresholds are at the scores themselves too, where `at least` and `more than` differ."""
    database, images = random_rows
    chance = random.Random(21)
    scores = [one.score for image in images for one in image.objects]
    for _ in range(30):
        chosen = {label: chance.choice([*chance.sample(scores, 3), chance.random(), 0.0, 1.0])
                  for label in (ALL_LABELS, *ODD_LABELS[:6]) if chance.random() < 0.5}  # fmt: skip
        seen = []
        for thresholds in (chosen, {label: chance.uniform(value, 1) for label, value in chosen.items()}):
            change_thresholds(database, "m", dict.fromkeys(read_thresholds(database, "m")) | thresholds)
            by_python = sorted(
                (one.image_id, *found[:3:2]) for one in images for found in ShownLabels(thresholds).objects(one)
            )
            assert shown(database, columns="image_id, label, score") == by_python
            as_labels = [(f"labels of {image_id}", *found) for image_id, *found in by_python]
            assert shown(database, "infer_shown_labels", "image_id, label, score") == sorted(as_labels)
            seen.append(by_python)
        assert set(seen[1]) <= set(seen[0])


def test_a_detector_without_a_threshold_is_named_with_the_score_from_which_all_is_shown(database):
    manifest = {"output": {"kind": "detection", "detection": {"min_score": 0.05}}}
    switch_version(database, "m", MODEL.model_id, manifest)
    switch_version(database, "plain", "f" * 16, {"output": {"kind": "classification"}})
    (told,) = describe_unset(database, ["m", "plain"])
    assert told.startswith("no threshold is set for m: all objects from 0.05 on are shown")
    change_thresholds(database, "m", {"deer": 0.5})
    assert describe_unset(database, ["m", "plain"]) == []
