"""Parts of the main loop over a real database."""

from datetime import datetime
from types import SimpleNamespace

import pytest
from sqlalchemy import insert

from infer_app import run
from infer_app.database.books import Books
from infer_app.database.connect import Database
from infer_app.database.ledger import Ledger
from infer_app.database.migrate import upgrade
from infer_app.database.schema import images
from infer_app.database.sink import Sink
from infer_app.database.source import Source
from infer_app.errors import ModelError
from infer_app.places import NOTHING_MAPPED
from infer_app.records import Broken, ChunkResult, FileFacts, ImageRef, Reason
from infer_app.settings.sections import SourceSettings
from infer_app.tables import Tables
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
        tables = Tables(database, source, Books(database, source), Ledger(database))
        yield SimpleNamespace(tables=tables, read=SimpleNamespace(path_map=NOTHING_MAPPED))


def test_what_had_changed_is_pending_again_though_the_storage_then_stopped_answering(job, monkeypatch):
    """The read that lists the rejected ones has ended by then: it would keep the write out."""
    monkeypatch.setattr(run, "FILES_AT_ONCE", 1)
    looks = iter([[FileFacts(2, 2.0, None)], [FileFacts(1, 1.0, None)]])

    def look(*_, **__):
        try:
            return next(looks)
        except StopIteration:
            raise ModelError("no answer within 30 s") from None

    monkeypatch.setattr(run, "run_in_process", look)
    assert run.forget_changed(job, DAY, MODEL.model_id) == 1
    assert [one.image_id for one in job.tables.books.final_rejections(DAY, MODEL.model_id)] == ["2", "3"]
