"""What a run asks of a day once it holds it."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.base.domain import Output, Prediction
from infer_app.base.errors import UnusableIds
from infer_app.base.settings.sections import SourceSettings
from infer_app.run import run_day
from infer_app.tables.listing.source import Source
from tests.conftest import DAY, MODEL
from tests.support import results


def test_the_ids_are_checked_again_once_the_day_is_held(tables, register, monkeypatch):
    """A run of another source may have held it until then."""
    database = tables.database
    register("/own/1.jpg")
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE shots (id INTEGER, path TEXT, taken TEXT)")
        connection.exec_driver_sql("INSERT INTO shots VALUES (1, '/shots/1.jpg', '2026-11-20 12:00:00')")
    shots = Source(database, SourceSettings(table="shots", location="path", time="taken", time_zone="UTC"))

    @contextmanager
    def wait_for_day(*_, **__):
        results.run_day(database, shots, DAY, lambda ref: Prediction(ref, Output("cat", 0.9)))
        yield []

    monkeypatch.setattr(run_day, "hold_day", wait_for_day)
    plan = SimpleNamespace(models=[MODEL], model_ids=[MODEL.model_id])
    loaded = SimpleNamespace(run=SimpleNamespace(wait=False))
    project = replace(tables, source=Source(database, SourceSettings()))
    group = SimpleNamespace(project=project, plan=plan, loaded=loaded, stop=None)
    with pytest.raises(UnusableIds, match=r"'/own/1.jpg'.*'/shots/1.jpg' of another source"):
        run_day.run_day(group, DAY)
