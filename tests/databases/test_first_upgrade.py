"""A first `infer db upgrade` that stopped half way, as MariaDB leaves it, is finished by the next one."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import count
from threading import Event, Thread

import pytest
from sqlalchemy import Engine, event, inspect, make_url

from infer_app.base.errors import DatabaseUnavailable, SchemaOutdated
from infer_app.tables.engine.connect import Database
from infer_app.tables.results import migrate
from infer_app.tables.results.migrate import check_schema, read_id, upgrade
from infer_app.tables.results.project_row import DatabaseOwner
from infer_app.tables.results.schema import VERSION
from tests.databases import servers
from tests.databases.conftest import ServerProject, only
from tests.faults.project_run import REPOSITORY
from tests.support.projects import DATE
from tests.support.results import relations
from tests.support.statements import execute_at

NOT_INDEX = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, REFERENCES, CREATE VIEW, SHOW VIEW"


class Stopped(Exception):
    """The program ends here."""


def stop_before(number):
    """Raise Stopped before the number-th statement that changes anything."""
    numbers = count(1)

    def stop(connection, cursor, statement, *_):
        if statement.split(maxsplit=1)[0] in ("CREATE", "DROP", "INSERT") and next(numbers) == number:
            raise Stopped

    return stop


def shape(database):
    """Return the names of columns, indexes and keys by their table."""
    parts = ("get_columns", "get_indexes", "get_foreign_keys", "get_unique_constraints")
    with database.read() as connection:
        inspector = inspect(connection)
        return {
            name: [sorted(str(one["name"]) for one in getattr(inspector, part)(name)) for part in parts]
            for name in inspector.get_table_names()
        }


def finish(database):
    assert [upgrade(database), upgrade(database)] == [None, VERSION]
    check_schema(database)
    return shape(database)


def test_stopped_before_any_statement_it_is_finished_by_the_next(kind, new_database, seeded, request):
    with new_database(kind) as url, Database(url) as database:
        whole = finish(database)
    number, is_stopped = 0, True
    while is_stopped:
        number += 1 if request.config.option.full else seeded.randrange(1, 9)
        with new_database(kind) as url, Database(url) as database:
            stop = stop_before(number)
            event.listen(Engine, "before_cursor_execute", stop)
            try:
                upgrade(database)
                is_stopped = False
            except Stopped:
                with pytest.raises(SchemaOutdated) as caught:
                    check_schema(database)
                assert caught.value.hint == "run `infer db upgrade`"
            finally:
                event.remove(Engine, "before_cursor_execute", stop)
            if is_stopped:
                assert finish(database) == whole, f"statement {number}"
    assert number > 25


def test_a_second_upgrade_waits_for_the_first_and_leaves_its_tables(kind, new_database, monkeypatch):
    """Another machine begins when the first one has found no tables, and must not take them for unfinished."""
    begun, threads, drop = Event(), [], migrate._drop_unfinished

    def begin_another(connection):
        drop(connection)
        if not begun.is_set():
            begun.set()
            threads.append(Thread(target=upgrade_there))
            threads[0].start()
            threads[0].join(1)
            assert threads[0].is_alive()

    def upgrade_there():
        with Database(url) as other:
            found.append(upgrade(other))

    found = []
    monkeypatch.setattr(migrate, "_drop_unfinished", begin_another)
    with new_database(kind) as url, Database(url) as database:
        assert upgrade(database, DatabaseOwner("the first", None, None)) is None
        threads[0].join()
        assert (found, read_id(database)) == ([VERSION], (True, "the first"))


@pytest.fixture
def empty_project(url, tmp_path, monkeypatch, models):
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    return ServerProject(tmp_path / "project", url, models)


@only("mariadb")
def test_killed_it_is_finished_and_a_run_works(empty_project):
    project = empty_project
    faults = [sys.executable, "-m", "tests.faults.launch", json.dumps({"statement": 9}), "db", "upgrade"]
    environ = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    killed = subprocess.run(
        faults, cwd=project.folder, env=environ, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    assert killed.returncode == -9, killed.stderr
    project.infer("status", exit_code=11)
    assert "the first `infer db upgrade` has not ended" in project.errors
    assert "was empty" in project.infer("db", "upgrade")
    assert "unchanged" in project.infer("db", "upgrade")
    project.add_photos(3)
    assert project.run_day("--model", "slow")["predicted"] == 3
    project.infer("verify", "--date", DATE)


@only("mariadb")
def test_of_a_role_that_may_make_no_index_it_is_finished_once_it_may(empty, url, add_role):
    role_url = add_role(f"GRANT {NOT_INDEX} ON {{all}} TO {{role}}")
    with Database(role_url) as limited:
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable, match="INDEX command denied") as caught:
                upgrade(limited)
            assert "to make and drop tables, indexes and views" in caught.value.hint
            assert "infer_pictures" in relations(empty)
            with pytest.raises(SchemaOutdated, match="has not ended"):
                check_schema(limited)
    role = make_url(role_url)
    execute_at(url, f"GRANT INDEX ON {role.database}.* TO `{role.username}`")
    with Database(role_url) as limited:
        finish(limited)


@only("mariadb")
def test_tables_have_the_row_format_whose_keys_are_long_enough_whatever_the_servers_is(url):
    execute_at(url, "SET GLOBAL innodb_default_row_format = compact")
    try:
        with Database(url) as database:
            finish(database)
    finally:
        execute_at(url, "SET GLOBAL innodb_default_row_format = dynamic")


def test_of_a_server_with_small_pages_it_says_what_keys_need():
    with ExitStack() as stack:
        try:
            server = stack.enter_context(servers.mariadb("--innodb-page-size=4k"))
        except servers.NoServer as missing:
            pytest.skip(str(missing))
        database = stack.enter_context(Database(stack.enter_context(servers.new_database(server.url))))
        with pytest.raises(DatabaseUnavailable, match="key was too long") as caught:
            upgrade(database)
    assert caught.value.exit_code == 10
    assert "row format DYNAMIC, and innodb_page_size=16k or more" in caught.value.hint
