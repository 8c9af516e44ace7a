from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import update

from infer_app.base.domain import Reason
from infer_app.base.errors import UsageError
from infer_app.base.run_report import DayCounts
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.schema import rejections, runs
from infer_app.tables.rows.results import Selection, read, read_rejections
from tests.conftest import DAY, MODEL
from tests.support.results import broken, commit, predicted

ID = MODEL.model_id


@pytest.fixture
def write(database, tables):
    """write("1", "2") predicts these ids, in a run of DAY; with reason= it rejects them."""
    run_id = tables.run_store.open_run(DAY, MODEL)

    def write_results(*ids, reason=None, model_id=ID):
        good, bad = ((), broken(*ids, reason=reason)) if reason else (predicted(*ids), ())
        commit(database, good, bad, run_id, model_id)

    return write_results


def spoil(database, statement):
    with database.write() as connection:
        connection.execute(statement)


def test_of_a_long_past_only_the_last_images_are_looked_at(tables, register, write):
    for day in range(1, 9):
        register(f"/{day}.jpg", at=datetime(2026, 11, day))
    write("8")
    assert tables.pending.find_older_pending(DAY, ID, examined=1) is None
    found = [tables.pending.find_older_pending(DAY, ID, examined) for examined in (3, 7, 8, 100)]
    assert [one.num_images for one in found] == [2, 6, 7, 7]


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        (update(rejections).values(sha256=None), "rejection without the size or checksum of the file"),
        (update(runs).values(selected=7), "run that selected fewer or more images than predicted and rejected"),
        (update(runs).values(selected=3, predicted=1), "run that wrote more rows than counted"),
        (update(runs).values(state="done"), "run done without an exit code or an end"),
    ],
    ids=["facts", "selected", "counted", "done"],
)
def test_rows_that_no_run_writes_are_found(database, tables, register, write, statement, wrong):
    register(*(f"/{number}.jpg" for number in range(1, 5)))
    write("1", "2")
    write("3", reason=Reason.TRUNCATED)
    write("4", reason=Reason.NOT_FOUND)  # of which nothing could be read
    assert tables.rows.find_problems(DAY, ID) == []
    spoil(database, statement)
    assert tables.rows.find_problems(DAY, ID) == [f"1 {wrong}"]


def test_counts_that_do_not_balance_are_told(tables):
    lost = DayCounts(eligible=3, predicted=1, rejected=1, pending=0)
    assert tables.rows.find_problems(DAY, ID, lost) == [f"{lost} does not balance"]


def test_a_rejection_with_a_reason_of_another_program_does_not_end_a_run(database, tables, register, write):
    """As after a newer version of the program wrote it: verify tells, a run goes on."""
    register("/1.jpg", "/2.jpg")
    write("1", "2", reason=Reason.CORRUPT)
    spoil(database, update(rejections).where(rejections.c.picture == 1).values(reason="bad luck"))
    assert [one.picture for one in read_rejections(tables, DAY, ID)] == [1, 2]


def test_predictions_are_read_in_order_of_time_with_their_locations(tables, register, write):
    register("/late.jpg", at=datetime(2026, 11, 20, 20))
    register("/early.jpg", at=datetime(2026, 11, 20, 2))
    register("/other.jpg", at=datetime(2026, 11, 19, 2))
    write("1", "2", "3")
    write("2", model_id="another")
    rows = list(read(tables, DAY, Selection()))
    assert [(row.location, row.model_id, row.label) for row in rows] == [
        ("/early.jpg", ID, "cat"),
        ("/early.jpg", "another", "cat"),
        ("/late.jpg", ID, "cat"),
    ]
    assert {row.output.text for row in rows} == {"{}"}
    assert [row.location for row in read(tables, DAY, Selection(["another"]))] == ["/early.jpg"]


def test_models_are_told_in_the_order_of_use(tables):
    assert tables.versions.models_of() == []
    for name in ("a", "b", "c"):
        tables.run_store.open_run(DAY, replace(MODEL, model_id=name))
    tables.run_store.open_run(DAY, replace(MODEL, name="other", model_id="d"))
    assert tables.versions.models_of("stub") == [("stub", "a"), ("stub", "c"), ("stub", "b")]
    assert tables.versions.models_in_use() == [("other", "d"), ("stub", "a")]
    assert tables.versions.models_of()[0] == ("other", "d")


def run_again(tables, model_id, day=DAY, **changes):
    model = replace(MODEL, model_id=model_id, **changes)
    run_id = tables.run_store.open_run(day, model)
    with tables.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(state="done"))


def test_a_day_was_done_by_the_version_in_use_else_by_the_one_before_it(tables, register, write):
    """Not by one that only tried some of its images before it was put in use."""
    register("/1.jpg", "/2.jpg")
    write("1", "2")
    run_again(tables, "second", may_be_put_in_use=False)
    write("1", model_id="second")
    assert tables.versions.models_of_day(DAY) == [("stub", ID)]
    switch_version(tables.database, "stub", "second", {})
    assert tables.versions.models_of_day(DAY) == [("stub", ID)]
    assert tables.versions.models_of_day(DAY.before(1)) == [("stub", "second")]  # none ran
    assert tables.versions.models_of_day(DAY, "stub@second") == [("stub", "second")]
    run_again(tables, "second")  # as where it was stopped: the day is its own now
    assert tables.versions.models_of_day(DAY) == [("stub", "second")]
    switch_version(tables.database, "stub", ID, {})
    assert tables.versions.models_of_day(DAY) == [("stub", ID)]


def test_a_name_of_which_no_version_is_in_use_is_not_shown(tables):
    run_again(tables, "tried", name="new", may_be_put_in_use=False)
    assert tables.versions.models_in_use() == tables.versions.models_of_day(DAY) == []
    assert tables.versions.models_of_day(DAY, "new@tried") == [("new", "tried")]
    with pytest.raises(UsageError, match="no version of new is in use yet, new@tried was only tried") as caught:
        tables.versions.models_in_use("new")
    assert caught.value.hint.endswith("`infer model use new@tried`")


def test_what_another_version_in_use_has_done_is_not_pending(tables, register, write):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    write("1")
    write("2", reason=Reason.CORRUPT)
    run_again(tables, "tried", may_be_put_in_use=False)
    write("1", "2", "3", model_id="tried")
    switch_version(tables.database, "stub", "second", {})
    assert tables.pending.find_older_pending(DAY.before(-1), "second").num_images == 1
    assert tables.pending.find_older_pending(DAY.before(-1), "tried") is None
    former = [one for one in tables.versions.versions_of("second") if one != "second"]
    assert tables.pending.find_older_selected(DAY.before(-1), "second", former).num_images == 1
    left = tables.pending.read_pending(DAY, "second", former)
    assert [one.image_id for one in left] == ["3"]
    assert tables.count_day(DAY, "second").pending == 3
