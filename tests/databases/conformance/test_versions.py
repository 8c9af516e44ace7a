"""Migrations and versions: one of a name is in use, on every database."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from sqlalchemy import insert, select, text, update

from infer_app.ask.image_list import read_predicted
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import VERSION, VERSION_TABLE, metadata, models
from infer_app.tables.results.views import VIEWS
from tests.conftest import DAY, MODEL
from tests.support.results import commit, predicted, relations


def test_an_upgrade_makes_our_tables_and_leaves_the_users_alone(empty):
    theirs = {"images", "alembic_version"}
    with empty.write() as connection:
        for statement in ("CREATE TABLE images (id INTEGER)", "CREATE TABLE alembic_version (version_num VARCHAR(9))"):
            connection.execute(text(statement))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    assert upgrade(empty) is None
    check_schema(empty)
    assert upgrade(empty) == VERSION
    assert relations(empty) == {*metadata.tables, *VIEWS, VERSION_TABLE, *theirs}
    with empty.read() as connection:
        assert connection.scalars(text("SELECT version_num FROM alembic_version")).all() == ["theirs"]


def model_version(number):
    return type(MODEL)(MODEL.name, f"{number}" * 16, "cpu-torchscript", {"a": "😀"})


def test_the_view_shows_the_version_in_use_and_so_do_the_books(database, tables, register):
    """Image 1 was seen by the first version only, and image 3 by one that was only tried."""
    register("/1.jpg", "/2.jpg", "/3.jpg")
    for number, seen in ((1, "12"), (2, "2"), (3, "123")):
        model = model_version(number)
        if number == 2:
            switch_version(database, model.name, model.model_id, model.manifest)
        tables.run_store.open_run(DAY, model)
        commit(database, predicted(*seen), model_id=model.model_id)
    with database.read() as connection:
        found = connection.execute(text("SELECT image_id, model_id FROM infer_current_predictions ORDER BY image_id"))
        assert [tuple(row) for row in found] == [("1", "1" * 16), ("2", "2" * 16)]
    listed = read_predicted(tables, DAY, None)
    assert [(row.image_id, row.model_id) for row in listed] == [("1", "1" * 16), ("2", "2" * 16)]


def test_a_switch_puts_one_version_in_use_and_a_run_none(database, tables):
    """Whatever the clock said: here version 2 was put in use in the year 2099, and the others within one tick."""
    for number in "213":
        tables.run_store.open_run(DAY, model_version(number))
        commit(database, predicted("1"), model_id=number * 16)
    assert tables.versions.ids_in_use() == {"2" * 16}
    with database.write() as connection:
        connection.execute(update(models).where(models.c.id == "2" * 16).values(in_use_since=datetime(2099, 1, 1)))
    before = "2"
    for days_ago, number in enumerate("12133214", 1):
        model = model_version(number)
        former = switch_version(database, model.name, model.model_id, model.manifest)
        assert former.model_id == before * 16
        before = number
        tables.run_store.open_run(DAY.before(days_ago), model_version("3"))
        with database.read() as connection:
            shown = connection.execute(text("SELECT model_id FROM infer_current_predictions")).scalars().all()
        assert tables.versions.ids_in_use() == {number * 16}
        assert tables.versions.models_of()[0][1] == number * 16
        assert shown == [number * 16 if number != "4" else "1" * 16]  # version 4 never ran


def test_a_first_run_and_two_switches_at_once_leave_one_version_in_use(database):
    def start(number):
        name, model = f"name-{number // 3}", model_version(1 + number % 3)
        with Database(database.url) as own:
            if number % 3:
                switch_version(own, name, model.model_id, model.manifest)
            else:
                RunStore(own).open_run(DAY.before(number), replace(model, name=name))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(start, range(30)))
    with database.read() as connection:
        in_use = connection.scalars(select(models.c.name).where(models.c.in_use_since.is_not(None))).all()
    assert sorted(in_use) == [f"name-{number}" for number in range(10)]


def test_versions_of_one_moment_are_told_in_the_order_of_the_view(database, tables):
    moment = datetime(2026, 1, 1)
    row = {"name": MODEL.name, "manifest": {}, "created_at": moment, "used_until": moment}
    with database.write() as connection:
        connection.execute(insert(models), [row | {"id": version * 16} for version in "132"])
    for version in "123":
        commit(database, predicted("1"), model_id=version * 16)
    with database.read() as connection:
        (current,) = connection.execute(text("SELECT model_id FROM infer_current_predictions")).scalars()
    assert tables.versions.models_of()[0] == (MODEL.name, current)
