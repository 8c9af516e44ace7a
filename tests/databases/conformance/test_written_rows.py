"""What is written is what is read, and a row that is refused costs itself alone."""

import json
import random
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pytest
from sqlalchemy import select, update

from infer_app.base.domain import ATTEMPT_INTERVAL_H, DetectedObject, ImageRef, Reason
from infer_app.base.errors import DatabaseUnavailable
from infer_app.tables.engine import array_upsert
from infer_app.tables.results.schema import objects, pictures, predictions, rejections
from infer_app.tables.rows.image_history import read_history
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.listings import select_new
from tests.support.results import broken, predicted, stored
from tests.support.results import commit as commit_ours
from tests.support.statements import refuse

ID = MODEL.model_id
commit = partial(commit_ours, registered=False)  # of a table of the user's
COUNT = 100
IDS = [str(number) for number in range(COUNT)]
NASTY = """"><script>alert(1)</script>'; DROP TABLE infer_predictions; --{"a": [1]} %s %(x)s :y \\ \n"""


def test_a_prediction_is_kept_to_the_last_bit(database):
    vector = np.frombuffer(bytes(range(256)) * 16, "<f4")
    details = {"top": [{"label": NASTY + "😀", "index": 3, "score": 1 / 3}], "values": [1e-320, 1.7e308, -0.0]}
    output = {"vector": vector.tobytes(), "vector_dtype": "float32", "vector_dim": vector.size}
    good = predicted(*IDS, label=NASTY + "😀", details=json.dumps(details), **output)
    without = predicted("0 without", label=None, score=None)
    commit(database, [*good[:50], *without, *good[50:]])
    result = ("cpu-torchscript", NASTY + "😀", 0.1 + 0.2, details, vector.tobytes(), "float32", 1024)
    file = ("ab" * 32, 640, 480, None, None)
    expected = dict.fromkeys(IDS, (ID, "run 1", *result, *file))
    nothing = (None, None, {}, None, None, None)
    expected["0 without"] = (ID, "run 1", "cpu-torchscript", *nothing, *file)
    assert stored(database, predictions) == expected
    assert stored(database, pictures, "registered", "location") == {i: (0, f"/{i}.jpg") for i in expected}


def test_a_rejection_is_kept_with_the_facts_of_a_file_of_any_size(database):
    commit(database, bad=broken(*IDS, detail=NASTY + "\0\udce4", size=50 << 30))
    reason = ("corrupt", NASTY + "\\x00\\udce4", "decode", 1)
    file = (50 << 30, 1763609999.123457, "cd" * 32, "jpg 9")
    assert stored(database, rejections) == dict.fromkeys(IDS, (ID, "run 1", *reason, *file, None))


def test_a_repeat_changes_nothing_and_another_result_takes_its_place_whole(database):
    for _ in range(2):
        commit(database, predicted(*IDS, vector=b"1234", vector_dtype="float32", vector_dim=1), broken("x"))
        commit(database)
    assert stored(database, predictions, "label", "vector") == dict.fromkeys(IDS, ("cat", b"1234"))
    commit(database, predicted(*IDS[1:], label="dog"))
    expected = dict.fromkeys(IDS, ("dog", None)) | {IDS[0]: ("cat", b"1234")}
    assert stored(database, predictions, "label", "vector") == expected
    assert stored(database, rejections, "attempts") == {"x": (1,)}


def test_the_objects_of_an_image_are_replaced_with_its_prediction(database):
    cat, dog = DetectedObject("cat", 0, 0.9, 0.1, 0.2, 0.3, 0.4), DetectedObject("dog", 1, 0.8, 0, 0, 1, 1)
    commit(database, [*predicted("a", objects=(cat, dog)), *predicted("b", objects=(dog,))])
    commit(database, predicted("a", objects=(dog,)), model_id="another")
    commit(database, [*predicted("a", objects=(dog,)), *predicted("b", objects=())])
    columns = [objects.c[name] for name in ("model_id", "object", *dog._fields)]
    wanted = select(pictures.c.image_id, *columns).join(pictures, pictures.c.id == objects.c.picture)
    with database.read() as connection:
        rows = connection.execute(wanted.order_by(objects.c.model_id)).all()
    assert rows == [("a", ID, 0, *dog), ("a", "another", 0, *dog)]


def test_attempts_are_counted_by_run_at_most_once_in_some_hours_and_anew_once_a_missing_file_is_there(database):
    for run, hours, reason, attempts in (
        ("1", 0, Reason.NOT_FOUND, 1),
        ("2", ATTEMPT_INTERVAL_H, Reason.NOT_FOUND, 2),
        ("2", ATTEMPT_INTERVAL_H, Reason.NOT_FOUND, 2),  # the same commit again
        ("3", 0, Reason.READ_ERROR, 1),
        ("4", ATTEMPT_INTERVAL_H - 1, Reason.READ_ERROR, 1),
        ("5", 1, Reason.READ_TIMEOUT, 2),  # counted from the first of an attempt's runs, however many follow
        ("6", 0, Reason.READ_ERROR, 2),
    ):
        began_at = min(stored(database, rejections, "created_at").values(), default=None)
        if began_at:
            with database.write() as connection:
                connection.execute(update(rejections).values(created_at=began_at[0] - timedelta(hours=hours)))
        commit(database, bad=broken(*IDS, reason=reason), run_id=run)
        expected = (reason.value, run, attempts)
        assert stored(database, rejections, "reason", "run_id", "attempts") == dict.fromkeys(IDS, expected)


def test_a_transient_reason_stands_after_three_attempts_but_not_found_never_does(database, register):
    register("/1.jpg", "/2.jpg")
    refs = select_new(database)
    for attempt in range(3):
        assert select_new(database) == refs
        bad = [*broken("1", reason=Reason.READ_TIMEOUT), *broken("2", reason=Reason.NOT_FOUND)]
        commit_ours(database, bad=bad, run_id=f"run {attempt}")
        with database.write() as connection:
            connection.execute(update(rejections).values(created_at=datetime(2026, 11, 20)))
    assert select_new(database) == refs[1:]


@pytest.mark.parametrize(
    ("reason", "attempts", "is_settled"),
    [
        (Reason.CORRUPT, 1, True),
        (Reason.READ_TIMEOUT, 2, False),
        (Reason.READ_TIMEOUT, 3, True),
        (Reason.NOT_FOUND, 9, False),
        (Reason.PERMISSION_DENIED, 9, False),
        (Reason.HEIC_DECODER_MISSING, 7, True),
        (Reason.AVIF_DECODER_MISSING, 7, False),  # it is installed by now
    ],
)
def test_a_run_and_what_explains_an_image_agree_on_whether_it_is_tried_again(
    database, tables, register, installed, reason, attempts, is_settled
):
    installed.remove("_pillow_heif")
    register("/1.jpg")
    commit_ours(database, bad=broken("1", reason=reason))
    with database.write() as connection:
        connection.execute(update(rejections).values(attempts=attempts))
    [history] = read_history(database, [(MODEL.name, ID)], 1)
    pending = [one.failure.attempts for one in tables.pending.read_pending(DAY, ID)]
    assert (history.rejection.is_settled, select_new(database), pending) == (
        (True, [], []) if is_settled else (False, [ImageRef("1", "/1.jpg")], [attempts])
    )


@pytest.mark.parametrize("count", [COUNT, 1100])  # 1100: more than MariaDB takes in one statement
def test_a_prediction_deletes_its_rejection_and_outlives_a_later_one(database, count):
    ids = [str(number) for number in range(count)]
    commit(database, bad=broken(*ids, "other"))
    commit(database, bad=broken(*ids), model_id="another")
    commit(database, predicted(*ids))
    commit(database, bad=broken(*ids), run_id="a run that had lost its lease")
    assert stored(database, rejections, "model_id") == {"other": (ID,), **dict.fromkeys(ids, ("another",))}


@only("postgres")
@pytest.mark.parametrize("code", ["25P03", "25P04"])
def test_a_transaction_that_a_timeout_of_its_session_has_ended_is_done_again(database, code):
    ends = [f"DO $$ BEGIN RAISE 'terminating connection' USING ERRCODE = '{code}'; END $$"]
    assert (
        database.transact(lambda connection: connection.exec_driver_sql(ends.pop() if ends else "SELECT 7").scalar())
        == 7
    )


@pytest.mark.parametrize("table", [predictions, objects], ids=str)
def test_of_a_chunk_with_one_row_that_is_refused_only_that_is_rejected(database, execute, kind, table):
    """A prediction and its objects are one transaction."""
    refuse(execute, kind, table, "NEW.label = 'refused'")
    bad = predicted("bad", label="refused", objects=(DetectedObject("refused", 0, 0.9, 0, 0, 1, 1),))
    written = commit(database, [*predicted(*IDS), *bad], broken("no image"))
    assert len(written.predictions) == COUNT
    assert stored(database, predictions).keys() == set(IDS)
    assert stored(database, objects) == {}
    assert stored(database, rejections, "reason") == {"bad": ("write_error",), "no image": ("corrupt",)}
    assert "not this one" in stored(database, rejections, "detail")["bad"][0]


def test_a_row_that_can_not_even_be_rejected_ends_the_run(database, execute, kind):
    refuse(execute, kind, rejections, "NEW.picture = 1")
    with pytest.raises(DatabaseUnavailable, match="not even a rejection can be written: .*not this one"):
        commit(database, bad=broken("bad"))
    assert stored(database, rejections) == {}


@only("sqlite", "postgres")  # MariaDB's triggers skip no row
def test_a_row_that_a_trigger_drops_without_a_word_is_rejected(database, execute, kind):
    refuse(execute, kind, predictions, "NEW.label = 'dropped'", silently=True)
    for _ in range(2):  # the second time they are overwritten
        written = commit(database, [*predicted(*IDS), *predicted("bad", label="dropped")])
        assert (len(written.predictions), [one.reason for one in written.broken]) == (COUNT, [Reason.WRITE_ERROR])
    assert stored(database, predictions).keys() == set(IDS)
    assert "dropped without an error" in stored(database, rejections, "detail")["bad"][0]


def test_a_text_that_no_server_takes_costs_its_own_row_only(database):
    """PostgreSQL has no NUL in text, no database a lone surrogate."""
    written = commit(database, [*predicted(*IDS), *predicted("bad", label="\udce4")])
    assert (len(written.predictions), [one.reason for one in written.broken]) == (COUNT, [Reason.WRITE_ERROR])
    assert stored(database, predictions).keys() == set(IDS)


@only("postgres")  # the others have no such limit, or say so when the index is made
def test_a_text_too_long_for_an_index_of_the_users_costs_its_own_row_only(database, execute):
    execute("CREATE INDEX by_label ON infer_predictions (label)")
    long = random.Random(0).randbytes(5000).hex()  # which does not compress
    written = commit(database, [*predicted("1", "2"), *predicted("bad", label=long)])
    assert (len(written.predictions), [one.reason for one in written.broken]) == (2, [Reason.WRITE_ERROR])
    assert "index row" in stored(database, rejections, "detail")["bad"][0]


@only("mariadb")  # which alone has a limit so low
def test_a_row_longer_than_a_statement_may_be_costs_that_row_only(database):
    """A server that is sent more hangs up, which must not be taken for an outage."""
    with database.read() as connection:
        longest = connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar()
    vector = bytes(longest)
    big = {"vector": vector, "vector_dtype": "float32", "vector_dim": len(vector) // 4}
    written = commit(database, [*predicted("1", "2"), *predicted("bad", **big)])
    assert (len(written.predictions), [one.reason for one in written.broken]) == (2, [Reason.WRITE_ERROR])
    assert "max_allowed_packet" in stored(database, rejections, "detail")["bad"][0]


@only("postgres")  # which alone is sent a chunk in one message
def test_a_chunk_longer_than_a_message_may_be_is_written_by_image(database, monkeypatch):
    """PostgreSQL hangs up at 1 GiB, which must not be taken for an outage."""
    monkeypatch.setattr(array_upsert, "MAX_MESSAGE_BYTES", 10_000)
    big = {"vector": bytes(8_000), "vector_dtype": "float32", "vector_dim": 2_000}
    assert len(commit(database, predicted("1", "2", "3", **big)).predictions) == 3
    written = commit(database, predicted("4", vector=bytes(12_000), vector_dtype="float32", vector_dim=3_000))
    assert [one.reason for one in written.broken] == [Reason.WRITE_ERROR]
    assert stored(database, predictions, "vector_dim") == {"1": (2_000,), "2": (2_000,), "3": (2_000,)}
