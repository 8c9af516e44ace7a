"""What a run asks of a day once it holds it."""

from functools import cached_property
from types import SimpleNamespace

import pytest

from infer_app.base.errors import UnusableIds
from infer_app.base.settings.sections import SourceSettings
from infer_app.run.run_day import run_day
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.runs import RunStore
from tests.conftest import DAY, MODEL
from tests.support import results


def test_the_ids_are_checked_again_once_the_day_is_held(tables, register):
    """A run of another source may have held it until then."""
    database = tables.database
    register("/own/1.jpg")
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE shots (id INTEGER, path TEXT, taken TEXT)")
        connection.exec_driver_sql("INSERT INTO shots VALUES (1, '/shots/1.jpg', '2026-11-20 12:00:00')")
    shots = Source(database, SourceSettings(table="shots", location="path", time="taken", time_zone="UTC"))

    class Waiting(ProjectDatabase):
        @cached_property
        def run_store(self):  # by which the day is taken
            results.run_day(database, shots, DAY)
            return RunStore(database)

    plan = SimpleNamespace(models=[MODEL], model_ids=[MODEL.model_id])
    loaded = SimpleNamespace(run=SimpleNamespace(wait=False))
    group = SimpleNamespace(project=Waiting(database, tables.source), plan=plan, loaded=loaded, stop=None)
    with pytest.raises(UnusableIds, match=r"'/own/1.jpg'.*'/shots/1.jpg' of another source"):
        run_day(group, DAY)
