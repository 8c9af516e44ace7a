"""The hint of an error follows what the server said, or is left out."""

import pytest
from sqlalchemy import make_url, text

from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.tables.engine.backend import Hint
from infer_app.tables.engine.connect import Database
from tests.databases.conftest import only


@pytest.fixture
def ask(url):
    """Return the hint of what a connection as a role, after some statements of its own, is refused."""
    with Database(url) as owner, owner.write() as connection:
        connection.execute(text("CREATE TABLE photos (id int)"))

    def refused(*statements, url=url):
        with pytest.raises(DatabaseUnavailable) as caught, Database(url) as database, database.write() as connection:
            for statement in statements:
                connection.execute(text(statement))
        return caught.value.hint

    return refused


def test_a_login_that_is_refused(ask, url, kind):
    if kind == "sqlite":
        pytest.skip("it has no login")
    assert ask("SELECT 1", url=make_url(url).set(database="nowhere").render_as_string(False)) == Hint.LOGIN


@only("postgres")  # PyMySQL leaves a socket open that could not be connected
def test_a_server_that_does_not_answer(ask, url, tmp_path):
    away = make_url(url).update_query_dict({"host": str(tmp_path / "none")})
    assert ask("SELECT 1", url=away.render_as_string(False)) == Hint.SERVER


@only("postgres")
@pytest.mark.parametrize(
    ("statements", "hint"),
    [
        (["SET TRANSACTION READ ONLY", "INSERT INTO photos VALUES (1)"], Hint.READ_ONLY),
        (["SET LOCAL statement_timeout = 20", "SELECT pg_sleep(5)"], Hint.TIME.format("statement_timeout")),
        (["CREATE ROLE reader", "SET LOCAL ROLE reader", "DELETE FROM photos"], Hint.ROLE),
    ],
)
def test_what_postgresql_refuses(ask, statements, hint):
    assert ask(*statements) == hint


@only("mariadb")
@pytest.mark.parametrize(
    ("statements", "hint"),
    [
        (["COMMIT", "START TRANSACTION READ ONLY", "INSERT INTO photos VALUES (1)"], Hint.READ_ONLY),
        (["SET max_statement_time = 0.02", "SELECT SLEEP(5) FROM photos UNION SELECT BENCHMARK(900000000, MD5(1))"],
         Hint.TIME.format("max_statement_time")),
        (["CREATE TABLE wide (a VARCHAR(900) PRIMARY KEY) CHARACTER SET utf8mb4"], None),
    ],
)  # fmt: skip
def test_what_mariadb_refuses(ask, statements, hint):
    found = ask(*statements)
    assert found == hint if hint else found.startswith("keys of our tables need")


@only("sqlite")
def test_a_statement_that_sqlite_refuses_says_nothing_of_the_folder(ask):
    assert ask("SELECT id COLLATE theirs FROM photos ORDER BY 1") == ""


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("postgres", "sslmode=none"),
        ("postgres", "pgbouncer=true"),
        ("mariadb", "ssl=true"),
        ("mariadb", "charset=UTF-8"),
    ],
    indirect=["kind"],
    scope="session",
)
def test_an_option_that_the_driver_does_not_know_or_take_is_a_setting(url, option):
    with pytest.raises(UsageError) as caught, Database(f"{url}{'&' if '?' in url else '?'}{option}") as database:
        database.ask(lambda connection: None)
    assert caught.value.hint == "the options after ? are those of the database's driver"
