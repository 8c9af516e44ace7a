"""Tables of a layout that was released stay usable: tests/releases has those of each engine, with rows and answers."""

import pytest

from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.schema import VERSION
from infer_app.tables.row_audit import audit_rows
from tests.databases.test_first_upgrade import shape
from tests.support.stored_layout import FOLDER, answers, fill, statements, stored

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


def test_the_present_layout_has_the_tables_that_were_stored(kind):
    """Another column needs another number of the layout, and a migration."""
    assert statements(kind) == stored(VERSION)["statements"][kind]
