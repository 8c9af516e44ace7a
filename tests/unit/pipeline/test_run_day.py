"""Parts of the main loop over a real database."""

from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace

import pytest
from sqlalchemy import insert

from infer_app.database.engine.connect import Database
from infer_app.database.listing.recorded_sources import SourceIdentity, record_source
from infer_app.database.listing.source import Source
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.queries.day_queries import DayQueries
from infer_app.database.results.migrate import upgrade
from infer_app.database.results.runs import RunStore
from infer_app.database.results.schema import images
from infer_app.database.results.sink import Sink
from infer_app.domain import Broken, ChunkResult, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.errors import ModelError, UnusableIds
from infer_app.locations import NO_MAPPING
from infer_app.pipeline import changed_files, run_day
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL, make_users_file


@pytest.fixture
def job(tmp_path):
    """Three images that are rejected for good, in a SQLite file with a rollback journal."""
    make_users_file(tmp_path / "lab.db")
    with Database(f"sqlite:///{tmp_path / 'lab.db'}") as database:
        upgrade(database)
        refs = [ImageRef(str(number), str(tmp_path / f"{number}.jpg")) for number in (1, 2, 3)]
        with database.write() as connection:
            rows = [{"location": ref.location, "added_at": datetime(2026, 11, 20, 12)} for ref in refs]
            connection.execute(insert(images), rows)
        facts = FileFacts(1, 1.0, "ab" * 32)
        broken = tuple(Broken(ref, Reason.CORRUPT, "", "decode", facts) for ref in refs)
        Sink(database, MODEL.model_id, MODEL.variant, "a run").commit_chunk(ChunkResult(0, (), broken))
        source = Source(database, SourceSettings())
        tables = ProjectDatabase(database, source, DayQueries(database, source), RunStore(database))
        yield SimpleNamespace(project=tables, read=SimpleNamespace(path_map=NO_MAPPING))


def test_what_had_changed_is_pending_again_though_the_storage_then_stopped_answering(job, monkeypatch):
    """The read that lists the rejected ones has ended by then: it would keep the write out."""
    monkeypatch.setattr(changed_files, "FILES_AT_ONCE", 1)
    looks = iter([[FileFacts(2, 2.0, None)], [FileFacts(1, 1.0, None)]])

    def look(*_, **__):
        try:
            return next(looks)
        except StopIteration:
            raise ModelError("no answer within 30 s") from None

    monkeypatch.setattr(changed_files, "_ask", look)
    assert changed_files.reset_changed_rejections(job, DAY, MODEL.model_id) == 1
    assert [one.image_id for one in job.project.day_queries.final_rejections(DAY, MODEL.model_id)] == ["2", "3"]


def test_the_ids_are_checked_again_once_the_day_is_held(database, register, monkeypatch):
    """A run of another source may have held it until then."""
    register("/own/1.jpg")
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE shots (id INTEGER, path TEXT, taken TEXT)")
        connection.exec_driver_sql("INSERT INTO shots VALUES (1, '/shots/1.jpg', '2026-11-20 12:00:00')")
    shots = Source(database, SourceSettings(table="shots", location="path", time="taken", time_zone="UTC"))

    @contextmanager
    def wait_for_day(job, day, stop):
        number = record_source(database, SourceIdentity.of(shots, database))
        run_id = RunStore(database).open_run(DAY, MODEL, source_id=number)
        its = Prediction(ImageRef("1", "/shots/1.jpg"), Output("cat", 0.9))
        Sink(database, MODEL.model_id, "cpu", run_id).commit_chunk(ChunkResult(0, (its,), ()))
        yield []

    monkeypatch.setattr(run_day, "hold_day", wait_for_day)
    project = SimpleNamespace(database=database, source=Source(database, SourceSettings()))
    job = SimpleNamespace(project=project, model_ids=[MODEL.model_id])
    with pytest.raises(UnusableIds, match=r"'/own/1.jpg'.*'/shots/1.jpg' of another source"):
        run_day.run_day(job, DAY, None, None)
