"""A statement that fails since the database is away fails as that, whichever question it is of: it may be repeated."""

import sqlite3

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from infer_app.database.figures.disagreement import Disagreement
from infer_app.database.figures.figures import Figures
from infer_app.database.figures.object_figures import ObjectFigures
from infer_app.errors import DatabaseUnavailable
from tests.conftest import DAY, MODEL

ID = MODEL.model_id
OF_DAY = ("count_images",)
OF_MODEL = ("count_day", "count_new", "count_pending", "runs_of", "find_older_pending", "find_pending_between")
LISTS = ("read_pending_days", "read_older_pending_days", "read_pending", "read_predictions", "read_rejections")
QUESTIONS = {
    **{name: lambda ask, name=name: getattr(ask.day, name)(DAY) for name in OF_DAY},
    **{name: lambda ask, name=name: getattr(ask.day, name)(DAY, ID) for name in OF_MODEL},
    **{name: lambda ask, name=name: list(getattr(ask.day, name)(DAY, ID)) for name in LISTS},
    "count_labels": lambda ask: ask.figures.count_labels(DAY),
    "has_predicted": lambda ask: ask.figures.has_predicted(DAY),
    "count_predicted": lambda ask: ask.figures.count_predicted(DAY),
    "score_range": lambda ask: ask.figures.score_range(DAY),
    "count_scores": lambda ask: ask.figures.count_scores(DAY, [0, 0.5, 1]),
    "extremes": lambda ask: ask.figures.extremes(DAY, 3, highest=True),
    "count_objects": lambda ask: ask.objects.count_objects(DAY),
    "busiest": lambda ask: ask.objects.busiest(DAY, 3),
    "overlap": lambda ask: ask.disagreement.overlap(),
    "confusions": lambda ask: ask.disagreement.confusions(3),
    "surest": lambda ask: ask.disagreement.surest(3),
    "pairs": lambda ask: list(ask.disagreement.pairs()),
}


class Ask:
    def __init__(self, tables):
        database, source = tables.database, tables.source
        self.day = tables.day_queries
        self.figures = Figures(database, source, ID)
        self.objects = ObjectFigures(database, source, MODEL.name, ID)
        self.disagreement = Disagreement(database, source, DAY, ID, "another")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_lost_connection_is_told_as_one(tables, register, question):
    register("/1.jpg")
    ask = Ask(tables)

    @event.listens_for(tables.database._engine, "before_cursor_execute")
    def lose(_connection, _cursor, statement, parameters, *_):
        if "infer_predictions" in statement or "infer_images" in statement:
            raise OperationalError(statement, parameters, sqlite3.OperationalError("lost"))

    with pytest.raises(DatabaseUnavailable, match="lost"):
        QUESTIONS[question](ask)
