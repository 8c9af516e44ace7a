"""Every test here runs on SQLite, PostgreSQL and MariaDB: a new database for each."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import create_engine

from infer_app.database.engine.connect import Database
from infer_app.database.results.migrate import upgrade
from tests.databases import servers
from tests.faults.conftest import NUM_PHOTOS, Hit, a_day, models, seeded, uninterrupted  # noqa: F401
from tests.integration.conftest import built_models  # noqa: F401


class ServerProject(Hit):
    """A project whose tables are on a server."""

    url = ""

    def rows(self, sql):
        engine = create_engine(self.url)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.exec_driver_sql(sql)]
        finally:
            engine.dispose()

    def results(self):
        """Sorted here: databases order text each in their own way."""
        return sorted(super().results())

    def kill_in_the_middle(self):
        """A run of the day; how many of its images were done."""
        run = self.start_run("--json")
        self.wait_for_results(run, 20)
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        time.sleep(0.5)  # the server may still commit what it was given
        done = self.count_results()
        assert 20 <= done < NUM_PHOTOS
        return done


@pytest.fixture
def empty(url) -> Iterator[Database]:
    """A database without our tables."""
    with Database(url) as database:
        yield database


@pytest.fixture
def database(empty):
    upgrade(empty)
    return empty


@pytest.fixture
def execute(database):
    """execute("CREATE …", …): each statement in one transaction; :name parameters come as (statement, rows)."""

    def execute_statements(*statements):
        from sqlalchemy import text

        with database.write() as connection:
            for statement in statements:
                sql, rows = statement if isinstance(statement, tuple) else (statement, None)
                connection.execute(text(sql), rows)

    return execute_statements


@pytest.fixture
def make_server_project(url, tmp_path, monkeypatch, models):  # noqa: F811
    """make_server_project("name") is a folder of its own over the one database."""
    monkeypatch.setenv("INFER_DATABASE__URL", url)

    def make(name):
        project = ServerProject(tmp_path / name)
        project.url = url
        project.init()
        project.use_models(models)
        project.upgrade()
        return project

    return make


@pytest.fixture
def project(make_server_project):
    return make_server_project("project")


@pytest.fixture
def new_url(private_server, tmp_path):
    """new_url("postgres", "name") is that of a new, empty database; the name is of a SQLite file."""
    with ExitStack() as stack:

        def create(kind, name):
            if kind == "sqlite":
                return f"sqlite:///{tmp_path / name}.db"
            return stack.enter_context(servers.new_database(private_server(kind).url))

        yield create
