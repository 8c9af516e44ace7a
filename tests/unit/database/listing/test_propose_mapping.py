import sqlite3

import pytest

from infer_app.database.engine.connect import Database
from infer_app.database.listing.propose_mapping import propose


@pytest.fixture
def proposals(tmp_path):
    """What is proposed for a SQLite file made by these statements."""

    def look(*statements):
        file = tmp_path / "theirs.db"
        with sqlite3.connect(file) as connection:
            for statement in statements:
                connection.execute(statement)
        with Database(f"sqlite:///{file}", read_only=True) as database:
            return propose(database)

    return look


def rows(table, *values):
    return [f"INSERT INTO {table} VALUES ({one})" for one in values]


def test_of_nothing_nothing_is_proposed(proposals):
    assert proposals() == []


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("id INTEGER PRIMARY KEY, name TEXT, added TEXT", "1, 'no image', '2026-11-20'"),
        ("path TEXT, added TEXT", "'/a.jpg', '2026-11-20'"),
        ("id INTEGER PRIMARY KEY, path TEXT, size INTEGER", "1, '/a.jpg', 7"),
        ("id INTEGER PRIMARY KEY, path TEXT, added TEXT", "1, NULL, '2026-11-20'"),
    ],
    ids=["no location", "no id", "no time", "nothing but nulls"],
)
def test_a_table_that_lacks_something_is_none(proposals, columns, row):
    assert proposals(f"CREATE TABLE t ({columns})", *rows("t", row)) == []


def test_our_own_tables_are_not_proposed(proposals):
    assert proposals("CREATE TABLE infer_images (id INTEGER PRIMARY KEY, location TEXT, added_at TEXT)",
                     *rows("infer_images", "1, '/a.jpg', '2026-11-20'")) == []  # fmt: skip


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
    create = "CREATE TABLE t (id INTEGER PRIMARY KEY, file TEXT, added)"
    (found,) = proposals(create, *rows("t", f"1, 'a.jpeg', {value}"))
    assert found.time.has_zone is has_zone


def test_arrival_is_taken_before_capture_and_the_column_with_most_images_before_others(proposals):
    create = 'CREATE TABLE "my photos" (id TEXT PRIMARY KEY, taken TEXT, thumb TEXT, "Path" TEXT, "created at" TEXT)'
    values = [
        "'a', '2026-01-01', NULL, '/x/a.png', '2026-11-20'",
        "'b', '2026-01-01', 'none', '/x/y/b.tif', '2026-11-20'",
    ]
    (found,) = proposals(create, *rows('"my photos"', *values))
    assert (found.location, found.time.name, found.folder) == ("Path", "created at", "/x")
    assert found.index == 'CREATE INDEX "ix_my photos_created at" ON "my photos" ("created at", id);'


@pytest.mark.parametrize(
    "locations",
    [("a.jpg", "/x/b.jpg"), ("/a.jpg", "/b.jpg"), ("s3://x/a.jpg",), ("/x/../b.jpg",)],
    ids=["relative", "the root of all", "remote", "dots"],
)
def test_no_folder_is_allowed_that_the_locations_do_not_share(proposals, locations):
    create = "CREATE TABLE t (id INTEGER PRIMARY KEY, path TEXT, added TEXT)"
    values = [f"{number}, '{location}', '2026-11-20'" for number, location in enumerate(locations)]
    (found,) = proposals(create, *rows("t", *values))
    assert found.folder is None


def test_a_view_that_can_not_be_read_is_passed_over(proposals):
    found = proposals(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, path TEXT, added TEXT)",
        "CREATE VIEW v AS SELECT * FROM gone",
        *rows("t", "1, '/x/a.jpg', '2026-11-20'"),
    )
    assert [one.table for one in found] == ["t"]


def test_values_of_another_type_than_their_column_are_judged_as_they_are(proposals):
    create = "CREATE TABLE t (id BLOB PRIMARY KEY, path BLOB, thumb TEXT, added DATETIME, size INTEGER)"
    values = ["'a', '/x/a.jpg', x'ffd8', 1763600000, 'large'", "7, '/x/b.jpg', x'ffd8', '2026-11-20', 3"]
    (found,) = proposals(create, *rows("t", *values))
    assert (found.location, found.time.name, found.time.example) == ("path", "added", 1763600000)
    assert found.samples == (("a", "/x/a.jpg", 1763600000), (7, "/x/b.jpg", "2026-11-20"))
