"""Which rejected images are pending again, since their files have changed."""

from datetime import datetime

from sqlalchemy import insert

from infer_app.base.domain import Broken, ChunkResult, FileFacts, ImageRef, Reason
from infer_app.base.errors import ModelError
from infer_app.base.locations import NO_MAPPING
from infer_app.base.settings.sections import SourceSettings
from infer_app.run.files import changed_files
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.schema import images
from infer_app.tables.results.sink import Sink
from tests.conftest import DAY, MODEL, make_users_file


def test_what_had_changed_is_pending_again_though_the_storage_then_stopped_answering(tmp_path, monkeypatch):
    """The read that lists the rejected ones has ended by then: it would keep writes out of the file."""
    make_users_file(tmp_path / "lab.db")
    looks = iter([[FileFacts(2, 2.0, None)], [FileFacts(1, 1.0, None)]])

    def look(*_, **__):
        try:
            return next(looks)
        except StopIteration:
            raise ModelError("no answer within 30 s") from None

    monkeypatch.setattr(changed_files, "FILES_AT_ONCE", 1)
    monkeypatch.setattr(changed_files, "_ask", look)
    with Database(f"sqlite:///{tmp_path / 'lab.db'}") as database:
        upgrade(database)
        refs = [ImageRef(str(number), str(tmp_path / f"{number}.jpg")) for number in (1, 2, 3)]
        with database.write() as connection:
            rows = [{"location": ref.location, "added_at": datetime(2026, 11, 20, 12)} for ref in refs]
            connection.execute(insert(images), rows)
        broken = tuple(Broken(ref, Reason.CORRUPT, "", "decode", FileFacts(1, 1.0, "ab" * 32)) for ref in refs)
        Sink(database, MODEL.model_id, MODEL.variant, "a run").commit_chunk(ChunkResult(0, (), broken))
        source = Source(database, SourceSettings())
        project = ProjectDatabase(database, source)
        assert changed_files.reset_changed_rejections(project, NO_MAPPING, DAY, MODEL.model_id) == 1
        assert [one.image_id for one in project.rows.final_rejections(DAY, MODEL.model_id)] == ["2", "3"]
