"""Every test here runs on SQLite, PostgreSQL and MariaDB: private servers, started once, a new database for each test.

TEST_POSTGRES_URL and TEST_MARIADB_URL name servers to use instead, by a role that may create databases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import create_engine

from infer_app.database.connect import Database
from infer_app.database.migrate import upgrade
from tests.databases import servers
from tests.faults.conftest import NUM_PHOTOS, Hit, a_day, models, seeded, uninterrupted  # noqa: F401
from tests.integration.conftest import Project, built_models  # noqa: F401

DATABASES = ("sqlite", "postgres", "mariadb")


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


@pytest.fixture(scope="session", params=DATABASES)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def server_url(kind) -> Iterator[str | None]:
    """Of the server's maintenance database; None for SQLite."""
    with ExitStack() as stack:
        try:
            given = os.environ.get(f"TEST_{kind.upper()}_URL")
            yield None if kind == "sqlite" else given or stack.enter_context(getattr(servers, kind)()).url
        except servers.NoServer as missing:
            pytest.skip(str(missing))


@pytest.fixture
def url(server_url, tmp_path) -> Iterator[str]:
    """Of a new, empty database."""
    if server_url is None:
        yield f"sqlite:///{tmp_path / 'infer.db'}"
        return
    with servers.new_database(server_url) as created:
        yield created


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
        project.infer("init")
        (project.folder / "models").symlink_to(models)
        project.infer("db", "upgrade")
        return project

    return make


@pytest.fixture
def project(make_server_project):
    return make_server_project("project")
