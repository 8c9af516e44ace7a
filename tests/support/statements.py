"""Statements of a test's own, sent to a database by its URL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text

Statement = str | tuple[str, Sequence[dict[str, Any]]]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Yield a connection in a transaction."""
    engine = create_engine(url, poolclass=NullPool)  # a test may have restarted the server meanwhile
    with engine.begin() as connection:
        yield connection


def execute_all(connection: Connection, statements: Sequence[Statement]) -> None:
    """Execute statements; :name parameters come as (statement, rows)."""
    for statement in statements:
        sql, rows = statement if isinstance(statement, tuple) else (statement, None)
        connection.execute(text(sql), rows)


def execute_at(url: str, *statements: Statement) -> None:
    with connected(url) as connection:
        execute_all(connection, statements)


def refuse(execute, kind, table, condition, *, silently=False):
    """Let a trigger refuse rows of a table."""
    error = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'"
    raised = "IGNORE" if silently else "ABORT, 'not this one'"
    body = {
        "sqlite": f"WHEN {condition} BEGIN SELECT RAISE({raised}); END",
        "mariadb": f"FOR EACH ROW IF {condition} THEN {error}; END IF",
        "postgres": f"FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION refuse()",
    }
    if kind == "postgres":
        done = "RETURN NULL" if silently else "RAISE EXCEPTION 'not this one'"
        execute(f"CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN {done}; END $$ LANGUAGE plpgsql")
    execute(f"CREATE TRIGGER t BEFORE INSERT ON {table} {body[kind]}")


class Looks:
    """Transactions that wait for one another after they have looked at the same rows."""

    def __init__(self) -> None:
        self._both = Barrier(2)
        self.together = 0  # how often two have looked before either went on

    def wait(self) -> None:
        with suppress(BrokenBarrierError):
            self.together += self._both.wait(2) == 0


@contextmanager
def looks_that_wait(of: str) -> Iterator[Looks]:
    """Let a transaction that has sent a statement with this text wait for another one that sends it."""
    looks = Looks()

    def wait(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if of in statement:
            looks.wait()

    event.listen(Engine, "after_cursor_execute", wait)
    try:
        yield looks
    finally:
        event.remove(Engine, "after_cursor_execute", wait)
