"""The counts of a day, starts, leases and commits."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import event, insert, select, update

from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject, FileFacts, Reason
from infer_app.base.errors import DayHeld
from infer_app.base.run_report import DayCounts
from infer_app.tables.engine.column_types import UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.forget_results import forget_rejections, forget_results
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.pending_images import PendingDays
from infer_app.tables.results.runs import LEASE_S, RunStore
from infer_app.tables.results.schema import OUR_IMAGES, objects, predictions, rejections, runs
from infer_app.tables.results.views import VIEWS
from infer_app.tables.rows.results import Selection, read, read_rejections
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.listings import select_new
from tests.support.results import broken, commit, predicted, stored
from tests.support.statements import looks_that_wait

ID = MODEL.model_id


def test_the_books_are_counted_from_rows(tables, database, register):
    register(*[f"/{number}.jpg" for number in range(10)])
    ids = [ref.image_id for ref in select_new(database)]
    run_id = tables.run_store.open_run(DAY, MODEL)
    commit(database, predicted(*ids[:3]), broken(ids[3]), run_id)
    commit(database, (), broken(ids[4], reason=Reason.READ_ERROR), run_id)
    commit(database, predicted(*ids[5:7]), model_id="another")
    commit(database, predicted("999", ids[9]), registered=False)  # of another source, whose ids clash
    assert tables.count_day(DAY, ID) == DayCounts(eligible=10, predicted=3, rejected=2, pending=5)
    assert tables.count_day(DAY, "another") == DayCounts(10, 2, 0, 8)
    assert tables.count_day(DAY.before(1), ID) == DayCounts(0, 0, 0, 0)
    assert (tables.count_new(DAY, ID), tables.pending.find_older_pending(DAY.before(-1), ID).num_images) == (6, 5)
    pending = list(tables.pending.read_pending(DAY, ID))
    assert [(one.image_id, one.failure and one.failure.reason) for one in pending] == [
        (ids[4], "read_error"),
        *((image_id, None) for image_id in ids[5:]),
    ]
    assert {one.day for one in pending} == {DAY.date}
    assert tables.pending.find_older_pending(DAY.before(-1), ID) == PendingDays(DAY.date, DAY.date, 5)
    assert tables.pending.find_older_selected(DAY.before(-1), ID, ()) == PendingDays(DAY.date, DAY.date, 6)
    future = replace(DAY, end=Day.of(date(9000, 1, 1), "UTC").end)
    assert list(tables.pending.read_pending(future, ID)) == pending
    failures = {one.image_id: one.failure.reason for one in tables.pending.read_rejected(DAY, ID)}
    assert failures == {ids[3]: "corrupt", ids[4]: "read_error"}
    assert tables.rows.find_problems(DAY, ID) == []
    assert [one.image_id for one in read(tables, DAY, Selection([ID]))] == ids[:3]
    (rejection,) = broken(ids[3])
    rejected = [
        (str(one.picture), one.reason, FileFacts(one.size, one.modified, one.sha256))
        for one in read_rejections(tables, DAY, ID)
    ]
    assert rejected == [(ids[3], "corrupt", rejection.file), (ids[4], "read_error", rejection.file)]
    assert [forget_rejections(database, [int(one) for one in ids], ID) for _ in range(2)] == [2, 0]
    commit(database, predicted(ids[9]), run_id="nobody's")
    with database.write() as connection:
        row = {"picture": int(ids[0]), "model_id": ID, "created_at": datetime(2026, 11, 20)}
        row |= {"run_id": "?", "reason": "odd", "detail": "", "stage": "", "attempts": 1, "decoder": ""}
        connection.execute(insert(rejections), row)
    assert sorted(tables.rows.find_problems(DAY, ID)) == [
        "1 image with both a prediction and a rejection",
        "1 prediction of a run that is not in infer_runs",
        "1 rejection of a run that is not in infer_runs",
        "1 rejection with a reason outside the list",
    ]
    assert tables.rows.runs_of_day(DAY.date, ID)[0]["predicted"] == 3


@only("postgres", "mariadb")  # in SQLite a transaction sees one state of the file
def test_the_counts_of_a_day_add_up_while_images_arrive_and_are_predicted(url, database, register):
    """Another connection commits both after each statement."""
    register("/1.jpg")  # whose time shows how times are written
    numbers = iter(range(2, 100))

    def arrive(*_):
        number = next(numbers)
        register(f"/{number}.jpg")
        commit(database, predicted(str(number)))

    with Database(url) as reader:
        event.listen(reader._engine, "after_cursor_execute", arrive)
        first, later = [ProjectDatabase(reader, Source(reader)).count_day(DAY, ID) for _ in range(2)]
    assert (first.balanced, later.balanced) == (True, True)
    assert later.predicted > first.predicted


def test_a_lost_primary_key_is_reported_though_an_image_has_two_rows(tables, database, register, execute):
    register("/1.jpg", "/2.jpg")
    commit(database, bad=broken("1"), run_id="nobody's")
    lost, twice = "ALTER TABLE infer_rejections DROP", "INSERT INTO infer_rejections SELECT * FROM infer_rejections"
    if database.file is not None:
        execute(*(f"DROP VIEW {view}" for view in {*VIEWS} - {OUR_IMAGES}))
        execute("CREATE TABLE kept AS SELECT * FROM infer_rejections")
        execute("DROP TABLE infer_rejections", "ALTER TABLE kept RENAME TO infer_rejections", twice)
    elif database.dialect.name == "postgresql":
        execute(f"{lost} CONSTRAINT infer_rejections_pkey", twice)
    else:
        execute(f"{lost} FOREIGN KEY infer_rejections_ibfk_1", f"{lost} PRIMARY KEY", twice)
    assert tables.count_day(DAY, ID) == DayCounts(eligible=2, predicted=0, rejected=1, pending=1)
    found = "infer_rejections has lost its primary key: an image may have two rows of one model"
    assert found in tables.rows.find_problems(DAY, ID)


@pytest.mark.parametrize("is_registered", [True, False], ids=["known model", "new model"])
@pytest.mark.parametrize("names", [("stub", "stub"), ("stub", "other")], ids=["one name", "two names"])
def test_a_start_can_not_look_at_the_day_while_another_takes_it(url, database, names, is_registered):
    """By whichever names of the model: predictions are kept by its id."""
    starts = [replace(MODEL, name=name) for name in names]
    if is_registered:
        for model in starts:
            RunStore(database).fail_run(RunStore(database).open_run(DAY, model), 1, "")

    def start(model):
        with Database(url) as own:
            try:
                return own.with_reconnect(lambda: RunStore(own).open_run(DAY, model))
            except DayHeld as held:
                return str(held)

    with looks_that_wait("ORDER BY infer_runs.id") as looked, ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(start, starts))
    with database.read() as connection:
        (run_id,) = connection.scalars(select(runs.c.id).where(runs.c.state == "running"))
    assert looked.together == 0
    assert run_id in outcomes
    assert sum(f"is held by run {run_id}" in outcome for outcome in outcomes) == 1


def test_a_start_and_a_retry_can_not_look_at_the_day_together(url, database):
    """The run would select the image after the look of the retry, and write objects amid its deletions."""
    RunStore(database).fail_run(RunStore(database).open_run(DAY, MODEL), 1, "")
    commit(database, predicted("1"))

    def attempt(work):
        with Database(url) as own, suppress(DayHeld):
            return own.with_reconnect(lambda: work(own))

    with looks_that_wait("ORDER BY infer_runs.id") as looked, ThreadPoolExecutor(2) as threads:
        run_id, forgotten = threads.map(
            attempt,
            [
                lambda own: RunStore(own).open_run(DAY, MODEL),
                lambda own: forget_results(own, {(MODEL.name, ID): [1]}, [DAY.date]),
            ],
        )
    assert looked.together == 0
    assert run_id is not None
    assert forgotten in (1, None)


def test_nothing_is_forgotten_of_a_day_that_a_run_holds(database):
    """The run may have read the image before, and would write what it found in it afterwards."""
    run_id, this = RunStore(database).open_run(DAY, MODEL), (MODEL.name, ID)
    commit(database, predicted("1", objects=(DetectedObject("cat", 0, 0.9, 0, 0, 1, 1),)), run_id=run_id)
    before = DAY.before(1).date
    with pytest.raises(DayHeld, match=f"2026-11-20 with model stub is held by run {run_id}"):
        forget_results(database, {("other", "other"): [1], this: [1]}, [before, DAY.date])
    assert (len(stored(database, predictions)), len(stored(database, objects))) == (1, 1)
    assert forget_results(database, {("other", "other"): [1], this: [1]}, [before]) == 1
    assert stored(database, predictions) == stored(database, objects) == {}


def test_a_start_that_is_refused_puts_no_version_in_use(tables):
    """As of a model that runs by another name, under which it was never run before."""
    tables.run_store.open_run(DAY, MODEL)
    with pytest.raises(DayHeld):
        tables.run_store.open_run(DAY, replace(MODEL, name="other"))
    assert tables.versions.models_in_use() == [(MODEL.name, MODEL.model_id)]


def test_a_lease_runs_out_by_the_databases_clock_and_its_late_owner_writes_nothing(database):
    """All servers run in other zones than UTC here."""
    run_store = RunStore(database)
    asleep = run_store.open_run(DAY, MODEL)
    for age_s, is_held in ((LEASE_S - 30, True), (LEASE_S + 5, False)):
        with database.write() as connection:
            now = connection.execute(select(UtcNow())).scalar_one()
            assert abs(now - datetime.now(UTC).replace(tzinfo=None)) < timedelta(seconds=5)
            connection.execute(update(runs).values(host="elsewhere", heartbeat_at=now - timedelta(seconds=age_s)))
        if is_held:
            with pytest.raises(DayHeld):
                run_store.open_run(DAY, MODEL)
    run_store.open_run(DAY, MODEL)
    with pytest.raises(DayHeld, match="sent no heartbeat"):
        commit(database, predicted("1"), run_id=asleep)
    assert stored(database, predictions) == {}


class Repeating(Database):
    """A database to which the answer of each commit is lost, so that it is done again."""

    def transact(self, work):
        super().transact(work)
        return super().transact(work)


def test_a_commit_whose_answer_was_lost_is_counted_once(database, url):
    run_id = RunStore(database).open_run(DAY, MODEL)
    with Repeating(url) as repeating:
        commit(repeating, predicted("1", "2"), broken("3"), run_id)
    with database.read() as connection:
        assert connection.execute(select(runs.c.selected)).scalars().all() == [3]
