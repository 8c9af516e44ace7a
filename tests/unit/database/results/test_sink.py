import json
import sqlite3

import pytest
from sqlalchemy import select, text

from infer_app.database.engine.connect import Database
from infer_app.database.results.runs import RunStore
from infer_app.database.results.schema import objects, predictions, rejections, runs
from infer_app.database.results.sink import Sink
from infer_app.domain import Broken, ChunkResult, DetectedObject, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.errors import DatabaseUnavailable
from infer_app.recipe import Size
from tests.conftest import DAY, MODEL

NASTY = """"><script>alert(1)</script>'; DROP TABLE infer_predictions; --{"a": [1]}\n"""


def predicted(image_id, label="cat", details=None, **output):
    output = Output(label, 0.5, json.dumps(details or {}), **output)
    return Prediction(ImageRef(image_id, f"/{image_id}.jpg"), output, FileFacts(7, 1.5, "ab" * 32, Size(640, 480)))


def broken(image_id, reason=Reason.CORRUPT, detail="no JPEG"):
    return Broken(
        ImageRef(image_id, f"/{image_id}.jpg"), reason, detail, "decode", FileFacts(7, 1.5, "cd" * 32), "jpg 9"
    )


def chunk(*items):
    good = tuple(item for item in items if isinstance(item, Prediction))
    return ChunkResult(0, good, tuple(item for item in items if isinstance(item, Broken)))


def commit(database, *items, run_id="run 1", model_id=MODEL.model_id):
    return Sink(database, model_id, "cpu-torchscript", run_id).commit_chunk(chunk(*items))


def rows(database, table, *names):
    """The named columns of all rows; every column but created_at when none is named."""
    columns = [table.c[name] for name in names] or [column for column in table.c if column.name != "created_at"]
    with database.read() as connection:
        found = connection.execute(select(*columns).order_by(table.c.image_id, table.c.model_id)).all()
    return [tuple(row) for row in found]


def test_every_field_is_written(database):
    vector, nothing = (b"\0\1\2\3", "float16", 2), (None, None, None)
    of_two = dict(zip(("vector", "vector_dtype", "vector_dim"), vector, strict=True))
    commit(database, predicted("p", details={"top": [{"label": "cat"}]}), broken("b"))
    commit(database, predicted("v", None, details={"shape": [2]}, **of_two))
    run, file = (MODEL.model_id, "run 1"), ("ab" * 32, 640, 480, None)
    assert rows(database, predictions) == [
        ("p", *run, "cpu-torchscript", "cat", 0.5, {"top": [{"label": "cat"}]}, *nothing, *file, "/p.jpg", 7, 1.5),
        ("v", *run, "cpu-torchscript", None, 0.5, {"shape": [2]}, *vector, *file, "/v.jpg", 7, 1.5),
    ]
    assert rows(database, rejections) == [
        ("b", *run, "corrupt", "no JPEG", "decode", 1, "/b.jpg", 7, 1.5, "cd" * 32, "jpg 9"),
    ]


def test_the_objects_of_an_image_are_replaced_with_its_prediction(database):
    cat, dog = DetectedObject("cat", 0, 0.9, 0.1, 0.2, 0.3, 0.4), DetectedObject("dog", 1, 0.8, 0, 0, 1, 1)
    commit(database, predicted("a", objects=(cat, dog)), predicted("b", objects=(dog,)), predicted("c", objects=()))
    commit(database, predicted("a", objects=(dog,)), model_id="another")
    commit(database, predicted("a", objects=(dog,)), predicted("b", objects=()), run_id="run 2")
    assert rows(database, objects) == [
        ("a", MODEL.model_id, 0, *dog),
        ("a", "another", 0, *dog),
    ]
    counts = [("a", MODEL.model_id, 1), ("a", "another", 1), ("b", MODEL.model_id, 0), ("c", MODEL.model_id, 0)]
    assert rows(database, predictions, "image_id", "model_id", "num_objects") == counts


def test_objects_that_cannot_be_written_leave_no_prediction(database):
    """Both are one transaction: the image is written alone then, and rejected."""
    with database.write() as connection:
        connection.execute(text("CREATE TRIGGER t BEFORE INSERT ON infer_objects BEGIN SELECT RAISE(ABORT, 'no'); END"))
    cat = DetectedObject("cat", 0, 0.9, 0.1, 0.2, 0.3, 0.4)
    commit(database, predicted("a", objects=(cat,)), predicted("b", objects=()))
    assert rows(database, predictions, "image_id") == [("b",)]
    assert rows(database, rejections, "image_id", "reason") == [("a", "write_error")]


def test_repeating_a_commit_changes_nothing(database):
    """An unknown commit is simply made again."""
    items = [predicted("p"), predicted("q"), broken("b"), broken("t", Reason.READ_ERROR)]
    commit(database, *items)
    before = rows(database, predictions), rows(database, rejections)
    commit(database, *items)
    assert (rows(database, predictions), rows(database, rejections)) == before


def test_a_prediction_deletes_the_rejection_of_its_image_and_model(database):
    commit(database, broken("a"), broken("b"))
    commit(database, broken("a"), model_id="another")
    commit(database, predicted("a"), run_id="run 2")
    assert rows(database, rejections, "image_id", "model_id") == [("a", "another"), ("b", MODEL.model_id)]


def test_a_rejection_never_stands_beside_a_prediction(database):
    """Two runs of one day, the lease lost: the slower one could not read what the other had predicted."""
    commit(database, predicted("a"))
    commit(database, broken("a", Reason.READ_TIMEOUT), broken("b"), run_id="run 2")
    assert rows(database, predictions, "image_id") == [("a",)]
    assert rows(database, rejections, "image_id") == [("b",)]


def test_a_new_prediction_overwrites_the_old_one_whole(database):
    commit(database, predicted("a", "cat", vector=b"1234", vector_dtype="float32", vector_dim=1))
    commit(database, predicted("a", "dog"), run_id="run 2")
    assert rows(database, predictions, "run_id", "label", "vector", "vector_dtype") == [("run 2", "dog", None, None)]


def refuse_b(database, table):
    with database.write() as connection:
        connection.exec_driver_sql(
            f"CREATE TRIGGER no_b BEFORE INSERT ON {table} WHEN new.image_id = 'b'"
            " BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )


def test_only_the_row_that_can_not_be_written_is_rejected(database):
    refuse_b(database, "infer_predictions")
    written = commit(database, predicted("a"), predicted("b"), broken("c"))
    assert [prediction.ref.image_id for prediction in written.predictions] == ["a"]
    assert rows(database, predictions, "image_id") == [("a",)]
    assert rows(database, rejections, "image_id", "reason") == [("b", "write_error"), ("c", "corrupt")]


def test_a_row_that_can_not_even_be_rejected_ends_the_run(database):
    """Of a chunk whose transaction fails nothing is left behind, and images are never passed over in silence."""
    refuse_b(database, "infer_rejections")
    with pytest.raises(DatabaseUnavailable, match="no room"):
        commit(database, broken("b"))
    assert rows(database, rejections) == []


def test_a_label_is_stored_as_the_text_it_is(database):
    output = {"details": {"top": [{"label": NASTY}]}}
    commit(database, predicted(NASTY, NASTY, **output), broken("b" + NASTY, detail=NASTY))
    found = rows(database, predictions, "image_id", "label", "output")
    assert found == [(NASTY, NASTY, output["details"])]
    assert rows(database, rejections, "image_id", "detail") == [("b" + NASTY, NASTY)]


def test_a_commit_whose_answer_was_lost_is_not_counted_twice(database, monkeypatch):
    run_id = RunStore(database).open_run(DAY, MODEL)
    sink = Sink(database, MODEL.model_id, MODEL.variant, run_id)
    sink.commit_chunk(chunk(predicted("p")))
    once = database.transact

    def twice(work):
        once(work)
        return once(work)

    monkeypatch.setattr(database, "transact", twice)
    sink.commit_chunk(chunk(predicted("q"), broken("b")))
    monkeypatch.undo()
    sink.commit_chunk(chunk(predicted("r")))
    with database.read() as connection:
        counts = select(runs.c.selected, runs.c.predicted, runs.c.rejected)
        assert tuple(connection.execute(counts).one()) == (4, 3, 1)


def test_a_prediction_deletes_only_its_own_rejection_whatever_its_id_says(database):
    commit(database, broken("%"), broken("a' OR '1'='1"), broken("z"))
    commit(database, predicted("a' OR '1'='1"), predicted("%"))
    assert rows(database, rejections, "image_id") == [("z",)]


def test_what_no_database_can_hold_is_written_escaped(database):
    ref = ImageRef("x", "/caf\udce9.jpg")
    commit(database, Broken(ref, Reason.NOT_FOUND, "NUL \0 in /caf\udce9.jpg", "read"))
    assert rows(database, rejections, "location", "detail") == [
        ("/caf\\udce9.jpg", "NUL \\x00 in /caf\\udce9.jpg"),
    ]


def test_an_all_broken_chunk_and_an_empty_one_are_legal(database):
    commit(database, broken("a"))
    commit(database)
    assert (rows(database, predictions), rows(database, rejections, "image_id")) == ([], [("a",)])


def test_output_is_json_that_other_programs_read(database, tmp_path):
    commit(database, predicted("a", "é", details={"top": [{"label": "é", "score": 0.1}]}))
    with sqlite3.connect(tmp_path / "infer.db") as connection:
        ((text,),) = connection.execute("SELECT output FROM infer_predictions").fetchall()
    assert json.loads(text) == {"top": [{"label": "é", "score": 0.1}]}


def test_a_database_that_can_not_be_written_is_unavailable(database, tmp_path):
    with (
        Database(f"sqlite:///{tmp_path / 'infer.db'}", read_only=True) as read_only,
        pytest.raises(DatabaseUnavailable) as caught,
    ):
        commit(read_only, predicted("a"))
    assert caught.value.exit_code == 10
