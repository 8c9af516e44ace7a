"""Rows that no run can have written: each is named by what is wrong with it, whatever its day."""

from datetime import timedelta

import pytest

from infer_app.base.domain import Broken, DetectedObject, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.base.size import Size
from infer_app.tables.results.runs import RunModel, RunStore
from infer_app.tables.results.schema import runs
from infer_app.tables.row_audit import audit_rows
from tests.conftest import DAY
from tests.support.results import commit

FILE = FileFacts(7, 1.5, "cd" * 32, Size(640, 480))
MANIFESTS = {
    "classifier": {"output": {"kind": "classification", "activation": "softmax"}, "labels": ["cat", "dog"]},
    "numbered": {"output": {"kind": "classification", "activation": "sigmoid"}, "labels": [], "num_outputs": 3},
    "detector": {"output": {"kind": "detection"}, "labels": ["cat", "dog"]},
    "number": {"output": {"kind": "regression"}, "labels": [], "num_outputs": 1},
    "vectors": {"output": {"kind": "embedding"}, "labels": [], "num_outputs": 2},
}
OUTPUTS = {
    "classifier": Output("cat", 1.0004),  # as half precision rounds it
    "numbered": Output("2", 0.1),
    "detector": Output(
        "dog",
        0.9,
        objects=(
            DetectedObject("dog", 1, 0.9, 0.0, 0.0, 1.0, 1.0000001),
            DetectedObject("17", 17, 0.1, 0.5, 0.5, 0.1, 0.1),
        ),
    ),
    "number": Output(score=-40.0),
    "vectors": Output(vector=bytes(8), vector_dtype="float32", vector_dim=2),
}


@pytest.fixture
def stored(database):
    """Of each kind of model a run with image 1; the detector finds nothing in image 2; image 3 is rejected."""
    store = RunStore(database)
    for name, manifest in MANIFESTS.items():
        model = RunModel(name, name[:8] * 2, "cpu-torchscript", manifest, variant_sha256=64 * "e")
        run_id = store.open_run(DAY, model, name)
        found = {"1": OUTPUTS[name]} | ({"2": Output(None, None, objects=())} if name == "detector" else {})
        good = tuple(Prediction(ImageRef(one, f"/{one}.jpg"), output, FILE) for one, output in found.items())
        broken = (Broken(ImageRef("3", "/3.jpg"), Reason.CORRUPT, "", "decode", FILE),)
        commit(database, good, broken, run_id, name[:8] * 2)
    return database


def found(database):
    return list(audit_rows(database))


def test_what_runs_write_breaks_no_law(stored):
    assert found(stored) == []


def change(name, values):
    """`UPDATE` of the prediction of image 1 by the model."""
    return f"UPDATE infer_predictions SET {values} WHERE image_id = '1' AND model_id = '{name[:8] * 2}'"


def of(table, values, where):
    return f"UPDATE infer_{table} SET {values} WHERE {where}"


NUMBERED = "run_id = 'number'"
OF_UNKNOWN_MODEL = of("rejections", "model_id = 'unknown'", NUMBERED)
WITH_UNKNOWN_LABEL = "prediction with a label that its model has not"
OUTSIDE = "prediction with a score outside 0 to 1"
WITHOUT_SIZE = "prediction of a picture without a width or height"
OF_UNKNOWN_RUN = "prediction of a run that is not in infer_runs, or is of another model"
OBJECTS_MISCOUNTED = "prediction with another number of objects than it counts"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (change("classifier", "label = NULL"), "1 prediction without a label or score: image 1"),
        (change("numbered", "score = NULL"), "1 prediction without a label or score: image 1"),
        (change("classifier", "label = 'Cat'"), f"1 {WITH_UNKNOWN_LABEL}: image 1"),
        (change("numbered", "label = '3'"), f"1 {WITH_UNKNOWN_LABEL}: image 1"),
        (change("classifier", "score = 1.01"), f"1 {OUTSIDE}: image 1"),
        (change("numbered", "score = -0.5"), f"1 {OUTSIDE}: image 1"),
        (change("number", "score = NULL"), "1 prediction without a finite number: image 1"),
        (change("vectors", "sha256 = NULL"), "1 prediction without the sha256 of its picture: image 1"),
        (change("number", "width = 0"), f"1 {WITHOUT_SIZE}: image 1"),
        (change("number", "height = NULL"), f"1 {WITHOUT_SIZE}: image 1"),
        (change("number", "location = NULL"), "1 prediction without the location or size of its picture: image 1"),
        (OF_UNKNOWN_MODEL, "1 rejection of a model that is not in infer_models: image 3"),
        ("DELETE FROM infer_models WHERE name = 'number'", "1 run of a model that is not in infer_models: number"),
        (change("number", "run_id = 'unknown'"), f"1 {OF_UNKNOWN_RUN}: image 1"),
        (change("number", "run_id = 'vectors'"), f"1 {OF_UNKNOWN_RUN}: image 1"),
        (
            of("runs", "predicted = 0, selected = 1", "id = 'vectors'"),
            "1 run that wrote more rows than counted: vectors",
        ),
        (of("rejections", "reason = 'luck'", NUMBERED), "1 rejection with a reason outside the list: image 3"),
        (of("rejections", "attempts = 0", NUMBERED), "1 rejection without an attempt: image 3"),
        (change("detector", "num_objects = 3"), f"1 {OBJECTS_MISCOUNTED}: image 1"),
        ("DELETE FROM infer_objects WHERE object = 0", f"1 {OBJECTS_MISCOUNTED}: image 1"),
        (
            "DELETE FROM infer_predictions WHERE image_id = '1' AND run_id = 'detector'",
            "2 objects without a prediction of its image: image 1, …",
        ),
        (of("objects", "object = 5", "object = 1"), "1 object beyond the number that its prediction counts: image 1"),
        (
            change("detector", "label = 'cat'"),
            "1 object that is the best, but not by its prediction's label and score: image 1",
        ),
        (
            of("objects", "label = 'cat'", "object = 1"),
            "1 object with a label that is not the one of its class: image 1",
        ),
        (of("objects", "score = 1.5", "object = 1"), "1 object with a score outside 0 to 1: image 1"),
        (of("objects", "x = 0.95", "object = 1"), "1 object with a box outside the picture: image 1"),
        (
            of("predictions", "label = 'cat'", "image_id = '2'"),
            "1 prediction with a label or score but no object, or the reverse: image 2",
        ),
        (of("runs", "state = 'odd'", "id = 'number'"), "1 run in a state that does not exist: number"),
        (
            of("runs", "state = 'done', exit_code = 0", "id = 'number'"),
            "1 run done without an exit code or an end: number",
        ),
        (of("runs", "ended_at = started_at", "id = 'number'"), "1 run that is running and has ended: number"),
        (
            of("runs", "selected = 9", "id = 'number'"),
            "1 run that selected fewer or more images than predicted and rejected: number",
        ),
    ],
)
def test_a_row_that_no_run_writes_is_named_by_its_cause(stored, execute, statement, message):
    execute(statement)
    assert message in found(stored)


@pytest.mark.parametrize(
    ("hours", "fault"),
    [
        (1, "that is running with a heartbeat in the future"),
        (-1, "recorded as running whose process is gone; `infer run` for its day closes it"),
    ],
)
def test_a_run_that_cannot_be_running_is_named(stored, hours, fault):
    with stored.write() as connection:
        beat = connection.execute(runs.select()).first().heartbeat_at + timedelta(hours=hours)
        connection.execute(runs.update().where(runs.c.id == "number").values(heartbeat_at=beat, process="1@0@gone"))
    assert found(stored) == [f"1 run {fault}: number"]


def test_a_number_that_is_not_finite_is_found(stored, kind, execute):
    infinite = {"sqlite": "9e999", "postgres": "'NaN'"}.get(kind)
    if infinite is None:
        pytest.skip("MariaDB stores none")
    execute(change("number", f"score = {infinite}"))
    assert found(stored) == ["1 prediction without a finite number: image 1"]
