import sqlite3
from contextlib import closing

import pytest

from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.propose_mapping import propose


@pytest.fixture
def proposals(tmp_path):
    """What is proposed for a SQLite file made by these statements."""

    def look(*statements):
        file = tmp_path / "theirs.db"
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
        with Database(f"sqlite:///{file}", read_only=True) as database:
            return propose(database)

    return look


def table(columns, *rows, name="t"):
    return [f"CREATE TABLE {name} ({columns})", *(f"INSERT INTO {name} VALUES ({row})" for row in rows)]


PHOTOS = "id INTEGER PRIMARY KEY, path TEXT, added TEXT"


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param([], id="nothing"),
        pytest.param(table(PHOTOS, "1, 'no image', '2026-11-20'"), id="no location"),
        pytest.param(table("path TEXT, added TEXT", "'/a.jpg', '2026-11-20'"), id="no id"),
        pytest.param(table("id INTEGER PRIMARY KEY, path TEXT, size INTEGER", "1, '/a.jpg', 7"), id="no time"),
        pytest.param(table(PHOTOS, "1, NULL, '2026-11-20'"), id="nothing but nulls"),
        pytest.param(table(PHOTOS, "1, '/a.jpg', '2026-11-20'", name="infer_photos"), id="our own"),
    ],
)
def test_a_table_that_lacks_something_or_is_ours_is_not_proposed(proposals, statements):
    assert proposals(*statements) == []


@pytest.mark.parametrize(
    ("value", "has_zone"),
    [
        ("'2026-11-20 01:02:03'", False),
        ("'2026-11-20T01:02:03'", False),
        ("'2026-11-20T01:02:03Z'", True),
        ("'2026-11-20'", True),
        ("1763600000", True),
        ("1763600000123", True),
    ],
)
def test_what_is_said_of_a_times_zone(proposals, value, has_zone):
    (found,) = proposals(*table("id INTEGER PRIMARY KEY, file TEXT, added", f"1, 'a.jpeg', {value}"))
    assert found.time.has_zone is has_zone


def test_arrival_is_taken_before_capture_and_the_column_with_most_images_before_others(proposals):
    columns = 'id TEXT PRIMARY KEY, taken TEXT, thumb TEXT, "Path" TEXT, "created at" TEXT'
    values = [
        "'a', '2026-01-01', NULL, '/x/a.png', '2026-11-20'",
        "'b', '2026-01-01', 'none', '/x/y/b.tif', '2026-11-20'",
    ]
    (found,) = proposals(*table(columns, *values, name='"my photos"'))
    assert (found.location, found.time.name, found.folder) == ("Path", "created at", "/x")
    assert found.index == 'CREATE INDEX "ix_my photos_created at" ON "my photos" ("created at", id);'


@pytest.mark.parametrize(
    "locations",
    [("a.jpg", "/x/b.jpg"), ("/a.jpg", "/b.jpg"), ("s3://x/a.jpg",), ("/x/../b.jpg",)],
    ids=["relative", "the root of all", "remote", "dots"],
)
def test_no_folder_is_allowed_that_the_locations_do_not_share(proposals, locations):
    values = [f"{number}, '{location}', '2026-11-20'" for number, location in enumerate(locations)]
    (found,) = proposals(*table(PHOTOS, *values))
    assert found.folder is None


def test_a_view_that_can_not_be_read_is_passed_over(proposals):
    found = proposals(*table(PHOTOS, "1, '/x/a.jpg', '2026-11-20'"), "CREATE VIEW v AS SELECT * FROM gone")
    assert [one.table for one in found] == ["t"]


def test_values_of_another_type_than_their_column_are_judged_as_they_are(proposals):
    columns = "id BLOB PRIMARY KEY, path BLOB, thumb TEXT, added DATETIME, size INTEGER"
    values = ["'a', '/x/a.jpg', x'ffd8', 1763600000, 'large'", "7, '/x/b.jpg', x'ffd8', '2026-11-20', 3"]
    (found,) = proposals(*table(columns, *values))
    assert (found.location, found.time.name, found.time.example) == ("path", "added", 1763600000)
    assert found.samples == (("a", "/x/a.jpg", 1763600000), (7, "/x/b.jpg", "2026-11-20"))
