"""Tables of a layout that was released stay usable: tests/releases has those of each engine, with rows and answers."""

from datetime import datetime

import pytest
from sqlalchemy import insert, select

from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.stored_notices import Notice, record
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.schema import VERSION, cameras, metadata, notices
from infer_app.tables.row_audit import audit_rows
from tests.databases.test_first_upgrade import shape
from tests.support.statements import connected
from tests.support.stored_layout import FOLDER, answers, fill, statements, stored

AT = datetime(2026, 11, 29, 13)
LAYOUTS = sorted(path.stem.removeprefix("layout_") for path in FOLDER.glob("layout_*.json"))


@pytest.mark.parametrize("version", LAYOUTS)
def test_stored_tables_are_upgraded_and_views_answer_as_they_did(url, version):
    fill(url, version)
    with Database(url) as database:
        assert upgrade(database) == version
        check_schema(database)
        assert list(audit_rows(database)) == []
        found = shape(database)
    assert {view: rows for view, rows in answers(url).items() if view in stored(version)["answers"]} == stored(version)[
        "answers"
    ]
    assert found.keys() >= {*stored(version)["rows"]}
    for one in metadata.sorted_tables:
        columns, indexes, *_ = found[one.name]
        assert columns == sorted(one.c.keys())
        assert {*indexes} >= {index.name for index in one.indexes}


def test_an_upgrade_that_was_stopped_after_some_statements_is_finished_by_the_next(url):
    """As MariaDB leaves it, which keeps each."""
    fill(url, "1")
    with connected(url) as connection:
        connection.exec_driver_sql("ALTER TABLE infer_cameras ADD COLUMN location_id VARCHAR(512)")
        connection.exec_driver_sql("CREATE INDEX ix_infer_predictions_sha256 ON infer_predictions (sha256, picture)")
    with Database(url) as database:
        assert upgrade(database) == "1"
        check_schema(database)
        assert shape(database)["infer_cameras"][0] == sorted(cameras.c.keys())


def test_the_present_layout_has_the_tables_that_were_stored(kind):
    """Another column needs another number of the layout, and a migration."""
    assert statements(kind) == stored(VERSION)["statements"][kind]


def test_a_silent_camera_that_was_told_is_not_told_again_for_an_upgrade(url):
    """Its notice has another text now, and was told anew with each."""
    fill(url, "1")
    with connected(url) as connection:
        row = {"kind": "silent camera", "subject": "b", "key": "former text", "text": "former text", "command": ""}
        connection.execute(insert(notices), row | {"level": "attention", "since": AT, "mailed_at": AT})
    with Database(url) as database:
        upgrade(database)
        silent = Notice("silent camera", "another text", subject="b", key="")
        database.transact(lambda connection: record(connection, [silent]))
        with database.read() as connection:
            told = select(notices.c.text, notices.c.mailed_at).where(notices.c.subject == "b")
            assert connection.execute(told).one() == ("another text", AT)
