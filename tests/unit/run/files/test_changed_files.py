"""Which rejected images are pending again, since their files have changed."""

from datetime import datetime

from sqlalchemy import insert

from infer_app.base.domain import Broken, ChunkResult, FileFacts, ImageRef, Reason
from infer_app.base.errors import ModelError
from infer_app.base.locations import NO_MAPPING
from infer_app.base.settings.sections import SourceSettings
from infer_app.run.files.changed_files import FILES_AT_ONCE, reset_changed_rejections
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.schema import images
from infer_app.tables.results.sink import Sink
from tests.conftest import DAY, MODEL, make_users_file


def look(_, locations, _path_map):
    """A storage of a file that was changed and of others that were not, which answers for FILES_AT_ONCE files."""
    if len(locations) < FILES_AT_ONCE:
        raise ModelError("no answer within 30 s")
    return [FileFacts(1 + location.endswith("/1.jpg"), 1.0, None) for location in locations]


def test_what_had_changed_is_pending_again_though_the_storage_then_stopped_answering(tmp_path):
    """The read that lists the rejected ones has ended by then: it would keep writes out of the file."""
    make_users_file(tmp_path / "lab.db")
    with Database(f"sqlite:///{tmp_path / 'lab.db'}") as database:
        upgrade(database)
        refs = [ImageRef(str(number), f"{tmp_path}/{number}.jpg") for number in range(1, FILES_AT_ONCE + 2)]
        with database.write() as connection:
            rows = [{"location": ref.location, "added_at": datetime(2026, 11, 20, 12)} for ref in refs]
            connection.execute(insert(images), rows)
        broken = tuple(Broken(ref, Reason.CORRUPT, "", "decode", FileFacts(1, 1.0, "ab" * 32)) for ref in refs)
        Sink(database, MODEL.model_id, MODEL.variant, "a run").commit_chunk(ChunkResult(0, (), broken))
        source = Source(database, SourceSettings())
        project = ProjectDatabase(database, source)
        assert reset_changed_rejections(project, NO_MAPPING, DAY, MODEL.model_id, look) == 1
        left = [one.image_id for one in project.rows.final_rejections(DAY, MODEL.model_id)]
        assert left == [ref.image_id for ref in refs[1:]]
