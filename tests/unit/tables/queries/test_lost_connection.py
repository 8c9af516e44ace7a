"""A statement that fails since the database is away fails as that, whichever question it is of: it may be repeated."""

import sqlite3

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from infer_app.base.errors import DatabaseUnavailable
from tests.conftest import DAY, MODEL
from tests.support.questions import questions


def test_a_lost_connection_is_told_as_one_by_every_question(tables, register):
    register("/1.jpg")
    asked = questions(tables, MODEL.model_id, "another", "detector")
    asked["runs"] = lambda: tables.rows.runs_of(DAY, MODEL.model_id)

    @event.listens_for(tables.database._engine, "before_cursor_execute")
    def lose(_connection, _cursor, statement, parameters, *_):
        if "FROM infer_" in statement:
            raise OperationalError(statement, parameters, sqlite3.OperationalError("lost"))

    for name, ask in asked.items():
        with pytest.raises(DatabaseUnavailable, match="lost"):
            pytest.fail(f"{name} was answered: {ask()}")
