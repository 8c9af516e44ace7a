from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from sqlalchemy import insert, text, update

from infer_app.database.listing.source import Source
from infer_app.database.queries import pending_images as books_module
from infer_app.database.queries.day_queries import DayQueries, StoredRejection
from infer_app.database.queries.pending_images import PendingDays, PendingImage, StoredFailure
from infer_app.database.results.model_versions import switch_version
from infer_app.database.results.schema import predictions, rejections, runs
from infer_app.database.results.sink import Sink
from infer_app.domain import Broken, ChunkResult, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.errors import UsageError
from infer_app.run_report import DayCounts
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL

ID = MODEL.model_id
FILE = FileFacts(7, 1.5, "cd" * 32)


@pytest.fixture
def day_queries(tables):
    return tables.day_queries


@pytest.fixture
def run_id(tables):
    return tables.run_store.open_run(DAY, MODEL)


@pytest.fixture
def write(database, run_id):
    """write("1", "2") predicts these ids; with reason= it rejects them."""

    def write_results(*ids, reason=None, model_id=ID):
        refs = [ImageRef(image_id, f"/{image_id}.jpg") for image_id in ids]
        good = () if reason else tuple(Prediction(ref, Output("cat", 0.5)) for ref in refs)
        bad = tuple(Broken(ref, reason, "", "read", FILE) for ref in refs) if reason else ()
        Sink(database, model_id, "cpu-torchscript", run_id).commit_chunk(ChunkResult(0, good, bad))

    return write_results


def spoil(database, statement):
    with database.write() as connection:
        connection.execute(statement)


def test_a_day_is_counted_by_its_rows(day_queries, register, write):
    register(*[f"/{i}.jpg" for i in range(1, 11)])
    register("/before.jpg", at=datetime(2026, 11, 19, 23, 59, 59))
    register("/after.jpg", at=datetime(2026, 11, 21))
    write("1", "2", "3")
    write("4", reason=Reason.CORRUPT)
    write("5", reason=Reason.READ_ERROR)  # rejected too, though a run would try it again
    write("6", "7", model_id="another")
    write("11", "12")  # of the other days
    assert day_queries.count_day(DAY, ID) == DayCounts(eligible=10, predicted=3, rejected=2, pending=5)
    assert day_queries.count_new(DAY, ID) == 6
    assert day_queries.count_day(DAY, "another") == DayCounts(10, 2, 0, 8)
    assert day_queries.find_problems(DAY, ID) == []


def test_a_day_without_images_balances(day_queries):
    assert day_queries.count_day(DAY, ID) == DayCounts(0, 0, 0, 0)
    assert day_queries.find_problems(DAY, ID) == []


def test_results_of_images_that_are_gone_from_the_source_count_nowhere(day_queries, register, write):
    register("/1.jpg")
    write("1", "999")
    assert day_queries.count_day(DAY, ID) == DayCounts(1, 1, 0, 0)


def test_pending_images_of_earlier_days_are_those_that_nobody_looked_at(day_queries, register, write):
    register("/a.jpg", "/b.jpg", at=datetime(2026, 11, 1))
    register("/c.jpg", at=datetime(2026, 11, 3, 12))
    register("/d.jpg", at=datetime(2026, 11, 19, 23, 59, 59))
    register("/e.jpg")
    write("1")
    write("2", reason=Reason.NOT_FOUND)  # it was looked at
    first, last = date(2026, 11, 3), date(2026, 11, 19)
    assert day_queries.find_older_pending(DAY, ID) == PendingDays(first, last, 2)
    assert day_queries.find_older_pending(DAY.before(1), ID) == PendingDays(first, first, 1)
    assert day_queries.count_older_pending(DAY, "another") == 4
    write("3", "4")
    assert day_queries.find_older_pending(DAY, ID) is None


def test_pending_images_are_those_that_a_run_would_select(day_queries, register, write):
    register(*(f"/{number}.jpg" for number in range(1, 6)))
    write("1")
    write("2", reason=Reason.CORRUPT)
    write("3", reason=Reason.READ_ERROR)
    write("4", model_id="another")
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert list(day_queries.read_pending(DAY, ID)) == [
        PendingImage("3", "/3.jpg", noon, StoredFailure("read_error", 1, "")),
        PendingImage("4", "/4.jpg", noon, None),
        PendingImage("5", "/5.jpg", noon, None),
    ]
    assert day_queries.count_new(DAY, ID) == 3


def test_pending_images_are_counted_by_day(day_queries, register, write):
    register("/1.jpg", "/2.jpg", at=datetime(2026, 11, 1))
    register("/3.jpg", at=datetime(2026, 11, 3))
    register("/4.jpg", "/5.jpg")
    write("1", "3")
    write("5", reason=Reason.READ_ERROR)
    first, last = PendingDays(date(2026, 11, 1), date(2026, 11, 1), 1), PendingDays(DAY.date, DAY.date, 1, 1)
    assert list(day_queries.read_older_pending_days(DAY.before(-1), ID)) == [first, last]
    assert list(day_queries.read_older_pending_days(DAY, ID)) == [first]
    assert list(day_queries.read_pending_days(DAY, ID)) == [last]


def test_of_a_long_past_only_the_last_images_are_looked_at(day_queries, register, write, monkeypatch):
    for day in range(1, 9):
        register(f"/{day}.jpg", at=datetime(2026, 11, day))
    write("8")
    counts = []
    for examined in (1, 3, 7, 8, 100):
        monkeypatch.setattr(books_module, "EXAMINED", examined)
        counts.append(day_queries.count_older_pending(DAY, ID))
    assert counts == [0, 2, 6, 7, 7]


OF_3, OF_1 = rejections.c.image_id == "3", predictions.c.image_id == "1"


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        (update(rejections).where(OF_3).values(image_id="1"), "image with both a prediction and a rejection"),
        (update(rejections).where(OF_3).values(reason="bad luck"), "rejection with a reason outside the list"),
        (update(rejections).values(sha256=None), "rejection without the size or checksum of the file"),
        (update(predictions).where(OF_1).values(run_id="?"), "prediction of a run that is not in infer_runs"),
        (update(runs).values(selected=7), "run that selected fewer or more images than predicted and rejected"),
        (update(runs).values(selected=3, predicted=1), "run that wrote more rows than counted"),
        (update(runs).values(state="done"), "run done without an exit code or an end"),
    ],
    ids=["both", "reason", "facts", "unknown run", "selected", "counted", "done"],
)
def test_rows_that_no_run_writes_are_found(database, day_queries, register, write, statement, wrong):
    register(*(f"/{number}.jpg" for number in range(1, 5)))
    write("1", "2")
    write("3", reason=Reason.TRUNCATED)
    write("4", reason=Reason.NOT_FOUND)  # of which nothing could be read
    assert day_queries.find_problems(DAY, ID) == []
    spoil(database, statement)
    assert day_queries.find_problems(DAY, ID) == [f"1 {wrong}"]


def test_a_table_that_lost_its_key_is_found(database, day_queries):
    spoil(database, text("ALTER TABLE infer_predictions RENAME TO was"))
    spoil(database, text("CREATE TABLE infer_predictions AS SELECT * FROM was"))
    (problem,) = day_queries.find_problems(DAY, ID)
    assert problem.startswith("infer_predictions has lost its primary key")


def test_counts_that_do_not_balance_are_told(day_queries, monkeypatch):
    lost = DayCounts(eligible=3, predicted=1, rejected=1, pending=0)
    monkeypatch.setattr(day_queries, "count_day", lambda day, model_id: lost)
    assert day_queries.find_problems(DAY, ID) == [f"{lost} does not balance"]


def test_a_rejection_with_a_reason_of_another_program_does_not_end_a_run(database, day_queries, register, write):
    """As after a newer version of the program wrote it: verify tells, a run goes on."""
    register("/1.jpg", "/2.jpg")
    write("1", "2", reason=Reason.CORRUPT)
    spoil(database, update(rejections).where(rejections.c.image_id == "1").values(reason="bad luck"))
    assert [one.image_id for one in day_queries.final_rejections(DAY, ID)][-1:] == ["2"]


def test_final_rejections_come_with_what_was_recorded_of_the_file(day_queries, register, write):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    write("1", reason=Reason.CORRUPT)
    write("2", reason=Reason.READ_ERROR)
    write("3", reason=Reason.CORRUPT, model_id="another")
    assert list(day_queries.final_rejections(DAY, ID)) == [
        StoredRejection("1", "/1.jpg", "corrupt", FileFacts(7, 1.5, "cd" * 32))
    ]


def test_predictions_are_read_in_order_of_time_with_their_locations(day_queries, register, write):
    register("/late.jpg", at=datetime(2026, 11, 20, 20))
    register("/early.jpg", at=datetime(2026, 11, 20, 2))
    register("/other.jpg", at=datetime(2026, 11, 19, 2))
    write("1", "2", "3")
    write("2", model_id="another")
    rows = list(day_queries.read_predictions(DAY))
    assert [(row["location"], row["model_id"], row["label"]) for row in rows] == [
        ("/early.jpg", ID, "cat"),
        ("/early.jpg", "another", "cat"),
        ("/late.jpg", ID, "cat"),
    ]
    assert "vector" not in rows[0]
    assert [row["location"] for row in day_queries.read_predictions(DAY, "another")] == ["/early.jpg"]


def test_rejections_are_read_with_the_location_of_today(database, day_queries, register, write):
    register("/1.jpg")
    write("1", reason=Reason.CORRUPT)
    spoil(database, update(rejections).values(location="/as/it/was.jpg"))
    assert [row["location"] for row in day_queries.read_rejections(DAY, ID)] == ["/1.jpg"]


def test_a_users_own_table_is_joined_by_its_own_columns(database, write):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE photos (photo_id INTEGER, path TEXT, day TEXT)")
        connection.exec_driver_sql("INSERT INTO photos VALUES (1, '/1.jpg', '2026-11-20'), (2, '/y.jpg', '2026-11-20')")
    settings = SourceSettings(table="photos", id="photo_id", location="path", time="day")
    day_queries = DayQueries(database, Source(database, settings))
    write("1")
    assert day_queries.count_day(DAY, ID) == DayCounts(2, 1, 0, 1)
    assert [row["location"] for row in day_queries.read_predictions(DAY)] == ["/1.jpg"]


def test_models_are_told_in_the_order_of_use(day_queries, tables):
    assert day_queries.models_of() == []
    for name in ("a", "b", "c"):
        tables.run_store.open_run(DAY, replace(MODEL, model_id=name))
    tables.run_store.open_run(DAY, replace(MODEL, name="other", model_id="d"))
    assert day_queries.models_of("stub") == [("stub", "a"), ("stub", "c"), ("stub", "b")]
    assert day_queries.models_in_use() == [("other", "d"), ("stub", "a")]
    assert day_queries.models_of()[0] == ("other", "d")


def test_an_id_that_is_no_number_is_counted_as_it_is(database, day_queries, register):
    """Ids are text in our tables: "01" is not image 1."""
    register("/1.jpg")
    row = {
        "image_id": "01",
        "model_id": ID,
        "run_id": "r",
        "variant": "v",
        "output": "{}",
        "created_at": datetime.now(),
    }
    spoil(database, insert(predictions).values(row))
    assert day_queries.count_day(DAY, ID) == DayCounts(1, 0, 0, 1)


def run_again(tables, model_id, day=DAY, **changes):
    model = replace(MODEL, model_id=model_id, **changes)
    run_id = tables.run_store.open_run(day, model)
    with tables.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(state="done"))


def test_a_day_was_done_by_the_version_in_use_else_by_the_one_before_it(tables, day_queries, register, write):
    """Not by one that only tried some of its images before it was put in use."""
    register("/1.jpg", "/2.jpg")
    write("1", "2")
    run_again(tables, "second", may_be_put_in_use=False)
    write("1", model_id="second")
    assert day_queries.models_of_day(DAY) == [("stub", ID)]
    switch_version(tables.database, "stub", "second", {})
    assert day_queries.models_of_day(DAY) == [("stub", ID)]
    assert day_queries.models_of_day(DAY.before(1)) == [("stub", "second")]  # none ran
    assert day_queries.models_of_day(DAY, "stub@second") == [("stub", "second")]
    run_again(tables, "second")  # as where it was stopped: the day is its own now
    assert day_queries.models_of_day(DAY) == [("stub", "second")]
    switch_version(tables.database, "stub", ID, {})
    assert day_queries.models_of_day(DAY) == [("stub", ID)]


def test_a_name_of_which_no_version_is_in_use_is_not_shown(tables, day_queries):
    run_again(tables, "tried", name="new", may_be_put_in_use=False)
    assert day_queries.models_in_use() == day_queries.models_of_day(DAY) == []
    assert day_queries.models_of_day(DAY, "new@tried") == [("new", "tried")]
    with pytest.raises(UsageError, match="no version of new is in use yet, new@tried was only tried") as caught:
        day_queries.models_in_use("new")
    assert caught.value.hint.endswith("`infer model use new@tried`")


def test_what_another_version_in_use_has_done_is_not_pending(tables, day_queries, register, write):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    write("1")
    write("2", reason=Reason.CORRUPT)
    run_again(tables, "tried", may_be_put_in_use=False)
    write("1", "2", "3", model_id="tried")
    switch_version(tables.database, "stub", "second", {})
    assert day_queries.count_older_pending(DAY.before(-1), "second") == 1
    assert day_queries.count_older_pending(DAY.before(-1), "tried") == 0
    assert [one.num_images for one in day_queries.read_older_pending_days(DAY.before(-1), "second")] == [1]
    former = [one for one in day_queries.versions_of("second") if one != "second"]
    left = day_queries.read_pending(DAY, "second", former)
    assert [one.image_id for one in left] == ["3"]
    assert day_queries.count_day(DAY, "second").pending == 3
