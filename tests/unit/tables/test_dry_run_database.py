import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from infer_app.base.domain import CropOutput, Output, Reason
from infer_app.base.errors import UsageError
from infer_app.tables.dry_run_database import RolledBack, open_dry_run_database
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.schema import predictions
from tests.support.results import commit, predicted, stored


def write(database):
    return commit(database, predicted("0", "1", "2"))


def test_rows_are_written_elsewhere_and_gone_afterwards(database):
    before = database.file.read_bytes()
    read_only = Database(f"sqlite:///{database.file}", read_only=True)
    with read_only, open_dry_run_database(read_only) as rehearsal:
        write(rehearsal)
        copy = rehearsal.file
        assert (len(stored(rehearsal, predictions)), stored(read_only, predictions)) == (3, {})
    assert database.file.read_bytes() == before
    assert not Path(copy).parent.exists()


def test_what_is_made_of_a_stored_object_is_written_beside_it(database):
    with open_dry_run_database(database) as rehearsal:
        crop = CropOutput(0, Output("lion", 0.9), number=7)
        written = commit(rehearsal, predicted("1", crops=(crop,)), detector_id="d")
    assert len(written.predictions) == 1


def test_what_the_users_triggers_and_constraints_do_is_rehearsed(database):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (id TEXT)")
        connection.exec_driver_sql("CREATE VIRTUAL TABLE words USING fts5(word)")
        connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON infer_predictions WHEN new.picture = 1"
            " BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER note AFTER INSERT ON infer_predictions BEGIN INSERT INTO mine VALUES (new.picture); END"
        )
    with open_dry_run_database(database) as rehearsal:
        written = write(rehearsal)
        with rehearsal.read() as connection:
            assert connection.exec_driver_sql("SELECT id FROM mine ORDER BY id").scalars().all() == ["0", "2"]
    assert [broken.reason for broken in written.broken] == [Reason.WRITE_ERROR]
    with closing(sqlite3.connect(database.file)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_the_copy_has_the_journal_mode_of_the_file(database, mode):
    """What a commit costs is a matter of that."""
    database.close()
    with closing(sqlite3.connect(database.file)) as connection:
        assert connection.execute(f"PRAGMA journal_mode={mode}").fetchone() == (mode,)
    with open_dry_run_database(database) as rehearsal:
        write(rehearsal)
        with rehearsal.read() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == mode


def test_without_a_temporary_folder_it_says_what_to_do(database, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(UsageError) as caught, open_dry_run_database(database):
        pass
    assert caught.value.hint == "name one with TMPDIR"


def test_where_no_copy_can_be_made_every_write_is_rolled_back(database):
    with RolledBack(database.url) as rolled_back:
        write(rolled_back)
        with rolled_back.write() as connection:
            connection.exec_driver_sql("CREATE TABLE mine (id TEXT)")
        assert stored(rolled_back, predictions) == {}
    with database.read() as connection, pytest.raises(Exception, match="no such table"):
        connection.exec_driver_sql("SELECT * FROM mine")
