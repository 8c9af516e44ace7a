"""Every test here runs on SQLite, PostgreSQL and MariaDB: a new database for each."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from sqlalchemy import make_url

from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import upgrade
from tests.faults.conftest import Hit, models, seeded  # noqa: F401
from tests.integration.conftest import built_models  # noqa: F401
from tests.support.forgetting import listing, loaded  # noqa: F401
from tests.support.second_networks import DETECTOR, SECOND, D, StoredModel
from tests.support.shots import fill, run  # noqa: F401
from tests.support.statements import connected, execute_all, execute_at


def only(*kinds):
    """Run a test on these databases alone."""
    return pytest.mark.parametrize("kind", kinds, indirect=True, scope="session")


class ServerProject(Hit):
    """A project whose tables are on a server."""

    def __init__(self, folder, url, *more):
        super().__init__(folder, *more)
        self.url = url

    def rows(self, sql):
        with connected(self.url) as connection:
            return [tuple(row) for row in connection.exec_driver_sql(sql)]

    def execute(self, *statements):
        execute_at(self.url, *statements)

    def results(self):
        """Sorted here: databases order text each in their own way."""
        return sorted(super().results())


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
    """execute("CREATE …", …): each statement in one transaction, as of `execute_all`."""

    def execute_statements(*statements):
        with database.write() as connection:
            execute_all(connection, statements)

    return execute_statements


@contextmanager
def roles_of(url):
    """A function that adds a role to the server of a database, and returns the URL by it; they are gone at the end.

    {role} is its name in the statements that it is given, {all} and {schema} are what they grant something on.
    """
    parsed, added = make_url(url), []
    is_postgres = parsed.get_backend_name() == "postgresql"
    name = parsed.database
    schema, every = ("public", "ALL TABLES IN SCHEMA public") if is_postgres else (name, f"{name}.*")
    create = "CREATE ROLE {role} LOGIN PASSWORD" if is_postgres else "CREATE USER {role} IDENTIFIED BY"
    drop = ("DROP OWNED BY {role}", "DROP ROLE {role}") if is_postgres else ("DROP USER {role}",)

    def execute(role, *statements):
        with connected(url) as connection:
            quoted = connection.dialect.identifier_preparer.quote(role)
            for statement in statements:
                connection.exec_driver_sql(statement.format(role=quoted, all=every, schema=schema))

    def add(*statements):
        added.append(f'r{len(added)} "{name[-8:]}"')
        execute(added[-1], f"{create} 'canary'", *statements)
        return parsed.set(username=added[-1], password="canary").render_as_string(hide_password=False)

    try:
        yield add
    finally:
        for role in added:
            execute(role, *drop)


@pytest.fixture
def add_role(url, kind):
    """add_role("GRANT SELECT ON {all} TO {role}", …) as of `roles_of`; skips SQLite, which has none."""
    if kind == "sqlite":
        pytest.skip("it has no roles")
    with roles_of(url) as add:
        yield add


@pytest.fixture
def project(url, tmp_path, monkeypatch, models):  # noqa: F811
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    project = ServerProject(tmp_path / "project", url, models)
    project.upgrade()
    return project


@pytest.fixture
def new_url(new_database):
    """new_url("postgres") is that of a new, empty database."""
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(new_database(kind))


@pytest.fixture
def detector(database):
    return StoredModel(database, DETECTOR)


@pytest.fixture
def species(detector, database):
    return StoredModel(database, SECOND, D)
