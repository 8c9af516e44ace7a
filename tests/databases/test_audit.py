"""Rows that no run can have written: each is named by what is wrong with it, whatever its day."""

from dataclasses import replace
from datetime import timedelta

import pytest

from infer_app.base.domain import Broken, DetectedObject, ImageRef, Output, Prediction, Reason
from infer_app.tables.results.runs import RunModel
from infer_app.tables.results.schema import runs
from infer_app.tables.row_audit import audit_rows
from tests.conftest import DAY
from tests.databases.conftest import only
from tests.support.results import commit
from tests.support.second_networks import DOG, FILE, LION, SECOND, VECTORS, D, S, StoredModel
from tests.support.statements import execute_at

MANIFESTS = {
    "classifier": {"output": {"kind": "classification", "activation": "softmax"}, "labels": ["cat", "dog"]},
    "numbered": {"output": {"kind": "classification", "activation": "sigmoid"}, "labels": [], "num_outputs": 3},
    "detector": {"output": {"kind": "detection"}, "labels": ["cat", "dog"]},
    "number": {"output": {"kind": "regression"}, "labels": [], "num_outputs": 1},
    "vectors": {"output": {"kind": "embedding"}, "labels": [], "num_outputs": 2},
}
FOUND = (
    DetectedObject("dog", 1, 0.9, 0.0, 0.0, 1.0, 1.0000001),
    DetectedObject("17", 17, 0.1, 0.5, 0.5, 0.1, 0.1),
)
OUTPUTS = {
    "classifier": Output("cat", 1.0004),  # as half precision rounds it
    "numbered": Output("2", 0.1),
    "detector": Output("dog", 0.9, objects=FOUND),
    "number": Output(score=-40.0),
    "vectors": Output(vector=bytes(8), vector_dtype="float32", vector_dim=2),
}


@pytest.fixture
def stored(database, tables):
    """Of each kind of model a run with image 1; the detector finds nothing in image 2; image 3 is rejected."""
    for name, manifest in MANIFESTS.items():
        model = RunModel(name, name[:8] * 2, "cpu-torchscript", manifest, variant_sha256=64 * "e")
        run_id = tables.run_store.open_run(DAY, model, name)
        found = {"1": OUTPUTS[name]} | ({"2": Output(None, None, objects=())} if name == "detector" else {})
        good = tuple(Prediction(ImageRef(one, f"/{one}.jpg"), output, FILE) for one, output in found.items())
        broken = (Broken(ImageRef("3", "/3.jpg"), Reason.CORRUPT, "", "decode", FILE),)
        commit(database, good, broken, run_id, name[:8] * 2)
    return database


def found(database):
    return list(audit_rows(database))


def test_what_runs_write_breaks_no_law(stored):
    assert found(stored) == []


def of(table, values, where):
    return f"UPDATE infer_{table} SET {values} WHERE {where}"


def change(name, values):
    """`UPDATE` of the prediction of image 1 by the model."""
    return of("predictions", values, f"picture = 1 AND model_id = '{name[:8] * 2}'")


def rejected(values):
    return of("rejections", values, "run_id = 'number'")


def second(values):
    return of("objects", values, "object = 1")


def run(values):
    return of("runs", values, "id = 'number'")


WITHOUT_LABEL = "prediction without a label or score"
UNKNOWN_LABEL = "prediction with a label that its model has not"
OUTSIDE = "prediction with a score outside 0 to 1"
WITHOUT_SIZE = "prediction of a picture without a width or height"
OF_UNKNOWN_RUN = "prediction of a run that is not in infer_runs, or is of another model"
MISCOUNTED = "prediction with another number of objects than it counts"
OTHER_BEST = "object that is the best, but not by its prediction's label and score"
REVERSE = "prediction with a label or score but no object, or the reverse"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (change("classifier", "label = NULL"), f"1 {WITHOUT_LABEL}: image 1"),
        (change("numbered", "score = NULL"), f"1 {WITHOUT_LABEL}: image 1"),
        (change("classifier", "label = 'Cat'"), f"1 {UNKNOWN_LABEL}: image 1"),
        (change("numbered", "label = '3'"), f"1 {UNKNOWN_LABEL}: image 1"),
        (change("classifier", "score = 1.01"), f"1 {OUTSIDE}: image 1"),
        (change("numbered", "score = -0.5"), f"1 {OUTSIDE}: image 1"),
        (change("number", "score = NULL"), "1 prediction without a finite number: image 1"),
        (change("vectors", "sha256 = NULL"), "1 prediction without the sha256 of its picture: image 1"),
        (change("number", "width = 0"), f"1 {WITHOUT_SIZE}: image 1"),
        (change("number", "height = NULL"), f"1 {WITHOUT_SIZE}: image 1"),
        (rejected("model_id = 'unknown'"), "1 rejection of a model that is not in infer_models: image 3"),
        ("DELETE FROM infer_models WHERE name = 'number'", "1 run of a model that is not in infer_models: number"),
        (change("number", "run_id = 'unknown'"), f"1 {OF_UNKNOWN_RUN}: image 1"),
        (change("number", "run_id = 'vectors'"), f"1 {OF_UNKNOWN_RUN}: image 1"),
        (run("predicted = 0, selected = 1"), "1 run that wrote more rows than counted: number"),
        (rejected("reason = 'luck'"), "1 rejection with a reason outside the list: image 3"),
        (rejected("attempts = 0"), "1 rejection without an attempt: image 3"),
        (change("detector", "num_objects = 3"), f"1 {MISCOUNTED}: image 1"),
        ("DELETE FROM infer_objects WHERE object = 0", f"1 {MISCOUNTED}: image 1"),
        (second("object = 5"), "1 object beyond the number that its prediction counts: image 1"),
        (change("detector", "label = 'cat'"), f"1 {OTHER_BEST}: image 1"),
        (second("label = 'cat'"), "1 object with a label that is not the one of its class: image 1"),
        (second("score = 1.5"), "1 object with a score outside 0 to 1: image 1"),
        (second("x = 0.95"), "1 object with a box outside the picture: image 1"),
        (of("predictions", "label = 'cat'", "picture = 2"), f"1 {REVERSE}: image 2"),
        (run("state = 'odd'"), "1 run in a state that does not exist: number"),
        (run("state = 'done', exit_code = 0"), "1 run done without an exit code or an end: number"),
        (run("ended_at = started_at"), "1 run that is running and has ended: number"),
        (run("selected = 9"), "1 run that selected fewer or more images than predicted and rejected: number"),
    ],
)
def test_a_row_that_no_run_writes_is_named_by_its_cause(stored, execute, statement, message):
    execute(statement)
    assert message in found(stored)


@only("sqlite")  # of which alone a program may leave the foreign keys off
def test_what_belongs_to_a_row_that_is_gone_is_named(stored, url):
    execute_at(
        url, "DELETE FROM infer_predictions WHERE run_id = 'detector'", "DELETE FROM infer_pictures WHERE id <> 2"
    )
    assert [fault for fault in found(stored) if "without" in fault or "not in infer_pictures" in fault] == [
        "4 predictions of a picture that is not in infer_pictures: image 1, …",
        "5 rejections of a picture that is not in infer_pictures: image 3, …",
        "2 objects without a prediction of its image: image 1, …",
    ]


@pytest.mark.parametrize(
    ("hours", "found_so"),
    [(1, ["1 run that is running with a heartbeat in the future: number"]), (-1, [])],  # one that was killed
)
def test_a_run_that_cannot_be_running_is_named_and_one_that_was_killed_is_not(stored, hours, found_so):
    with stored.write() as connection:
        beat = connection.execute(runs.select()).first().heartbeat_at + timedelta(hours=hours)
        connection.execute(runs.update().where(runs.c.id == "number").values(heartbeat_at=beat, process="1@0@gone"))
    assert found(stored) == found_so


@only("sqlite", "postgres")  # MariaDB stores none
def test_a_number_that_is_not_finite_is_found(stored, kind, execute):
    execute(change("number", f"score = {'9e999' if kind == 'sqlite' else repr('NaN')}"))
    assert found(stored) == ["1 prediction without a finite number: image 1"]


LOST = "without a prediction of its image"
OF_1 = f"picture = 1 AND model_id = '{S}'"
BOTH = ["2 predictions with another number of objects than it counts"]
NO_RESULT = "of a detector that has no result of the image"
WRONG_VERSION = "without the version of its detector, or with one it has not"


@pytest.mark.parametrize(
    ("statement", "faults", "of_day"),
    [
        ("DELETE FROM infer_object_predictions WHERE object_id = 2", [MISCOUNTED], [MISCOUNTED]),
        (f"UPDATE infer_predictions SET num_objects = NULL WHERE {OF_1}", [MISCOUNTED], [MISCOUNTED]),
        (f"DELETE FROM infer_predictions WHERE {OF_1}", [LOST], []),
        (
            f"DELETE FROM infer_predictions WHERE picture = 1 AND model_id = '{D}'",
            [NO_RESULT, MISCOUNTED],
            [MISCOUNTED],
        ),
        (f"DELETE FROM infer_objects WHERE model_id = '{D}' AND object = 1", BOTH, [MISCOUNTED]),
        (f"DELETE FROM infer_predictions WHERE picture = 2 AND model_id = '{D}'", [NO_RESULT], []),
        (f"DELETE FROM infer_rejections WHERE model_id = '{D}'", [NO_RESULT], []),
        (f"UPDATE infer_predictions SET detector_id = NULL WHERE {OF_1}", [WRONG_VERSION], []),
        (f"UPDATE infer_predictions SET detector_id = 'x' WHERE model_id = '{D}'", [WRONG_VERSION], []),
        ("UPDATE infer_object_predictions SET label = 'Lion'", ["with a label that its model has not"], []),
        ("UPDATE infer_object_predictions SET score = 1.5", ["with a score outside 0 to 1"], []),
        ("UPDATE infer_object_predictions SET label = NULL", ["without a label or score"], []),
        (f"UPDATE infer_predictions SET label = NULL WHERE {OF_1}", [REVERSE], []),
    ],
)
def test_a_row_of_second_networks_that_no_run_writes_is_named_by_both_audits(
    database, tables, detector, species, register, execute, statement, faults, of_day
):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    for image_id, scores in (("1", (0.9, 0.5)), ("2", ())):
        detector.detect(image_id, *scores)
        species.classify(image_id, dict(enumerate([LION, DOG][: len(scores)])))
    for model in (detector, species):
        model.reject("3")
    vectors = replace(SECOND, name="sizes", model_id="9" * 16, manifest=VECTORS)
    StoredModel(database, vectors, D).predict("2", Output(crops=()))

    def problems_of_day():
        return [problem for model_id in (D, S) for problem in tables.rows.find_problems(DAY, model_id)]

    assert (found(database), problems_of_day()) == ([], [])
    execute(statement)
    of_rows, problems = found(database), problems_of_day()
    assert faults or (of_rows, problems) == ([], [])
    assert [fault for fault in faults if not any(fault in problem for problem in of_rows)] == []
    assert [fault for fault in of_day if not any(fault in problem for problem in problems)] == []
