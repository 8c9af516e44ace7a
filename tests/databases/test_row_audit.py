"""Rows that no run can have written: each is named by what is wrong with it, whatever its day."""

from datetime import timedelta

import pytest

from infer_app.database.audits.row_audit import audit_rows
from infer_app.database.results.runs import RunModel, RunStore
from infer_app.database.results.schema import runs
from infer_app.database.results.sink import Sink
from infer_app.domain import Broken, ChunkResult, DetectedObject, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.recipe import Size
from tests.conftest import DAY

FILE = FileFacts(7, 1.5, "cd" * 32, Size(640, 480))
MANIFESTS = {
    "classifier": {"output": {"kind": "classification", "activation": "softmax"}, "labels": ["cat", "dog"]},
    "numbered": {"output": {"kind": "classification", "activation": "sigmoid"}, "labels": [], "num_outputs": 3},
    "detector": {"output": {"kind": "detection"}, "labels": ["cat", "dog"]},
    "number": {"output": {"kind": "regression"}, "labels": [], "num_outputs": 1},
    "vectors": {"output": {"kind": "embedding"}, "labels": [], "num_outputs": 2},
    "of an earlier release": {},
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
    "of an earlier release": Output("emu", 7.0),
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
        Sink(database, name[:8] * 2, "cpu-torchscript", run_id).commit_chunk(ChunkResult(0, good, broken))
    return database


def found(database):
    with database.read() as connection:
        return list(audit_rows(connection))


def test_what_runs_write_breaks_no_law(stored):
    assert found(stored) == []


def of(name, table="infer_predictions"):
    """`UPDATE` of image 1 of the model."""
    return f"UPDATE {table} SET {{}} WHERE image_id = '1' AND model_id = '{name[:8] * 2}'"


def change(name, values, table="infer_predictions"):
    return of(name, table).format(values)


IMPOSSIBLE = {
    "no label": (change("classifier", "label = NULL"), "1 prediction without a label or score: image 1"),
    "no score": (change("numbered", "score = NULL"), "1 prediction without a label or score: image 1"),
    "unknown label": (
        change("classifier", "label = 'Cat'"),
        "1 prediction with a label that its model has not: image 1",
    ),
    "number too high": (change("numbered", "label = '3'"), "1 prediction with a label that its model has not: image 1"),
    "score above": (change("classifier", "score = 1.01"), "1 prediction with a score outside 0 to 1: image 1"),
    "score below": (change("numbered", "score = -0.5"), "1 prediction with a score outside 0 to 1: image 1"),
    "no number": (change("number", "score = NULL"), "1 prediction without a finite number: image 1"),
    "no sha256": (change("vectors", "sha256 = NULL"), "1 prediction without the sha256 of its picture: image 1"),
    "no width": (change("number", "width = 0"), "1 prediction of a picture without a width or height: image 1"),
    "half a size": (change("number", "height = NULL"), "1 prediction of a picture without a width or height: image 1"),
    "no picture": (
        change("number", "location = NULL"),
        "1 prediction without the location or size of its picture: image 1",
    ),
    "unknown model": (
        "INSERT INTO infer_rejections (image_id, model_id, run_id, reason, detail, stage, attempts, location, decoder, "
        "created_at) SELECT image_id, 'nobody', run_id, reason, detail, stage, attempts, location, decoder, created_at "
        "FROM infer_rejections WHERE run_id = 'number'",
        "1 rejection of a model that is not in infer_models: image 3",
    ),
    "forgotten model": (
        "DELETE FROM infer_models WHERE name = 'number'",
        "1 run of a model that is not in infer_models: number",
    ),
    "unknown run": (
        change("number", "run_id = 'nobody'"),
        "1 prediction of a run that is not in infer_runs, or is of another model: image 1",
    ),
    "another model's run": (
        change("number", "run_id = 'vectors'"),
        "1 prediction of a run that is not in infer_runs, or is of another model: image 1",
    ),
    "a row too many": (
        "UPDATE infer_runs SET predicted = 0, selected = 1 WHERE id = 'vectors'",
        "1 run that wrote more rows than counted: vectors",
    ),
    "reason": (
        "UPDATE infer_rejections SET reason = 'luck' WHERE run_id = 'number'",
        "1 rejection with a reason outside the list: image 3",
    ),
    "no attempt": (
        "UPDATE infer_rejections SET attempts = 0 WHERE run_id = 'number'",
        "1 rejection without an attempt: image 3",
    ),
    "objects counted": (
        change("detector", "num_objects = 3"),
        "1 prediction with another number of objects than it counts: image 1",
    ),
    "object lost": (
        "DELETE FROM infer_objects WHERE object = 0",
        "1 prediction with another number of objects than it counts: image 1",
    ),
    "object without prediction": (
        "DELETE FROM infer_predictions WHERE image_id = '1' AND run_id = 'detector'",
        "2 objects without a prediction of its image: image 1, …",
    ),
    "object's number": (
        "UPDATE infer_objects SET object = 5 WHERE object = 1",
        "1 object beyond the number that its prediction counts: image 1",
    ),
    "best object": (
        change("detector", "label = 'cat'"),
        "1 object that is the best, but not by its prediction's label and score: image 1",
    ),
    "object's class": (
        "UPDATE infer_objects SET label = 'cat' WHERE object = 1",
        "1 object with a label that is not the one of its class: image 1",
    ),
    "object's score": (
        "UPDATE infer_objects SET score = 1.5 WHERE object = 1",
        "1 object with a score outside 0 to 1: image 1",
    ),
    "box": ("UPDATE infer_objects SET x = 0.95 WHERE object = 1", "1 object with a box outside the picture: image 1"),
    "label without object": (
        "UPDATE infer_predictions SET label = 'cat' WHERE image_id = '2'",
        "1 prediction with a label or score but no object, or the reverse: image 2",
    ),
    "state": (
        "UPDATE infer_runs SET state = 'odd' WHERE id = 'number'",
        "1 run in a state that does not exist: number",
    ),
    "done without end": (
        "UPDATE infer_runs SET state = 'done', exit_code = 0 WHERE id = 'number'",
        "1 run done without an exit code or an end: number",
    ),
    "ended": (
        "UPDATE infer_runs SET ended_at = started_at WHERE id = 'number'",
        "1 run that is running and has ended: number",
    ),
    "counters": (
        "UPDATE infer_runs SET selected = 9 WHERE id = 'number'",
        "1 run that selected fewer or more images than predicted and rejected: number",
    ),
}


@pytest.mark.parametrize("cause", IMPOSSIBLE)
def test_a_row_that_no_run_writes_is_named_by_its_cause(stored, execute, cause):
    statement, message = IMPOSSIBLE[cause]
    execute(statement)
    assert message in found(stored)


def test_rows_of_earlier_releases_may_lack_what_those_did_not_store(stored, execute):
    execute("UPDATE infer_predictions SET location = NULL, size = NULL, width = NULL, height = NULL")
    execute(change("classifier", "score = 7"))  # of a network that ends in no softmax, which those did not refuse
    assert len(found(stored)) == 2
    execute("UPDATE infer_runs SET variant_sha256 = NULL, source_id = 1")  # as `infer db upgrade` leaves them
    assert found(stored) == []


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
