"""Tables of pictures of the user's, and what a run does with them."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from infer_app.ask.figures.figures import Figures
from infer_app.ask.figures.object_figures import ObjectResults
from infer_app.base.domain import Broken, DetectedObject, FileFacts, Output, Prediction, Reason
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import count_shown
from infer_app.tables.results.schema import objects, predictions, rejections
from infer_app.tables.rows.results import Selection, read
from tests.conftest import DAY, MODEL
from tests.support.listings import listed
from tests.support.results import run_day

ID = MODEL.model_id
MONDAY, TUESDAY = DAY.before(4), DAY.before(3)
SHOTS = SourceSettings(table="shots", location="path", time="taken", time_zone="UTC")
SCANS = SHOTS.model_copy(update={"table": "scans"})
QUERY = SourceSettings(query="SELECT id, path, taken FROM shots", location="path", time="taken", time_zone="UTC")
FOUND = (DetectedObject("cat", 0, 0.9, 0, 0, 1, 1),)


@pytest.fixture
def fill(execute, kind):
    """fill("shots", (id, path, day), …) makes a table of text in its own collations, and adds rows to it."""
    made = set()

    def add(table, *rows):
        at = {"sqlite": "TEXT", "postgres": "TIMESTAMP", "mariadb": "DATETIME"}[kind]
        if table not in made:
            utf8 = " CHARACTER SET utf8mb4" if kind == "mariadb" else ""
            execute(f"CREATE TABLE {table} (id VARCHAR(20), path VARCHAR(200){utf8}, taken {at})")
            made.add(table)
        given = [{"id": i, "path": path, "at": str(noon_of(day))[:19]} for i, path, day in rows]
        execute((f"INSERT INTO {table} VALUES (:id, :path, :at)", given))

    return add


def noon_of(day):
    return day.start.replace(tzinfo=None) + timedelta(hours=12)


@pytest.fixture
def run(database):
    """run(settings, day) does what a run does, with labels that are the locations; locations in `bad` are rejected."""

    def run_settings(settings, day=DAY, bad=(), listing=None):
        source = listed(database, settings, listing)

        def answer(ref):
            if ref.location in bad:
                return Broken(ref, Reason.CORRUPT, "", "decode", FileFacts(1, 1.0, "ab"))
            return Prediction(ref, Output(ref.location, 0.9, objects=FOUND))

        return [ref.location for ref in run_day(database, source, day, answer)]

    return run_settings


def labels_of(database, settings, day=DAY, listing=None):
    """Labels by location, and the counts of the day, which must agree with what the audit and the figures find."""
    source = listed(database, settings, listing)
    asked = ProjectDatabase(database, source)
    found = {one.location: one.label for one in read(asked, day, Selection([ID]))}
    counts = asked.count_day(day, ID)
    assert asked.rows.find_problems(day, ID) == []
    figures = Figures(asked, ID, ObjectResults(asked, MODEL.name, ID))
    assert (counts.predicted, figures.count_predicted(day)) == (len(found), len(found))
    assert figures.count_labels(day) == ({"cat": len(found)} if found else {})
    assert count_shown(database, source, day, MODEL.name) == len(found)
    assert len(list(asked.pending.read_pending(day, ID))) == asked.count_new(day, ID)
    return found, counts


def snapshot(database):
    with database.read() as connection:
        tables = (predictions, objects, rejections)
        return [sorted(map(str, connection.execute(select(table)).all())) for table in tables]
