import sqlite3
from contextlib import closing

import pytest

from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.picture_tables import find_picture_tables


@pytest.fixture
def found(tmp_path):
    """What is found in a SQLite file made by these statements."""

    def look(*statements):
        file = tmp_path / "theirs.db"
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
        with Database(f"sqlite:///{file}", read_only=True) as database:
            return [tuple(table) for table in find_picture_tables(database)]

    return look


@pytest.mark.parametrize(
    ("name", "row"),
    [("t", None), ("t", "1, 'no image', 2.5"), ("t", "1, NULL, NULL"), ("infer_photos", "1, '/a.jpg', NULL")],
    ids=["nothing", "no name of a picture", "nothing but nulls", "our own"],
)
def test_a_table_without_names_of_pictures_or_of_ours_is_left_out(found, name, row):
    rows = [f"INSERT INTO {name} VALUES ({row})"] if row else []
    assert found(f"CREATE TABLE {name} (id INTEGER, path TEXT, size)", *rows) == []


def test_each_column_of_names_is_told_whatever_its_type_says_and_none_is_chosen(found):
    photos = found(
        'CREATE TABLE "my photos" (id INTEGER, path BLOB, thumb TEXT, "at" DATETIME)',
        "INSERT INTO \"my photos\" VALUES (1, x'2f612e6a7067', 'none', NULL), (2, '/b.JPG', 'b.webp?w=40', 7)",
        "CREATE TABLE thumbs (file TEXT)",
        "INSERT INTO thumbs VALUES ('c.heic')",
        "CREATE VIEW broken AS SELECT * FROM gone",
        'CREATE VIEW places AS SELECT path FROM "my photos"',
    )
    assert photos == [
        ("my photos", ["id", "path", "thumb", "at"], {"path": "/a.jpg", "thumb": "b.webp?w=40"}),
        ("thumbs", ["file"], {"file": "c.heic"}),
        ("places", ["path"], {"path": "/a.jpg"}),
    ]


def test_a_url_with_a_query_may_be_a_picture_s(found):
    rows = "(1, 'https://host/img.php?id=5', 'https://host/about')"
    photos = found("CREATE TABLE shots (id INTEGER, link TEXT, page TEXT)", f"INSERT INTO shots VALUES {rows}")
    assert photos == [("shots", ["id", "link", "page"], {"link": "https://host/img.php?id=5"})]
