"""Images listed by one database, results in another: the same answers, and the source is only ever read."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import insert, select, text, update

from infer_app.base.domain import DetectedObject, Output, Prediction, Reason
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source_checks import check_source
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import pictures, predictions, rejections, runs
from infer_app.tables.rows.results import Selection, read
from tests.conftest import DATABASES, DAY, MODEL
from tests.support.listings import listed
from tests.support.questions import questions
from tests.support.results import ODD_TEXTS, broken, commit, predicted, run_day

ID, OTHER, DETECTOR = MODEL.model_id, "another", "detector"
QUICK = [("sqlite", "postgres"), ("postgres", "mariadb"), ("mariadb", "sqlite")]  # each once on either side
PAIRS = [
    pytest.param((source, results), marks=[] if (source, results) in QUICK else [pytest.mark.full])
    for source in DATABASES
    for results in DATABASES
    if source != results
]


@pytest.fixture(params=PAIRS, ids="-to-".join)
def kinds(request):
    return request.param


@pytest.fixture
def source_url(kinds, new_url):
    return new_url(kinds[0])


@pytest.fixture
def results(kinds, new_url):
    with Database(new_url(kinds[1])) as database:
        upgrade(database)
        yield database


@pytest.fixture
def theirs(source_url):
    with Database(source_url) as database:
        yield database


@pytest.fixture
def fill(theirs):
    """fill(table, [(id, location, time)]) makes a table in the source's database."""

    def fill_table(name, rows, id_type="VARCHAR(300)"):
        exact = (
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" if theirs.dialect.name in ("mysql", "mariadb") else ""
        )
        clock = {"sqlite": "TIMESTAMP", "postgresql": "TIMESTAMP"}.get(theirs.dialect.name, "DATETIME(6)")
        charset = exact if id_type.startswith("VARCHAR") else ""
        with theirs.write() as connection:
            create = f"CREATE TABLE {name} (id {id_type}{charset}, location TEXT{exact}, added_at {clock})"
            connection.execute(text(create))
            given = [{"i": i, "at": at, "t": str(t) if t and theirs.file is not None else t} for i, at, t in rows]
            if given:
                connection.execute(text(f"INSERT INTO {name} VALUES (:i, :at, :t)"), given)

    return fill_table


SHOTS = SourceSettings(table="shots", time_zone="UTC")
NOON = datetime(2026, 11, 20, 12)
A_NIGHT = [(str(n), f"/{n}.jpg", NOON + timedelta(seconds=n // 4)) for n in range(100, 140)]
EARLIER = [(str(n), f"/{n}.jpg", NOON - timedelta(days=1 + n % 5)) for n in range(200, 220)]


def write_a_night(database):
    """Results of every kind that a report, a comparison and an audit look for, right and wrong ones."""
    run_id = RunStore(database).open_run(DAY, MODEL)
    write = partial(commit, database, registered=False)
    ids = [row[0] for row in A_NIGHT]
    for number, label in enumerate(("cat", "dog", "cat", "owl")):
        write(predicted(*ids[5 * number : 5 * number + 5], label=label), run_id=run_id)
        write(predicted(*ids[5 * number + 2 : 5 * number + 7], label="dog"), model_id=OTHER)
    write(predicted(*(row[0] for row in EARLIER[:7]), label="cat"), run_id=run_id)
    for number, image_id in enumerate(ids[:20]):
        found = tuple(DetectedObject(f"{number % 3}", 0, 0.9 - 0.1 * place, 0, 0, 1, 1) for place in range(number % 4))
        write(predicted(image_id, objects=found), model_id=DETECTOR)
    change_thresholds(database, "animals", {"1": 0.85})
    write(bad=broken(*ids[20:23]), run_id=run_id)
    write(bad=broken(*ids[23:25], reason=Reason.READ_ERROR), run_id=run_id)
    write(predicted(ids[30]), run_id="nobody's")
    with database.write() as connection:
        numbers = dict(map(tuple, connection.execute(select(pictures.c.image_id, pictures.c.id))))
        for place, image_id in enumerate(ids[:20]):
            its = predictions.c.picture == numbers[image_id], predictions.c.model_id == ID
            connection.execute(update(predictions).where(*its).values(score=0.01 * (place * 7 % 20)))
        row = {
            "picture": numbers[ids[0]],
            "model_id": ID,
            "created_at": NOON,
            "run_id": "?",
            "reason": "odd",
            "detail": "",
        }
        row |= {"stage": "", "attempts": 1, "decoder": ""}
        connection.execute(insert(rejections), row)
        connection.execute(update(runs).values(selected=1, predicted=1, rejected=0))


def answers(tables):
    return {name: ask() for name, ask in questions(tables, ID, OTHER, DETECTOR).items()}


@pytest.mark.parametrize("size", [7, pytest.param(40, marks=pytest.mark.slow)])  # 40: a day that fills its page
def test_every_question_has_the_answer_that_one_database_gives(fill, source_url, results, tmp_path, size):
    """The user's database is opened as a run does: by a connection that may only read."""
    rows = [*A_NIGHT, *EARLIER, ("500", "/no-time.jpg", None)]
    fill("shots", rows)
    with Database(f"sqlite:///{tmp_path / 'one.db'}") as one:
        upgrade(one)
        with one.write() as connection:
            given = [{"id": int(i), "at": place, "time": at and str(at)} for i, place, at in rows]
            connection.execute(text("CREATE TABLE shots (id INTEGER, location TEXT, added_at TIMESTAMP)"))
            connection.execute(text("INSERT INTO shots VALUES (:id, :at, :time)"), given)
        asked = ProjectDatabase(one, listed(one, SHOTS))
        write_a_night(one)
        expected = answers(asked)
    with Database(source_url, read_only=True) as listing:
        asked = ProjectDatabase(results, listed(results, SHOTS, listing, size))
        write_a_night(results)
        found = answers(asked)
    assert len(expected["problems"]) >= 5
    for question, answer in expected.items():
        assert found[question] == answer, question


def test_ids_and_locations_of_any_text_are_matched_and_come_back_as_they_are(fill, theirs, results):
    ids = [*ODD_TEXTS, "x" * 300, "😀" * 300]
    fill("shots", [(i, f"/{n}/{i}\\ '%s' \t😀.jpg", NOON) for n, i in enumerate(ids)])
    check_source(UserTable(theirs, SHOTS))
    source = listed(results, SHOTS, theirs, page_size=4)
    refs = list(source.select_new(DAY, ID))
    assert {ref.image_id for ref in refs} == set(ids)
    good = [Prediction(ref, Output()) for ref in refs[::2]]
    commit(results, good, registered=False)
    assert list(source.select_new(DAY, ID)) == refs[1::2]
    found = read(ProjectDatabase(results, source), DAY, Selection([ID]))
    assert [(one.image_id, one.location) for one in found] == [(ref.image_id, ref.location) for ref in refs[::2]]


@pytest.mark.parametrize("kinds", [("sqlite", "sqlite"), *QUICK[:1]], indirect=True)
def test_an_id_that_no_database_takes_is_escaped(fill, theirs, results):
    fill("shots", [("a", "/a.jpg", NOON)])
    with theirs.write() as connection:
        for odd in ("'b' || char(0)", "CAST(x'61ff' AS TEXT)"):
            connection.exec_driver_sql(f"INSERT INTO shots VALUES ({odd}, '/b.jpg', '2026-11-20 12:00:00')")
    source = listed(results, SHOTS, theirs)
    assert sorted(ref.image_id for ref in run_day(results, source, DAY)) == ["a", "a\\udcff", "b\\x00"]
    assert (run_day(results, source, DAY), source.find_by_id("b\\x00")) == ([], [("/b.jpg", NOON.replace(tzinfo=UTC))])
